package persist

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// synced makes a file system of files that are on its disk.
func synced(t testing.TB, m map[string][]byte) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if err := fs.MkdirAll(fs.PathDir(name), dirMode); err != nil {
			t.Fatal(err)
		}
		f, err := fs.Create(name, writeCategory)
		if err == nil {
			_, err = f.Write(slices.Clone(m[name]))
		}
		if err == nil {
			err = f.Sync()
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		for at := fs.PathDir(name); ; at = fs.PathDir(at) {
			if err := syncDir(fs, at); err != nil {
				t.Fatal(err)
			}
			if at == "/" {
				break
			}
		}
	}
	return fs
}

// unfinished says what a start finds in a directory that a tool may not have finished: it is refused, or complete, or there is nothing
// in it yet.
func unfinished(t *testing.T, fs vfs.FS, at string, want state) string {
	t.Helper()
	names, err := fs.List(at)
	if err != nil || len(names) == 0 {
		return "nothing"
	}
	w, err := opened(t, Options{FS: fs, Dir: at, Mode: Shutdown})
	if err != nil {
		if !helpful(err) {
			t.Errorf("refused with %v", err)
		}
		if c, checkErr := Check(at, fs); checkErr != nil || c.Damage.Total == 0 {
			t.Errorf("a start refuses it, the check finds %+v, %v", c, checkErr)
		}
		return "refused"
	}
	wantState(t, w.state(), want)
	w.close()
	return "complete"
}

// TestRepairCutOff: whenever the process is killed or the power goes, what the repair has made by then is refused, or complete.
func TestRepairCutOff(t *testing.T) {
	h := newHistory(t)
	for seed := range uint64(2) {
		mem := synced(t, h.crashed.files)
		c := newCrasher(seed, thin)
		c.mem = mem
		if _, err := Repair(dir, newDir, c.fs(nil), nil); err != nil {
			t.Fatal(err)
		}
		found := map[string]int{}
		for i, cl := range c.clones {
			what := unfinished(t, cl.fs, newDir, h.crashed.want)
			if found[what]++; what == "nothing" && i > 3 {
				t.Errorf("at %s there is nothing yet", cl.op)
			}
		}
		if found[unfinished(t, mem, newDir, h.crashed.want)]++; found["refused"] == 0 || found["complete"] == 0 {
			t.Error("it was not cut off where it should be")
		}
		t.Log(found)
	}
}

// TestRepairOnBadDisk: whichever write fails, the repair says so, and nothing is left of what it began.
func TestRepairOnBadDisk(t *testing.T) {
	h := newHistory(t)
	for _, lost := range []bool{false, true} {
		failed := 0
		for n := int32(0); ; n += int32(stride()) {
			fs := written(t, h.crashed.files)
			if lost { // a directory that was there stays
				if err := fs.MkdirAll(newDir+"/lost+found", dirMode); err != nil {
					t.Fatal(err)
				}
			}
			var writes atomic.Int32
			bad := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpRemoveAll || op.Kind == errorfs.OpRemove {
					return nil
				}
				if writes.Add(1) == n+1 {
					return errENOSPC
				}
				return nil
			}))
			_, err := Repair(dir, newDir, bad, nil)
			if writes.Load() <= n { // fewer than that
				break
			}
			names, listErr := fs.List(newDir)
			switch {
			case err == nil: // something Pebble can do without
				unfinished(t, fs, newDir, h.crashed.want)
				continue
			case !errors.Is(err, ErrForbidden) || !strings.Contains(err.Error(), "make room on the disk"):
				t.Errorf("write %d: %v", n, err)
			case lost && !slices.Equal(names, []string{"lost+found"}) || !lost && listErr == nil:
				t.Errorf("write %d: left are %q, %v", n, names, listErr)
			}
			failed++
		}
		t.Logf("%d writes failed", failed)
		if failed*stride() < 10 {
			t.Error("too few")
		}
	}
}

// TestRepairRefuses: what cannot be repaired, and where to.
func TestRepairRefuses(t *testing.T) {
	h := newHistory(t)
	newer := written(t, nil)
	if err := errors.Join(newer.MkdirAll(dir, dirMode), writeSealed(newer, dir, formatFile, fact{"format", formatVersion + 1})); err != nil {
		t.Fatal(err)
	}
	with := func(name string) *vfs.MemFS {
		m := maps.Clone(h.clean.files)
		m[name] = []byte("x")
		return written(t, m)
	}
	for _, c := range []struct {
		what string
		fs   *vfs.MemFS
		to   string
		want error
	}{
		{"nothing there", written(t, nil), newDir, ErrNotOurs},
		{"a file", written(t, map[string][]byte{dir: {1}}), newDir, ErrNotOurs},
		{"foreign", written(t, map[string][]byte{dir + "/x": {1}}), newDir, ErrNotOurs},
		{"empty", written(t, map[string][]byte{dir + "/LOCK": nil}), newDir, ErrNotOurs},
		{"newer", newer, newDir, ErrNewer},
		{"a new directory that is not new", with(newDir + "/x"), newDir, ErrNotOurs},
		{"into itself", with(dir + "/x"), dir, ErrNotOurs},
		{"into a part of itself", with(dir + "/x"), dir + "/sub/../new", ErrNotOurs},
		{"nothing to be saved", written(t, map[string][]byte{dir + "/CURRENT": {1}}), newDir, ErrDamaged},
	} {
		before := files(t, c.fs, "/")
		if _, err := Repair(dir, c.to, c.fs, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
		if after := files(t, c.fs, "/"); !maps.EqualFunc(after, before, slices.Equal) {
			t.Errorf("%s: something was changed", c.what)
		}
		if c.want == ErrDamaged || strings.Contains(c.what, "new directory") || strings.Contains(c.what, "into") {
			continue
		}
		if _, err := Check(dir, c.fs); !errors.Is(err, c.want) {
			t.Errorf("%s: the check says %v", c.what, err)
		}
	}
}
