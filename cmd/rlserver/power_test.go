package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/rlserver/rlserver/persist"
)

// A grid is a disk in memory, under a node of this process, whose power can be
// cut: it takes copies of what a disk would hold if it were cut right now, with
// a random part of what was not synced, and what clients had been told by then.
type grid struct {
	mem     *vfs.MemFS
	ledgers []*ledger // the last one is being played
	every   time.Duration

	bad atomic.Bool // syncs fail

	mu   sync.Mutex
	rng  *rand.Rand
	next time.Time // when to take the next copy
	cuts []cut
	ops  int
}

// A cut is a copy, with the moments of the ledgers by then.
type cut struct {
	fs *vfs.MemFS
	at []*moment
	op string
}

func newGrid(seed uint64, every time.Duration) *grid {
	return &grid{mem: vfs.NewCrashableMem(), every: every, rng: rand.New(rand.NewPCG(seed, 0))}
}

// disk puts a node's data on the grid.
func (g *grid) disk(o *persist.Options) {
	o.FS = errorfs.Wrap(g.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		g.take(op)
		if sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData; sync && g.bad.Load() {
			return syscall.EIO
		}
		return nil
	}))
}

// take takes a copy before an operation, if it is time for one.
func (g *grid) take(op errorfs.Op) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ops++
	if now := time.Now(); now.Before(g.next) || len(g.ledgers) == 0 {
		return
	}
	var at []*moment
	for _, l := range g.ledgers {
		at = append(at, l.begin())
	}
	percent := []int{0, 100, g.rng.IntN(101)}[g.rng.IntN(3)]
	fs := g.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: g.rng})
	for i, l := range g.ledgers {
		at[i].end(l)
	}
	g.cuts = append(g.cuts, cut{fs, at, fmt.Sprintf("%d: kind %d of %s, %d%% unsynced kept", g.ops, op.Kind, op.Path, percent)})
	g.next = time.Now().Add(time.Duration(g.rng.Int64N(int64(2 * g.every))))
}

// up starts a node on a disk.
func up(t testing.TB, disk func(*persist.Options), args ...string) (*node, func()) {
	t.Helper()
	inv, err := parseInvocation(append([]string{"--port", "0", "--http-addr", "", "--dir", "/data"}, args...), nil)
	if err != nil {
		t.Fatal(err)
	}
	clock := newClock(machineSlept)
	n, err := startNode(inv.config, clock, slog.New(slog.DiscardHandler), disk)
	if err != nil {
		clock.Stop()
		t.Fatal(err)
	}
	return n, func() {
		if err := n.stop(true); err != nil && !errors.Is(err, syscall.EIO) {
			t.Error(err)
		}
		clock.Stop()
	}
}

// play has clients play on a node for some time, who come back under another name when their connection is closed on them.
func (g *grid) play(t testing.TB, l *ledger, n *node, long time.Duration) {
	t.Helper()
	g.mu.Lock()
	g.ledgers = append(g.ledgers, l)
	g.mu.Unlock()
	end := time.Now().Add(long)
	var clients sync.WaitGroup
	for _, a := range l.actors {
		clients.Go(func() {
			for {
				c := dial(t, n.addrs[0])
				c.nc.SetDeadline(end)
				if err := a.play(c.nc, l.depth); err != nil {
					t.Error(err)
				}
				c.nc.Close()
				if !time.Now().Before(end) {
					return
				}
				a = l.join()
			}
		})
	}
	clients.Go(func() { l.watch(g.until(t, n, end)) })
	if !l.urgent {
		clients.Go(func() { l.save(g.until(t, n, end), 10*time.Millisecond) })
	}
	clients.Wait()
}

func (g *grid) until(t testing.TB, n *node, end time.Time) *testConn {
	c := dial(t, n.addrs[0])
	c.nc.SetDeadline(end)
	return c
}

// TestPowerLoss cuts the power of a node under load, at random operations of its
// file system, also while syncs fail now and then, and starts another on what is
// left: by the promise of its mode, nothing is missing that clients were told.
func TestPowerLoss(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			args := append([]string{"--durability", mode.name}, mode.args...)
			wanted := often(t, "RL_TEST_LOSSES", 1250, 60, 15) // 1,250 in each of four modes are 5,000
			var cuts, ops, deeds, refused int
			for round := uint64(0); cuts < wanted; round++ {
				g := newGrid(seed+round, 8*time.Millisecond)
				for life := range 2 {
					n, stop := up(t, g.disk, args...)
					l := newLedger(fmt.Sprint("l", life), seed+round, mode.name != "shutdown")
					if round%2 == 1 {
						l.depth = 1
						go g.trouble(300 * time.Millisecond)
					}
					g.play(t, l, n, 300*time.Millisecond)
					g.bad.Store(false)
					stop()
					for _, a := range l.actors {
						deeds, refused = deeds+int(a.told.Load()), refused+a.refused
					}
				}
				for _, c := range g.cuts {
					g.verify(t, c, mode.holds, args)
				}
				cuts, ops = cuts+len(g.cuts), ops+g.ops
			}
			t.Logf("%d power losses in %d operations, %d deeds answered, %d refused", cuts, ops, deeds, refused)
		})
	}
}

// trouble has syncs fail now and then for some time.
func (g *grid) trouble(long time.Duration) {
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(40 * time.Millisecond) {
		g.bad.Store(!g.bad.Load())
	}
	g.bad.Store(false)
}

// verify starts a node on a copy and holds what it remembers against the ledgers: of those before the last, all was on disk.
func (g *grid) verify(t *testing.T, c cut, holds promise, args []string) {
	t.Helper()
	n, stop := up(t, func(o *persist.Options) { o.FS = c.fs }, args...)
	defer stop()
	for i, at := range c.at {
		l := g.ledgers[i]
		promise := holds
		if i < len(c.at)-1 {
			promise = keepsAll
		}
		for _, fault := range promise(l, at, l.recall(t, n.addrs[0])) {
			t.Errorf("power lost before operation %s: %s", c.op, fault)
		}
	}
}
