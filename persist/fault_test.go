package persist

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

var (
	errEIO    error = syscall.EIO
	errENOSPC error = syscall.ENOSPC
)

func isSync(op errorfs.Op) bool {
	return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData
}

// whenOn injects err into the operations that match, while it is on.
func whenOn(match func(errorfs.Op) bool, err error) *errorfs.Toggle {
	return &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if match(op) {
			return err
		}
		return nil
	})}
}

// TestSyncFails: an error of the log's fsync is seen by who waits, not by who decides; later everything is on disk again by itself.
func TestSyncFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		bad := whenOn(func(op errorfs.Op) bool { return isSync(op) && strings.HasSuffix(op.Path, ".log") }, errEIO)
		var book logBook
		w := open(t, Options{FS: errorfs.Wrap(mem, bad), Log: book.logger()})
		w.debit("a", "b")
		w.save()
		saved := w.state()

		bad.On()
		w.debit("a", "c")
		err := w.db.Wait(w.db.Save())
		if !errors.Is(err, errEIO) || !strings.Contains(err.Error(), "not on disk") {
			t.Fatalf("Wait: %v", err)
		}
		for i := range 600 {
			w.debit("a", fmt.Sprint("more", i))
			time.Sleep(time.Second)
		}
		if st := w.db.Stats(); st.LastSaveOK || st.LastError == "" || st.LagMs < 599_000 || st.Failures < 10 || st.Failures > 40 {
			t.Fatalf("while the disk is bad: %+v", st)
		}
		if n := book.count("cannot write"); n < 5 || n > 11 {
			t.Errorf("%d lines in 10 minutes of trouble", n)
		}
		// Nobody who waits is kept until the disk is well.
		before := time.Now()
		if err := w.db.Wait(w.feed.Round()); err == nil || time.Since(before) > 0 {
			t.Errorf("Wait took %v: %v", time.Since(before), err)
		}
		crashed, _, err := stateOn(t, mem.CrashClone(vfs.CrashCloneCfg{}))
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, crashed, saved)

		bad.Off()
		time.Sleep(retryMost + time.Second)
		w.debit("after")
		w.save()
		if st := w.db.Stats(); !st.LastSaveOK || st.LastError != "" || st.LagMs != 0 || st.Rewrites != 1 || st.Generation < 2 {
			t.Fatalf("when the disk is well: %+v", st)
		}
		if book.count("works again") != 1 {
			t.Errorf("%q", book.lines)
		}
		want := w.state()
		crashed, _, err = stateOn(t, mem.CrashClone(vfs.CrashCloneCfg{}))
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, crashed, want)
		gens := 0
		names, _ := mem.List(dir)
		for _, name := range names {
			if strings.HasPrefix(name, "gen-") {
				gens++
			}
		}
		if gens != 1 {
			t.Errorf("generations left: %q", names)
		}
		w.close()
	})
}

// TestSaveRecoversAtOnce: whoever has mended the disk need not wait for the back-off.
func TestSaveRecoversAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		bad := whenOn(isSync, errEIO)
		w := open(t, Options{FS: errorfs.Wrap(mem, bad), Mode: Shutdown})
		w.debit("a")
		bad.On()
		for range 3 {
			if err := w.db.Wait(w.db.Save()); !errors.Is(err, errEIO) {
				t.Fatalf("Wait: %v", err)
			}
		}
		bad.Off()
		before := time.Now()
		w.save()
		if time.Since(before) != 0 {
			t.Errorf("took %v", time.Since(before))
		}
		w.close()
	})
}

// TestFaultAtEveryOperation: a write operation fails, whichever, alone or with all after it for some seconds; afterwards everything is on
// disk, and Pebble of the failed handle has been closed (a goroutine left over ends the bubble with a panic).
func TestFaultAtEveryOperation(t *testing.T) {
	for _, f := range []fault{{errEIO, 0}, {errENOSPC, 0}, {errEIO, 2500 * time.Millisecond}} {
		ops := 0
		for fired := true; fired; ops += 2 {
			synctest.Test(t, func(t *testing.T) { fired = f.strikes(t, int32(ops)) })
		}
		t.Logf("%v for %v: %d operations", f.err, f.lasts, ops)
	}
}

type fault struct {
	err   error
	lasts time.Duration
}

// strikes lets operation number at fail and says whether there were so many.
func (f fault) strikes(t *testing.T, at int32) (fired bool) {
	mem := vfs.NewCrashableMem()
	var n atomic.Int32
	var armed atomic.Bool
	var first atomic.Int64 // when it struck, ns
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || !armed.Load() {
			return nil
		}
		now := time.Now().UnixNano()
		if i := n.Add(1) - 1; i == at {
			first.Store(now)
			return f.err
		}
		if t0 := first.Load(); t0 != 0 && now-t0 < int64(f.lasts) {
			return f.err
		}
		return nil
	}))
	w := open(t, Options{FS: fs, tune: tuning{chunkRecords: 3, mergeEntries: 20}})
	armed.Store(true)
	for i := range 4 {
		for k := range 10 {
			w.debit(fmt.Sprint(i%2, k), "hot")
		}
		w.db.Wait(w.db.Save())
		time.Sleep(time.Second)
	}
	time.Sleep(3 * time.Second)
	if err := w.db.Close(); err != nil && !strings.Contains(err.Error(), "everything is on disk") {
		t.Logf("operation %d: %v", at, err)
		if f.lasts > 0 {
			return n.Load() > at // the disk was bad to the end
		}
	}
	got, _, err := stateOn(t, mem.CrashClone(vfs.CrashCloneCfg{}))
	if err != nil {
		t.Fatalf("operation %d: %v", at, err)
	}
	wantState(t, got, w.state())
	return n.Load() > at
}

// TestDiskFull: while there is no room no attempt is made; when there is, everything is written.
func TestDiskFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		full := whenOn(func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpCreate
		}, errENOSPC)
		var creates atomic.Int32
		fs := errorfs.Wrap(mem, errorfs.Any(errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpMkdirAll {
				creates.Add(1)
			}
			return nil
		}), full))
		var book logBook
		w := open(t, Options{FS: fs, Log: book.logger()})
		w.debit("a")
		time.Sleep(2 * time.Second)
		mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 4096, TotalBytes: 1 << 30, UsedBytes: 1<<30 - 4096})
		full.On()
		w.debit("b")
		time.Sleep(2 * time.Second)
		if st := w.db.Stats(); st.LastSaveOK || st.Failures == 0 {
			t.Fatalf("full: %+v", st)
		}
		before := creates.Load()
		time.Sleep(10 * time.Minute)
		if n := creates.Load() - before; n != 0 {
			t.Errorf("%d attempts without room", n)
		}
		if n := book.count(""); n > 20 {
			t.Errorf("%d log lines", n)
		}
		full.Off()
		mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 29, TotalBytes: 1 << 30, UsedBytes: 1 << 29})
		time.Sleep(2 * time.Second)
		if st := w.db.Stats(); !st.LastSaveOK || st.LagMs != 0 {
			t.Errorf("with room again: %+v", st)
		}
		want := w.state()
		w.close()
		got, info, err := stateOn(t, mem)
		if err != nil || !info.Clean {
			t.Fatalf("%+v, %v", info, err)
		}
		wantState(t, got, want)
	})
}

// TestDiskHangs: nothing but who waits is held up, and the figures say so.
func TestDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		var hang atomic.Bool
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if isSync(op) && strings.HasSuffix(op.Path, ".log") && hang.CompareAndSwap(true, false) {
				time.Sleep(12 * time.Second)
			}
			return nil
		}))
		w := open(t, Options{FS: fs})
		hang.Store(true)
		w.debit("a")
		time.Sleep(3 * time.Second)
		before := time.Now()
		w.debit("a", "b")
		if st := w.db.Stats(); !st.LastSaveOK || !st.Writing || st.LagMs < 2000 {
			t.Errorf("after 3 s: %+v", st)
		}
		time.Sleep(7 * time.Second)
		w.debit("a", "b")
		if st := w.db.Stats(); st.LastSaveOK || st.LagMs < 9000 || st.DiskSlow == 0 {
			t.Errorf("after 10 s: %+v", st)
		}
		if d := time.Since(before); d != 7*time.Second {
			t.Errorf("the disk held up decisions: %v", d)
		}
		time.Sleep(4 * time.Second)
		if st := w.db.Stats(); !st.LastSaveOK || st.LagMs != 0 || st.Rewrites != 0 {
			t.Errorf("after the hang: %+v", st)
		}
		w.close()
	})
}

// TestFatalfNeverReturns: Pebble takes data for durable that is not, if it does.
func TestFatalfNeverReturns(t *testing.T) {
	g := newGuard(vfs.NewMem())
	returned := make(chan struct{})
	go func() {
		defer close(returned) // also if it ends the goroutine
		pebbleLog{guard: g, events: new(events)}.Fatalf("cannot go on: %s", "test")
	}()
	<-g.dead
	if err := g.failed(); err == nil || err.Error() != "cannot go on: test" {
		t.Errorf("%v", err)
	}
	select {
	case <-returned:
		t.Fatal("Fatalf returned")
	case <-time.After(50 * time.Millisecond):
	}
}

// TestParkedWorker: a handle whose worker Pebble has taken for good holds up nobody.
func TestParkedWorker(t *testing.T) {
	h, err := openHandle(vfs.NewMem(), dir, 1, false, new(events))
	if err != nil {
		t.Fatal(err)
	}
	l := pebbleLog{guard: h.guard, events: new(events)}
	err = h.run(func(*pebble.DB) error { l.Fatalf("parked"); return nil })
	if err == nil || err.Error() != "parked" {
		t.Errorf("%v", err)
	}
	if err := h.run(func(*pebble.DB) error { return nil }); err == nil {
		t.Error("a dead handle runs jobs")
	}
}

// TestBackgroundEvents: they mark the handle dead, once, and a loop of them does not spin.
func TestBackgroundEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ev := new(events)
		l := pebbleLog{guard: newGuard(vfs.NewMem()), events: ev}
		on := l.listener()
		before := time.Now()
		for range 10 {
			on.BackgroundError(errEIO)
		}
		on.DataCorruption(pebble.DataCorruptionInfo{Path: "x.sst", Details: errors.New("crc")})
		if err := l.guard.failed(); !errors.Is(err, errEIO) {
			t.Errorf("%v", err)
		}
		if d := time.Since(before); d < 9*errorPause {
			t.Errorf("10 errors took %v", d)
		}
		if ev.backgroundErrors.Load() != 10 || ev.corruptions.Load() != 1 {
			t.Errorf("%d, %d", ev.backgroundErrors.Load(), ev.corruptions.Load())
		}
	})
}
