package persist

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// A gate is a file system on which, once it is shut, each read of a table waits until it is let through.
type gate struct {
	vfs.FS
	shut    atomic.Bool
	waiting chan struct{} // one for each read that waits
	pass    chan struct{} // one lets a read through that has said that it waits
	open    chan struct{} // closed lets all through
}

func newGate(fs vfs.FS) *gate {
	g := &gate{waiting: make(chan struct{}), pass: make(chan struct{}), open: make(chan struct{})}
	g.FS = errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if g.shut.Load() && op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
			select {
			case g.waiting <- struct{}{}:
				select {
				case <-g.pass:
				case <-g.open:
				}
			case <-g.open:
			}
		}
		return nil
	}))
	return g
}

// manyKeys is more than one block of a table holds.
const manyKeys = 5000

// filled is a file system with manyKeys that was stopped in order, and what they are.
func filledFS(t *testing.T) (vfs.FS, state) {
	fs := vfs.NewMem()
	w := open(t, Options{FS: fs})
	for i := range manyKeys {
		w.debit(fmt.Sprint(i))
	}
	want := maps.Clone(w.state())
	w.close()
	return fs, want
}

// TestLoading: a load tells how far it is, and that it is over.
func TestLoading(t *testing.T) {
	fs, want := filledFS(t)
	g := newGate(fs)
	d, err := Open(Options{FS: g, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if st, on := d.Loading(); on {
		t.Errorf("before the load: %+v", st)
	}
	g.shut.Store(true)
	s := newStore()
	var info LoadInfo
	loaded := make(chan error)
	go func() {
		var err error
		info, err = d.Load(s, start, start+1000)
		loaded <- err
	}()
	begun, steps, last := time.Now().Unix(), 0, LoadStats{Percent: "0.00"}
	for {
		select {
		case <-g.waiting:
			st, on := d.Loading()
			percent, err := strconv.ParseFloat(st.Percent, 64)
			before, _ := strconv.ParseFloat(last.Percent, 64)
			if !on || err != nil || percent < before || percent > 100 || st.LoadedKeys < last.LoadedKeys || st.Keys != manyKeys ||
				st.Started < begun-1 || st.Started > begun+60 || st.LoadedKeys > 0 && st.TotalBytes < 10*manyKeys || st.LoadedBytes > st.TotalBytes || st.Left < 0 {
				t.Errorf("%+v, %v after %+v", st, on, last)
			}
			if stats := d.Stats(); !stats.Loading || stats.LoadKeys < st.LoadedKeys { // others of the load go on
				t.Errorf("%+v while %+v", stats, st)
			}
			if st.LoadedKeys > last.LoadedKeys {
				steps++
			}
			last = st
			g.pass <- struct{}{}
			continue
		case err := <-loaded:
			if err != nil {
				t.Fatal(err)
			}
		}
		break
	}
	close(g.open)
	if steps < 3 {
		t.Errorf("%d steps of progress", steps)
	}
	if st, on := d.Loading(); on || info.Keys != manyKeys || d.Stats().Loading || d.Stats().LoadKeys != manyKeys {
		t.Errorf("after the load of %+v: %+v, %v", info, st, on)
	}
	wantState(t, stateOf(t, s), want)
}

// TestLoadingOfAJournal: what is to be merged first counts as well.
func TestLoadingOfAJournal(t *testing.T) {
	fs := vfs.NewCrashableMem()
	w := open(t, Options{FS: fs, Mode: Shutdown})
	for i := range manyKeys {
		w.debit(fmt.Sprint(i))
	}
	w.save()
	killed := fs.CrashClone(vfs.CrashCloneCfg{})
	w.close()
	d, err := Open(Options{FS: killed, Dir: dir, tune: tuning{mergeLines: 1, mergeBytes: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.loading.begin(time.Now(), d.journal)
	if d.h, err = openHandle(killed, d.generationDir(1), 1, false, &d.site); err != nil {
		t.Fatal(err)
	}
	last := LoadStats{}
	for steps := 0; d.unmerged(); steps++ {
		if err := d.mergeStep(); err != nil {
			t.Fatal(err)
		}
		d.loading.hasMerged(d.merging)
		st, _ := d.Loading()
		if st.Percent <= last.Percent || st.LoadedKeys != 0 {
			t.Errorf("after step %d of the merge: %+v", steps, st)
		}
		last = st
	}
	if last.Percent != "50.00" {
		t.Errorf("after the merge: %+v", last)
	}
}

// TestLoadingFigures has the arithmetic.
func TestLoadingFigures(t *testing.T) {
	began := time.Unix(1000, 0)
	for _, c := range []struct {
		changes, keys, merged, loaded int64
		want                          LoadStats
	}{
		{0, 0, 0, 0, LoadStats{Started: 1000, TotalBytes: 800, Percent: "0.00"}},
		{0, 1000, 0, 0, LoadStats{Started: 1000, TotalBytes: 800, Percent: "0.00", Keys: 1000}},
		{0, 1000, 0, 250, LoadStats{Started: 1000, TotalBytes: 800, LoadedBytes: 200, Percent: "25.00", Left: 30, Keys: 1000, LoadedKeys: 250}},
		{1000, 1000, 500, 0, LoadStats{Started: 1000, TotalBytes: 800, LoadedBytes: 200, Percent: "25.00", Left: 30, Keys: 1000}},
		{1000, 1000, 1000, 500, LoadStats{Started: 1000, TotalBytes: 800, LoadedBytes: 600, Percent: "75.00", Left: 3, Keys: 1000, LoadedKeys: 500}},
		// There were more than the last round had counted.
		{0, 1000, 0, 1100, LoadStats{Started: 1000, TotalBytes: 800, LoadedBytes: 800, Percent: "100.00", Keys: 1100, LoadedKeys: 1100}},
	} {
		var l loading
		l.begin(began, journal{changes: int(c.changes), last: point{keys: int(c.keys)}})
		l.found(800)
		l.merged.Store(c.merged)
		l.loaded.Store(c.loaded)
		if st, on := l.stats(began.Add(10 * time.Second)); !on || st != c.want {
			t.Errorf("%+v: %+v", c, st)
		}
	}
}

// TestAbort: a load ends when it is told to, wherever it is, and what is on disk stays as it was.
func TestAbort(t *testing.T) {
	fs, want := filledFS(t)
	for reads, more := 0, true; more; reads += 9 {
		g := newGate(fs)
		d, err := Open(Options{FS: g, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		g.shut.Store(true)
		loaded := make(chan error)
		go func() {
			_, err := d.Load(newStore(), start, start+1000)
			loaded <- err
		}()
		for n := 0; more && n <= reads; n++ {
			select {
			case <-g.waiting:
				if n < reads {
					g.pass <- struct{}{}
				}
			case err := <-loaded:
				if more = false; err != nil || reads < 5 {
					t.Errorf("a load of %d reads ends with %v", reads, err)
				}
			}
		}
		d.Abort()
		close(g.open)
		if !more {
			d.Close()
			break
		}
		if err := <-loaded; !errors.Is(err, ErrAborted) {
			t.Errorf("after %d reads the load ends with %v", reads, err)
		}
		if _, on := d.Loading(); on {
			t.Error("a load that was ended goes on")
		}
		if err := d.Close(); !errors.Is(err, ErrAborted) {
			t.Errorf("the store closes with %v", err)
		}
		got, info, err := stateOn(t, fs)
		if err != nil || !info.Clean {
			t.Fatalf("after an end at %d reads: %+v, %v", reads, info, err)
		}
		wantState(t, got, want)
	}
	// Before the load, and after it.
	d, err := Open(Options{FS: fs, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	d.Abort()
	if _, err := d.Load(newStore(), start, start); !errors.Is(err, ErrAborted) {
		t.Errorf("a load after Abort: %v", err)
	}
	d.Close()
	w := open(t, Options{FS: fs})
	w.db.Abort()
	w.debit("later")
	w.save()
	w.close()
}
