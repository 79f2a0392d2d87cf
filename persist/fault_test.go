package persist

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
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

// TestFaultAtEveryOperation: a write operation fails, whichever, alone or with others after it; afterwards everything is on disk, at no
// time is less there than was waited for, and Pebble of the failed handle has been closed (a goroutine left over ends the bubble with a
// panic).
func TestFaultAtEveryOperation(t *testing.T) {
	for _, f := range []*fault{
		{err: errEIO},
		{err: errENOSPC},
		{err: errEIO, lasts: 2500 * time.Millisecond},
		{err: errEIO, second: true},
		{err: errEIO, ours: true},
		{err: errEIO, second: true, ours: true},
	} {
		ops, step := 0, stride()
		if f.ours {
			step = max(1, thin/2)
		}
		for fired := true; fired; ops += step {
			synctest.Test(t, func(t *testing.T) { fired = f.strikes(t, ops) })
		}
		t.Logf("%v, for %v, second %v, our files %v: %d operations", f.err, f.lasts, f.second, f.ours, ops)
	}
}

// A fault is an error at one operation, and also at all others for a while, or at a second one. The second one is the one that is
// counted then, from a first one that makes the server write a new generation.
type fault struct {
	err    error
	lasts  time.Duration
	second bool
	ours   bool // only operations on CURRENT and MARK count

	armed atomic.Bool
	first atomic.Int64 // when it struck, ns
	n     atomic.Int64
}

// inject fails operation number at.
func (f *fault) inject(op errorfs.Op, at int) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || !f.armed.Load() {
		return nil
	}
	now, t0 := time.Now().UnixNano(), f.first.Load()
	switch {
	case f.second && t0 == 0:
		if isSync(op) {
			f.first.Store(now)
			return f.err
		}
	case f.second && now == t0:
		// of the handle that is dead already
	case f.ours && !strings.Contains(op.Path, currentFile+tmpSuffix) && !strings.Contains(op.Path, markFile+tmpSuffix):
	case f.n.Add(1) == int64(at+1):
		f.first.Store(now)
		return f.err
	case f.lasts > 0 && t0 != 0 && now-t0 < int64(f.lasts):
		return f.err
	}
	return nil
}

// strikes lets operation number at fail and says whether there were so many.
func (f *fault) strikes(t *testing.T, at int) (fired bool) {
	run := &fault{err: f.err, lasts: f.lasts, second: f.second, ours: f.ours}
	mem := vfs.NewCrashableMem()
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error { return run.inject(op, at) }))
	endures(t, fmt.Sprint("operation ", at), mem, fs, func() { run.armed.Store(true) })
	return run.n.Load() > int64(at)
}

// endures works on a file system that fails now and then from begin on, over one that does not. At no time is less on disk than was
// waited for, and when the store is closed everything is.
func endures(t *testing.T, what string, mem *vfs.MemFS, fs vfs.FS, begin func()) {
	t.Helper()
	w := open(t, Options{FS: fs, tune: tuning{chunkRecords: 3, mergeEntries: 20}})
	begin()
	allowed := []state{{}} // the last one waited for and all since
	onDisk := func() {
		t.Helper()
		got, _, err := stateOn(t, mem.CrashClone(vfs.CrashCloneCfg{}))
		if err != nil || !slices.ContainsFunc(allowed, func(s state) bool { return maps.Equal(got, s) }) {
			t.Fatalf("%s: %d entries on disk, %v", what, len(got), err)
		}
	}
	for i := range 4 {
		for k := range 10 {
			w.debit(fmt.Sprint(i%2, k), "hot")
		}
		allowed = append(allowed, w.state())
		if err := w.db.Wait(w.db.Save()); err == nil {
			allowed = []state{w.state()}
		}
		onDisk()
		time.Sleep(1100 * time.Millisecond)
	}
	time.Sleep(3 * time.Second)
	if err := w.db.Close(); err != nil && !strings.Contains(err.Error(), "everything is on disk") {
		t.Logf("%s: %v", what, err)
	} else {
		allowed = allowed[len(allowed)-1:]
	}
	onDisk()
}

// TestChangesDuringRecovery: what changes while everything is written anew is in the new generation, whole, or in the next round.
func TestChangesDuringRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		bad := whenOn(isSync, errEIO)
		var w *world
		var changes atomic.Int32
		fs := errorfs.Wrap(mem, errorfs.Any(bad, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, generationName(2)) && changes.Add(1) < 50 {
				for i := range 40 {
					w.debit(fmt.Sprint("a", i), fmt.Sprint("b", i))
				}
				w.forget(fmt.Sprint("gone", changes.Load()))
				w.debit(fmt.Sprint("came", changes.Load()))
			}
			if op.Kind == errorfs.OpRename && strings.Contains(op.Path, currentFile) && changes.Load() > 0 {
				if _, err := mem.Stat(dir + "/" + generationName(1)); err != nil {
					t.Error("the old generation is gone before the new one is current")
				}
			}
			return nil
		})))
		w = open(t, Options{FS: fs, Mode: Shutdown})
		for i := range 3000 {
			w.debit(fmt.Sprint("a", i), fmt.Sprint("b", i), fmt.Sprint("gone", i))
		}
		w.save()
		bad.On()
		w.debit("more")
		if w.db.Wait(w.db.Save()) == nil {
			t.Error("saved on a bad disk")
		}
		bad.Off()
		w.save()
		if n := changes.Load(); n < 5 {
			t.Fatalf("changed something %d times", n)
		}
		if w.db.Stats().Generation != 2 {
			t.Fatal("not in the second generation")
		}
		got, _, err := stateOn(t, mem.CrashClone(vfs.CrashCloneCfg{}))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3000 {
			if a, b := got[fmt.Sprint("a", i)], got[fmt.Sprint("b", i)]; a != b {
				t.Fatalf("torn: a%d %d, b%d %d", i, a, i, b)
			}
		}
		w.save()
		got, _, err = stateOn(t, mem.CrashClone(vfs.CrashCloneCfg{}))
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, got, w.state())
		w.close()
	})
}

// TestReadFails: a load that cannot read something says so, whatever the table gave before.
func TestReadFails(t *testing.T) {
	mem := vfs.NewMem()
	w := open(t, Options{FS: mem})
	for i := range 20_000 {
		w.debit(fmt.Sprint(i))
	}
	w.close()
	var loading atomic.Bool
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if loading.Load() && op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
			return errEIO
		}
		return nil
	}))
	d, err := Open(Options{Dir: dir, FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	loading.Store(true)
	if _, err := d.Load(newStore(), start, start+1000); err == nil || !errors.Is(err, errEIO) || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("%v", err)
	}
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
		time.Sleep(4500 * time.Millisecond) // between two looks of the flusher
		if st := w.db.Stats(); !st.LastSaveOK || st.LagMs != 0 || st.Rewrites != 0 {
			t.Errorf("after the hang: %+v", st)
		}
		w.close()
	})
}

// TestFrozenGuardChangesNothing: after the first failed write the directory is what a power loss would have left, whatever Pebble does.
func TestFrozenGuardChangesNothing(t *testing.T) {
	mem := vfs.NewMem()
	g := newGuard(mem)
	if err := g.MkdirAll(dir, dirMode); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "open"} {
		f, err := g.Create(dir+"/"+name, writeCategory)
		if err == nil {
			_, err = f.Write([]byte("text of " + name))
		}
		if err != nil {
			t.Fatal(err)
		}
		if name == "open" {
			defer f.Close()
			defer func() {
				if n, err := f.Write([]byte("more")); n != 4 || err != nil || f.Sync() != nil {
					t.Errorf("a write to a frozen file: %d, %v", n, err)
				}
			}()
		}
	}
	before := files(t, mem, dir)
	g.fail(errEIO)
	create := func(f vfs.File, err error) error {
		if err == nil {
			_, err = f.Write([]byte("new"))
		}
		if err == nil {
			_, err = f.Stat()
		}
		return errors.Join(err, f.SyncData(), f.Close())
	}
	for what, err := range map[string]error{
		"create":    create(g.Create(dir+"/c", writeCategory)),
		"truncate":  create(g.Create(dir+"/a", writeCategory)),
		"open":      create(g.OpenReadWrite(dir+"/a", writeCategory)),
		"reuse":     create(g.ReuseForWrite(dir+"/a", dir+"/d", writeCategory)),
		"rename":    g.Rename(dir+"/a", dir+"/e"),
		"link":      g.Link(dir+"/a", dir+"/f"),
		"remove":    g.Remove(dir + "/b"),
		"removeall": g.RemoveAll(dir),
		"mkdir":     g.MkdirAll(dir+"/g", dirMode),
	} {
		if err != nil {
			t.Errorf("%s on a frozen guard: %v", what, err)
		}
	}
	if after := files(t, mem, dir); !maps.EqualFunc(before, after, slices.Equal) {
		t.Errorf("changed: %q", after)
	}
}

// TestMarkersComeAfterTheirFiles: a disk may keep names that were not synced in any order, but a marker never without what it names.
func TestMarkersComeAfterTheirFiles(t *testing.T) {
	mem := vfs.NewCrashableMem()
	g := newGuard(mem)
	if err := errors.Join(g.MkdirAll(dir, dirMode), syncDir(mem, "/")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"MANIFEST-000001", markerPrefix + "manifest.000001.MANIFEST-000001"} {
		f, err := g.Create(dir+"/"+name, writeCategory)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, markerPrefix) { // and no sync of the directory yet
			if names, err := mem.CrashClone(vfs.CrashCloneCfg{}).List(dir); err != nil || !slices.Contains(names, "MANIFEST-000001") {
				t.Errorf("%q, %v", names, err)
			}
		}
	}
}

// TestFatalfNeverReturns: Pebble takes data for durable that is not, if it does.
func TestFatalfNeverReturns(t *testing.T) {
	g := newGuard(vfs.NewMem())
	returned := make(chan struct{})
	go func() {
		defer close(returned) // also if it ends the goroutine
		pebbleLog{guard: g, site: new(site)}.Fatalf("cannot go on: %s", "test")
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
	h, err := openHandle(vfs.NewMem(), dir, 1, false, new(site))
	if err != nil {
		t.Fatal(err)
	}
	l := pebbleLog{guard: h.guard, site: new(site)}
	err = h.run(func(*pebble.DB) error { l.Fatalf("parked"); return nil })
	if err == nil || err.Error() != "parked" {
		t.Errorf("%v", err)
	}
	if err := h.run(func(*pebble.DB) error { return nil }); err == nil {
		t.Error("a dead handle runs jobs")
	}
}

// TestDeadHandleNeverSucceeds: the guard lets Pebble believe that all is well; nobody else may, whoever is told first.
func TestDeadHandleNeverSucceeds(t *testing.T) {
	var all sync.WaitGroup
	for range 4 { // more than there may be cores: what must happen at the same time does so more often
		all.Go(func() {
			h := &handle{jobs: make(chan func())}
			go func() {
				for job := range h.jobs {
					job()
				}
			}()
			defer close(h.jobs)
			for i := range 50_000 {
				h.guard = newGuard(vfs.NewMem())
				if err := h.run(func(*pebble.DB) error { h.guard.fail(errEIO); return nil }); err == nil {
					t.Errorf("job %d succeeded on a handle that died meanwhile", i)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestBackgroundEvents: they mark the handle dead, once, and a loop of them does not spin.
func TestBackgroundEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ev := new(site)
		l := pebbleLog{guard: newGuard(vfs.NewMem()), site: ev}
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
