package persist

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A site is what the handles of one directory have in common: what they report is counted here.
type site struct {
	small bool // the file system is so small that Pebble must be modest

	backgroundErrors atomic.Uint64
	corruptions      atomic.Uint64
	slow             atomic.Uint64
	slowLog          sparse
	log              *slog.Logger
}

// A pebbleLog is Pebble's logger and listener for one handle. Its callbacks run with Pebble's locks held: they never call Pebble and
// never wait, except to park for good or to slow down a loop of errors in a handle that is dead already.
type pebbleLog struct {
	guard *guard
	site  *site
}

// Infof drops Pebble's running commentary.
func (pebbleLog) Infof(string, ...any) {}

// Errorf drops what Pebble says of errors: those that matter come as events.
func (pebbleLog) Errorf(string, ...any) {}

// Fatalf never returns. Pebble calls it where it cannot go on, and most of its callers would take data for durable that is not if they
// were let go. The handle is dead from here on; the goroutine parks, with whatever locks it holds.
func (l pebbleLog) Fatalf(format string, args ...any) {
	l.guard.fail(fmt.Errorf(format, args...))
	select {}
}

// errorPause slows down Pebble's flush, which repeats at once and for ever what failed.
const errorPause = 50 * time.Millisecond

func (l pebbleLog) backgroundError(err error) {
	l.site.backgroundErrors.Add(1)
	if l.guard.frozen() {
		time.Sleep(errorPause)
		return
	}
	l.guard.fail(fmt.Errorf("in the background: %w", err))
}

func (l pebbleLog) dataCorruption(info pebble.DataCorruptionInfo) {
	l.site.corruptions.Add(1)
	l.guard.fail(fmt.Errorf("damaged file %s: %w", info.Path, info.Details))
}

func (l pebbleLog) diskSlow(info vfs.DiskSlowInfo) {
	l.site.slow.Add(1)
	if n, ok := l.site.slowLog.allow(time.Now()); ok {
		l.site.log.Warn("the disk is slow; decisions do not wait for it", "operation", info.OpType.String(), "file", info.Path,
			"seconds", info.Duration.Seconds(), "unlogged", n)
	}
}

// listener must set every event whose default would call Fatalf.
func (l pebbleLog) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: l.backgroundError,
		DataCorruption:  l.dataCorruption,
		WriteStallBegin: func(pebble.WriteStallBeginInfo) { l.guard.pace.stalled.Store(true) },
		WriteStallEnd:   func() { l.guard.pace.stalled.Store(false) },
	}
}

// A sparse lets one thing through every logEvery and counts the rest.
type sparse struct {
	mu     sync.Mutex
	last   time.Time
	missed int
}

// allow says whether it is time, and how many were held back since it was.
func (s *sparse) allow(now time.Time) (missed int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.IsZero() && now.Sub(s.last) < logEvery {
		s.missed++
		return 0, false
	}
	missed, s.last, s.missed = s.missed, now, 0
	return missed, true
}
