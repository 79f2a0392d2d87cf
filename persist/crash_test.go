package persist

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/rlserver/rlserver/shard"
)

// A crasher takes clones of a file system as a power loss would leave it: before file-system operations, with a random part of what was
// not synced. It also keeps the states that the store had at the end of each round, so that every clone can be held against them.
type crasher struct {
	mem   *vfs.MemFS
	every int // a clone before every that many operations, beginning with different ones

	offset int

	mu     sync.Mutex
	rng    *rand.Rand
	ops    int
	states []state // states[0] is the empty one
	floor  int     // states before this one must not come back
	clones []clone
}

type clone struct {
	fs    *vfs.MemFS
	op    string
	floor int
}

func newCrasher(seed uint64, every int) *crasher {
	return &crasher{mem: vfs.NewCrashableMem(), every: every, offset: int(seed), rng: rand.New(rand.NewPCG(seed, 0)), states: []state{{}}}
}

// fs is the file system to use; extra may inject errors after a clone was taken.
func (c *crasher) fs(extra func(errorfs.Op) error) vfs.FS {
	return errorfs.Wrap(c.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			c.take(fmt.Sprintf("kind %d of %s", op.Kind, op.Path))
		}
		if extra == nil {
			return nil
		}
		return extra(op)
	}))
}

func (c *crasher) take(op string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ops++; (c.ops+c.offset)%c.every != 0 {
		return
	}
	percent := []int{0, 100, c.rng.IntN(101)}[c.rng.IntN(3)]
	fs := c.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.rng})
	c.clones = append(c.clones, clone{fs, fmt.Sprintf("%s, op %d, %d%% unsynced kept", op, c.ops, percent), c.floor})
}

// save saves a round and says so to the clones: until it is durable it may be there or not, then it must. The caller changes nothing
// meanwhile, so that the state now is the state of the round.
func (c *crasher) save(w *world) error {
	c.mu.Lock()
	c.states = append(c.states, maps.Clone(w.state()))
	c.mu.Unlock()
	err := w.db.Wait(w.db.Save())
	if err == nil {
		c.mu.Lock()
		c.floor = len(c.states) - 1
		c.mu.Unlock()
	}
	return err
}

// verify starts on every clone and demands exactly one of the states from its floor on.
func (c *crasher) verify(t *testing.T) {
	t.Helper()
	for _, cl := range c.clones {
		got, _, err := stateOn(t, cl.fs)
		if err != nil {
			t.Fatalf("crash before %s: %v", cl.op, err)
		}
		found := false
		for _, s := range c.states[cl.floor:] {
			found = found || maps.Equal(got, s)
		}
		if !found {
			t.Fatalf("crash before %s: the %d entries found are none of the states %d to %d", cl.op, len(got), cl.floor, len(c.states)-1)
		}
	}
	t.Logf("%d clones of %d operations, %d states", len(c.clones), c.ops, len(c.states))
}

// churn makes a round of pairs, deletions and now and then a clear.
func churn(w *world, rng *rand.Rand) {
	if rng.IntN(12) == 0 {
		w.store.Clear()
	}
	churnLimits(w, rng)
	for range 1 + rng.IntN(12) {
		i := rng.IntN(25)
		a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
		if rng.IntN(4) == 0 {
			w.forget(a)
			w.forget(b)
		} else {
			w.debit(a, b)
		}
	}
}

// seeds is how many histories are tried of so many.
func seeds(n uint64) uint64 {
	switch {
	case soaking:
		return 5 * n
	case testing.Short():
		return 1
	}
	return n
}

// TestPowerLoss: at whatever operation the power goes, the next start finds the state of exactly one round, and none older than the last
// one that was waited for.
func TestPowerLoss(t *testing.T) {
	for seed := range seeds(4) {
		c := newCrasher(seed, thin)
		rng := rand.New(rand.NewPCG(seed, 1))
		for range 2 { // two processes, one after the other
			w := open(t, Options{FS: c.fs(nil), Mode: Shutdown, tune: tuning{chunkRecords: 4, mergeEntries: 40, mergeLines: 2}})
			for range 12 {
				churn(w, rng)
				if err := c.save(w); err != nil {
					t.Fatal(err)
				}
			}
			w.close()
		}
		c.verify(t)
	}
}

// TestPowerLossDuringRecovery: the same while writing fails and everything is written anew.
func TestPowerLossDuringRecovery(t *testing.T) {
	for seed := range seeds(3) {
		c := newCrasher(seed, 2*thin)
		rng := rand.New(rand.NewPCG(seed, 2))
		var failing errorfs.Toggle
		failing.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || strings.HasSuffix(op.Path, ".sst") && op.Kind == errorfs.OpFileWrite {
				return errEIO
			}
			return nil
		})
		w := open(t, Options{FS: c.fs(failing.MaybeError), Mode: Shutdown, tune: tuning{chunkRecords: 4, mergeEntries: 40, mergeLines: 2}})
		for i := range 24 {
			churn(w, rng)
			if i%6 == 2 {
				failing.On()
			}
			err := c.save(w)
			if i%6 == 4 {
				failing.Off()
			}
			if bad := i%6 == 2 || i%6 == 3 || i%6 == 4; bad != (err != nil) {
				t.Fatalf("save %d: %v", i, err)
			}
		}
		w.close()
		c.verify(t)
		got, _, err := stateOn(t, c.mem)
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, got, w.state())
	}
}

// TestCrashAgainAndAgain: a start that is itself cut off, and the one after it, and the one after that, leave a directory from which the
// next one finds the same.
func TestCrashAgainAndAgain(t *testing.T) {
	c := newCrasher(7, 25)
	rng := rand.New(rand.NewPCG(7, 3))
	w := open(t, Options{FS: c.fs(nil), Mode: Shutdown, tune: tuning{chunkRecords: 4, mergeLines: 3}})
	for range 12 {
		churn(w, rng)
		if err := c.save(w); err != nil {
			t.Fatal(err)
		}
	}
	w.close()
	starts, deepest := 0, 3
	if thin > 1 {
		deepest = 2
	}
	var again func(fs *vfs.MemFS, want state, depth int)
	again = func(fs *vfs.MemFS, want state, depth int) {
		starts++
		every := 9 << depth
		if soaking {
			every = 9
		}
		c := &crasher{mem: fs, every: every, offset: rng.IntN(every), rng: rng, states: []state{want}}
		if got, _, err := stateOn(t, c.fs(nil)); err != nil || !maps.Equal(got, want) {
			t.Fatalf("start %d, cut off %d times: %d entries, want %d: %v", starts, depth, len(got), len(want), err)
		}
		if depth < deepest {
			for _, cl := range c.clones {
				again(cl.fs, want, depth+1)
			}
		}
	}
	for _, cl := range c.clones {
		want, _, err := stateOn(t, cl.fs.CrashClone(vfs.CrashCloneCfg{}))
		if err != nil {
			t.Fatal(err)
		}
		again(cl.fs, want, 0)
	}
	t.Logf("%d starts, cut off up to %d times", starts, deepest)
}

// TestTornRoundIsForgotten: what a crash left of a round neither comes back nor stands in the way of the next one.
func TestTornRoundIsForgotten(t *testing.T) {
	mem := vfs.NewCrashableMem()
	w := open(t, Options{FS: mem, Mode: Shutdown})
	w.debit("a")
	w.close()
	w = open(t, Options{FS: mem, Mode: Shutdown}) // nothing but the torn round is in the journal
	want := w.state()
	torn := newRoundWriter(w.db.h, tuning{chunkRecords: 1}.withDefaults(), w.db.journal.last, new(sketch))
	for i := range 6 {
		if err := torn.add(shard.Change{Key: []byte(fmt.Sprint("torn", i)), Kind: 1, Value: []byte{1}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.db.h.run(func(db *pebble.DB) error { return db.LogData(nil, pebble.Sync) }); err != nil {
		t.Fatal(err)
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	w.close()

	w = open(t, Options{FS: crashed, Mode: Shutdown})
	wantState(t, w.state(), want)
	w.debit("b")
	w.save()
	want = w.state()
	crashed = crashed.CrashClone(vfs.CrashCloneCfg{})
	w.close()
	got, _, err := stateOn(t, crashed)
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, got, want)
}
