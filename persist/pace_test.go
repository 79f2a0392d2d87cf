package persist

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestRest: a rest is some times as long as the piece before it, and ends when there is somebody or something to hurry for.
func TestRest(t *testing.T) {
	const piece = time.Millisecond
	for name, c := range map[string]struct {
		piece    time.Duration
		interval time.Duration
		since    time.Duration // the cut
		during   func(d *DB)   // after a ms of the rest
		before   func(d *DB)
		want     time.Duration
	}{
		"nobody waits":           {want: restFactor * piece},
		"a long piece":           {piece: time.Second, want: restMost},
		"somebody waits":         {before: func(d *DB) { d.Save() }},
		"it is urgent":           {before: func(d *DB) { d.Urgent() }},
		"somebody comes":         {during: func(d *DB) { d.Save() }, want: time.Millisecond},
		"a stop":                 {during: func(d *DB) { close(d.stop) }, want: time.Millisecond},
		"the round took long":    {since: pacedMost},
		"a short interval":       {interval: 100 * time.Millisecond, since: 50 * time.Millisecond},
		"not yet so long for it": {interval: 100 * time.Millisecond, since: 49 * time.Millisecond, want: restFactor * piece},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &DB{o: Options{Interval: time.Minute}, feed: newStore().NewFeed(), wake: make(chan struct{}, 1), stop: make(chan struct{})}
				if c.interval != 0 {
					d.o.Interval = c.interval
				}
				d.status.init(time.Now())
				if c.before != nil {
					c.before(d)
				}
				if c.during != nil {
					time.AfterFunc(time.Millisecond, func() { c.during(d) })
				}
				woken := len(d.wake)
				start, began := time.Now(), time.Now().Add(-max(c.piece, piece))
				d.rest(start.Add(-c.since), began)
				if took := time.Since(start); took != c.want {
					t.Errorf("rested for %v, want %v", took, c.want)
				}
				if c.during != nil && name != "a stop" {
					woken = 1
				}
				if len(d.wake) != woken {
					t.Error("a call for the flusher was lost")
				}
				d.status.end() // stops its timer
			})
		})
	}
}

// TestPacedFile: what Pebble writes in the background rests after each piece, unless a writer waits or compactions fall
// behind.
func TestPacedFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pieces = 10
		g := newGuard(vfs.NewMem())
		write := func(c vfs.DiskWriteCategory, want time.Duration) {
			t.Helper()
			f, err := g.Create("file", c)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			for range pieces {
				time.Sleep(pieceTime) // the work on it
				if n, err := f.Write([]byte("block")); n != 5 || err != nil {
					t.Fatal(n, err)
				}
			}
			if took := time.Since(start); took != want {
				t.Errorf("%s: %v, want %v", c, took, want)
			}
			f.Close()
		}
		const work, paced = pieces * pieceTime, pieces * pieceTime * (1 + restFactor)
		write("pebble-wal", work)
		write("pebble-manifest", work)
		for category := range backgroundFiles {
			write(category, paced)
			l := pebbleLog{guard: g}.listener()
			l.WriteStallBegin(pebble.WriteStallBeginInfo{})
			write(category, work)
			l.WriteStallEnd()
			write(category, paced)
			g.pace.rushing.Store(true)
			write(category, work)
			g.pace.rushing.Store(false)
			for _, tables := range []int{behindAt, behindAt - 1, l0Compaction / 2} {
				g.pace.sees(tables)
				write(category, work)
			}
			for _, tables := range []int{l0Compaction/2 - 1, behindAt - 1} {
				g.pace.sees(tables)
				write(category, paced)
			}
		}
	})
}

// TestMergeWaitsForMemtables: while Pebble cannot write its memtables a merge does not make more of them than it may have, so that rounds go
// on; when it can all is merged.
func TestMergeWaitsForMemtables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held atomic.Bool
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			for held.Load() && op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".sst") {
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		}))
		w := open(t, Options{FS: fs, tune: tuning{mergeEntries: 3000}})
		defer func() {
			held.Store(false)
			w.db.Close()
		}()
		held.Store(true)
		for i := range 120 { // tenths of a second
			for k := range 300 {
				w.debit(fmt.Sprint((i*300 + k) % 9000))
			}
			time.Sleep(100 * time.Millisecond)
			if st := w.db.Stats(); st.LagMs > 1200 {
				t.Fatalf("after %d ms: %+v", i*100, st)
			}
		}
		waits := w.db.Stats().Merges
		held.Store(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if st := w.db.Stats(); st.Merges <= waits || st.Pending != 0 {
			t.Errorf("%d merges before, %+v", waits, st)
		}
	})
}

// categories notes why files are made.
type categories struct {
	vfs.FS
	mu   sync.Mutex
	seen map[vfs.DiskWriteCategory]int
}

func (c *categories) Create(name string, why vfs.DiskWriteCategory) (vfs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[why]++
	return c.FS.Create(name, why)
}

// TestBackgroundFiles: the names are those that this version of Pebble gives.
func TestBackgroundFiles(t *testing.T) {
	fs := &categories{FS: vfs.NewMem(), seen: map[vfs.DiskWriteCategory]int{}}
	h, err := newGeneration(fs, dir, 1, point{}, &site{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		err := h.run(func(db *pebble.DB) error {
			for i := range 100 {
				if err := db.Set([]byte(fmt.Sprint("t", i)), []byte{byte(n)}, pebble.NoSync); err != nil {
					return err
				}
			}
			return db.Flush()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := h.run(func(db *pebble.DB) error { return db.Compact(t.Context(), []byte{0}, []byte{255}, false) }); err != nil {
		t.Fatal(err)
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for category := range backgroundFiles {
		if fs.seen[category] == 0 {
			t.Errorf("no file of category %q was made, but %v", category, fs.seen)
		}
	}
}
