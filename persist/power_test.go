package persist

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
	"github.com/rlserver/rlserver/shard/crash"
)

// A powerDisk is a real DB over a file system in memory, that loses its power at some operation of the file system: what follows that
// operation never happened, neither on disk nor for who waits.
type powerDisk struct {
	mode Mode
	rng  *rand.Rand
	db   *DB

	asked   uint64 // the round that somebody waits for
	failing errorfs.Toggle

	mu     sync.Mutex
	mem    *vfs.MemFS
	left   int          // operations until the power goes
	clone  *vfs.MemFS   // what it left, nil as long as there is power
	frozen uint64       // what was durable then
	losses map[bool]int // of power: while writing, and between
}

func newPowerDisk(mode Mode, seed uint64) *powerDisk {
	p := &powerDisk{mode: mode, rng: rand.New(rand.NewPCG(seed, 5)), mem: vfs.NewCrashableMem(), losses: map[bool]int{}}
	p.failing.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
			return errEIO
		}
		return nil
	})
	return p
}

// fs is the file system of a life.
func (p *powerDisk) fs() vfs.FS {
	return errorfs.Wrap(p.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			p.mu.Lock()
			if p.left--; p.left == 0 {
				p.cut()
			}
			p.mu.Unlock()
		}
		return p.failing.MaybeError(op)
	}))
}

// cut is the power going. The caller has the lock.
func (p *powerDisk) cut() {
	if p.clone != nil {
		return
	}
	if p.db != nil {
		p.frozen = p.db.Durable()
	}
	percent := []int{0, 100, p.rng.IntN(101)}[p.rng.IntN(3)]
	p.clone = p.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: p.rng})
}

func (p *powerDisk) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clone != nil
}

// Start implements crash.Disk.
func (p *powerDisk) Start(c shard.Config, clock, maxTS, drain int64) (*shard.Store, error) {
	if p.clone != nil {
		p.mem, p.clone, p.db = p.clone, nil, nil
	}
	s := shard.New(c)
	feed := s.NewFeed()
	db, err := Open(Options{FS: p.fs(), Dir: dir, Mode: p.mode, Interval: time.Hour, tune: tuning{chunkRecords: 4, mergeEntries: 40, mergeLines: 2}})
	if err != nil {
		return nil, err
	}
	if drain != 0 {
		s.Drain(drain)
	}
	if err := db.LoadLimits(s); err != nil {
		return nil, err
	}
	s.Limits().Rebase(maxTS)
	if _, err := db.Load(s, clock, maxTS); err != nil {
		return nil, err
	}
	db.Start(feed, s)
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.db == nil && p.asked == 0
	p.db, p.asked, p.frozen = db, 1, 0
	if p.left = 1 + p.rng.IntN(400); first || p.rng.IntN(4) == 0 {
		p.left = 0 // it goes between two writes
	}
	return s, nil
}

// Ask implements crash.Disk.
func (p *powerDisk) Ask(round uint64) { p.asked = max(p.asked, round) }

// Durable implements crash.Disk.
func (p *powerDisk) Durable() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clone != nil {
		return p.frozen
	}
	return p.db.Durable()
}

// Write implements crash.Disk: now and then who waits has waited long enough, or a round comes by itself, or fails and everything is
// written anew.
func (p *powerDisk) Write(rng *rand.Rand) error {
	switch n := rng.IntN(200); {
	case n == 0:
		p.failing.On()
		_ = p.db.Wait(p.db.Save()) // nil if nothing had changed
		p.failing.Off()
		fallthrough
	case n < 4:
		if err := p.db.Wait(p.db.Save()); err != nil {
			return err
		}
	case n < 40 && p.asked > p.db.Durable():
		if err := p.db.Wait(p.asked); err != nil {
			return err
		}
	}
	if p.gone() {
		return crash.ErrPower
	}
	return nil
}

// Lose implements crash.Disk.
func (p *powerDisk) Lose(*rand.Rand) error {
	p.mu.Lock()
	p.losses[p.left < 0]++
	p.cut()
	p.left = 0
	p.mu.Unlock()
	p.db.Close() // into what nobody will read
	return nil
}

// Stop implements crash.Disk.
func (p *powerDisk) Stop() error {
	err := p.db.Close()
	if p.gone() {
		return crash.ErrPower
	}
	return err
}

// TestPowerLossOfLimits: what shard/crash shows with a simple disk holds with the real one: nothing is admitted twice under always and
// reserve, wherever the power goes; nor under interval and shutdown, where what is lost counts as taken.
func TestPowerLossOfLimits(t *testing.T) {
	everything := crash.Options{Calls: 120, Skew: 1000, Debts: true, Penalties: true, Refunds: true, Resets: true, Limits: true}
	for _, c := range []struct {
		name    string
		mode    Mode
		change  func(o *crash.Options)
		history uint64 // how many of them in make soak
	}{
		{"reserve", Reserve, func(o *crash.Options) { o.Promise, o.Block = shard.Ahead, engine.DefaultBlock }, 130},
		{"reserve, windows", Reserve, func(o *crash.Options) {
			o.Promise, o.Block, o.Refunds, o.Penalties = shard.Ahead, engine.DefaultBlock, false, false
		}, 40},
		{"always", Always, func(o *crash.Options) { o.Promise, o.Exact = shard.Changes, true }, 40},
		{"interval, refund", Interval, func(o *crash.Options) { *o = crash.Options{Calls: 120, Tolerate: true} }, 25},
		{"interval, drain", Interval, func(o *crash.Options) {
			*o = crash.Options{Calls: 120, Skew: 1000, Drain: true, Refunds: true, Resets: true, Limits: true}
		}, 40},
		{"shutdown, drain", Shutdown, func(o *crash.Options) {
			*o = crash.Options{Calls: 120, Skew: 1000, Drain: true, Resets: true, Limits: true}
		}, 25},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := everything
			c.change(&o)
			o.Lives = 20
			histories := c.history
			if !soaking {
				histories, o.Lives = 1, 12/thin+2
			}
			var sum crash.Report
			writing := 0
			for seed := range histories {
				o.Seed = seed
				p := newPowerDisk(c.mode, seed)
				r, err := crash.Run(o, p)
				if err != nil {
					t.Fatal(err)
				}
				sum.Add(r)
				writing += p.losses[true]
			}
			t.Logf("%d histories, seeds from 0, %d power losses while the disk wrote: %+v", histories, writing, sum)
			if sum.Twice > sum.Lost {
				t.Errorf("%d tokens were admitted twice, %d lost", sum.Twice, sum.Lost)
			}
		})
	}
}
