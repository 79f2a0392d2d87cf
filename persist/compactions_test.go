package persist

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A fakePebble would like to compact so often, and does it as Pebble does: it asks with its lock held, remembers a refusal and does not
// ask again until it is called.
type fakePebble struct {
	t       *testing.T
	c       *compactions
	mu      sync.Mutex
	due     int
	waiting bool
	running int
	done    int
}

func (p *fakePebble) GetAllowedWithoutPermission() int { return 1 }

// ended is how many compactions are over, when all that is going to happen has.
func (p *fakePebble) ended() int {
	time.Sleep(time.Minute)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// want makes one more compaction due.
func (p *fakePebble) want() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due++
	if p.waiting {
		return
	}
	if ok, handle := p.c.TrySchedule(); ok {
		p.begin(handle)
	} else {
		p.waiting = true
	}
}

func (p *fakePebble) begin(handle pebble.CompactionGrantHandle) {
	if p.running++; p.running > 1 {
		p.t.Error("two compactions at once")
	}
	p.due--
	go func() {
		time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
		p.mu.Lock()
		p.running--
		p.done++
		p.mu.Unlock()
		handle.Done()
	}()
}

func (p *fakePebble) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	time.Sleep(time.Millisecond)
	defer time.Sleep(time.Millisecond) // what comes now is in no answer
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = p.waiting && p.due > 0
	return p.waiting, pebble.WaitingCompaction{}
}

func (p *fakePebble) Schedule(handle pebble.CompactionGrantHandle) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting = p.waiting && p.due > 0; p.waiting {
		p.begin(handle)
		return true
	}
	return false
}

// TestCompactionsGoOn: whenever one is wanted, while others run or are asked for, it comes in the end, one at a time.
func TestCompactionsGoOn(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			c := newCompactions(false)
			p := &fakePebble{t: t, c: c}
			c.Register(2, p)
			const callers, each = 3, 5
			for range callers {
				go func() {
					for range each {
						time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond)
						p.want()
					}
				}()
			}
			if done := p.ended(); done != callers*each {
				t.Fatalf("%d compactions of %d", done, callers*each)
			}
			c.Unregister()
		})
	}
}

// TestCompactionsAreHeld: none begins until the hold ends, and none once Pebble closes.
func TestCompactionsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCompactions(true)
		p := &fakePebble{t: t, c: c}
		c.Register(2, p)
		p.want()
		p.want()
		if p.ended() != 0 {
			t.Error("a compaction while they are held")
		}
		c.release()
		if done := p.ended(); done != 2 {
			t.Errorf("%d compactions of 2 after the hold", done)
		}
		c.Unregister()
		p.want()
		c.release()
		if p.ended() != 2 {
			t.Error("a compaction of a store that closes")
		}
	})
}

// TestReleaseBeforePebble: a hold that ends before Pebble is open holds nothing.
func TestReleaseBeforePebble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCompactions(true)
		c.release()
		p := &fakePebble{t: t, c: c}
		c.Register(2, p)
		p.want()
		if p.ended() != 1 {
			t.Error("no compaction")
		}
	})
}

// TestLoadHoldsCompactions: a load has none beside it, unless the journal is so large that the merge could wait for one for ever.
func TestLoadHoldsCompactions(t *testing.T) {
	fs := vfs.NewCrashableMem()
	w := open(t, Options{FS: fs, Mode: Shutdown})
	for i := range 50 {
		w.debit(fmt.Sprint("key", i))
	}
	w.save()
	killed := fs.CrashClone(vfs.CrashCloneCfg{})
	w.close()
	for mergeBytes, held := range map[int]bool{100: false, 1 << 20: true} {
		d, err := Open(Options{Dir: dir, FS: killed.CrashClone(vfs.CrashCloneCfg{}), Mode: Shutdown, tune: tuning{mergeBytes: mergeBytes}})
		if err != nil {
			t.Fatal(err)
		}
		store := newStore()
		feed := store.NewFeed()
		info, err := d.Load(store, start, start+1000)
		if err != nil || info.Keys != 50 {
			t.Fatalf("%+v, %v", info, err)
		}
		isHeld := func() bool {
			d.h.compactions.mu.Lock()
			defer d.h.compactions.mu.Unlock()
			return d.h.compactions.held
		}
		if isHeld() != held {
			t.Errorf("with a journal of %d bytes and merges at %d compactions are held: %v", d.journal.bytes, mergeBytes, !held)
		}
		c := d.h.compactions
		d.Start(feed, store)
		if err := d.Wait(d.Save()); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		if c.held || !c.ended {
			t.Errorf("after the stop compactions are held: %v", c.held)
		}
		c.mu.Unlock()
	}
}
