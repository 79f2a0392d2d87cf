package persist

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pacing. Who waits for nothing shall not notice that something is being written. The work is long, 0.1 s for a round of 50,000 changes
// and as much for merging and compacting it, and on a machine of few cores a call that comes meanwhile would wait for a core, up to the
// 10 ms after which Go takes it from a goroutine. So it is done in pieces, and after each comes a rest of some times its length: callers
// wait for a piece at the most. A round that somebody waits for, a stop and whatever falls behind is done without rests.

const (
	// pieceChanges is how many changes are drained between two rests: 0.3 ms.
	pieceChanges = 128
	// restFactor is how many times as long as the piece before it a rest is.
	restFactor = 4
	// restMost is the longest rest.
	restMost = 10 * time.Millisecond
	// pacedMost is how long a round may take with rests, and that as a part of the interval at the most.
	pacedMost  = 500 * time.Millisecond
	pacedShare = 2
	// pieceTime is how long Pebble may work in the background between two rests.
	pieceTime = 250 * time.Microsecond
	// behindAt is how many tables may lie on top of one another before Pebble is not paced any more, until there are as few as a compaction
	// leaves: at l0StopWrites it would make writers wait.
	behindAt = l0StopWrites / 2
)

// rest is a rest after a piece of the round cut at the time given, that began when began says.
func (d *DB) rest(cut, began time.Time) {
	now := time.Now()
	if d.status.awaited() || now.Sub(cut) >= min(pacedMost, d.o.Interval/pacedShare) {
		return
	}
	pause := min(restFactor*now.Sub(began), restMost)
	if pause <= 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.wake:
		d.wakeUp() // it is for later
	case <-d.dead():
	case <-d.stop:
	}
}

// nextMerge is when the next step of a merge is due after one that began at the time given.
func (d *DB) nextMerge(began time.Time) time.Time {
	now := time.Now()
	if d.late() {
		return now
	}
	return now.Add(min(restFactor*now.Sub(began), restMost))
}

// late says whether the next merge is due, too.
func (d *DB) late() bool {
	return d.journal.bytes >= 2*d.o.tune.mergeBytes || d.distinct.count >= d.o.tune.mergeEntries
}

// awaited says whether somebody waits for the round being written.
func (s *status) awaited() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil || max(s.asked, s.urgent) > s.durable
}

// A pace slows down what Pebble does in the background to one generation, unless something speaks against it.
type pace struct {
	rushing atomic.Bool // while the whole generation is being written, or closed
	stalled atomic.Bool // while Pebble makes a writer wait
	crowded atomic.Bool // while a merge that is late waits for memtables to be written
	behind  atomic.Bool // while too much is to be compacted
}

func (p *pace) slows() bool {
	return !p.rushing.Load() && !p.stalled.Load() && !p.crowded.Load() && !p.behind.Load()
}

// sees is told how many tables lie on top of one another.
func (p *pace) sees(tables int) {
	switch {
	case tables >= behindAt:
		p.behind.Store(true)
	case tables < l0Compaction/2:
		p.behind.Store(false)
	}
}

// backgroundFiles are Pebble's names for what it writes in the background.
var backgroundFiles = map[vfs.DiskWriteCategory]bool{"pebble-memtable-flush": true, "pebble-compaction": true}

// A pacedFile is a table that Pebble writes in the background. One goroutine writes it.
type pacedFile struct {
	vfs.File
	pace  *pace
	began time.Time // when the piece at hand did
}

func (p *pace) file(f vfs.File, c vfs.DiskWriteCategory) vfs.File {
	if !backgroundFiles[c] {
		return f
	}
	return &pacedFile{File: f, pace: p, began: time.Now()}
}

func (f *pacedFile) Write(b []byte) (int, error) {
	now := time.Now()
	if took := now.Sub(f.began); took >= pieceTime {
		if f.pace.slows() {
			time.Sleep(min(restFactor*took, restMost))
		}
		f.began = time.Now()
	}
	return f.File.Write(b)
}
