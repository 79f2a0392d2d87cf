package persist

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestFound: a start learns how the run before kept its promises, and whether keys counted as emptied in it.
func TestFound(t *testing.T) {
	for _, mode := range []Mode{Interval, Shutdown, Always, Reserve} {
		for _, clean := range []bool{false, true} {
			mem := vfs.NewCrashableMem()
			w := open(t, Options{FS: mem, Mode: mode})
			if found := w.db.Found(); !found.Fresh || found.Durability != "" || found.Drained != 0 {
				t.Errorf("in an empty directory %+v", found)
			}
			w.store.Drain(start + 5)
			w.debit("a")
			w.save()
			if err := w.db.Wait(w.db.Save()); err != nil {
				t.Fatal(err)
			}
			fs := mem.CrashClone(vfs.CrashCloneCfg{})
			w.close()
			if clean {
				fs = mem
			}
			w = open(t, Options{FS: fs, Mode: Shutdown})
			if found := w.db.Found(); found.Clean != clean || found.Durability != mode.String() || clean && found.Drained != start+5 {
				t.Errorf("%v, clean %v: %+v", mode, clean, found)
			}
			w.close()
		}
	}
}

// TestMarkOfEarlierVersion: a MARK without what was added later is read.
func TestMarkOfEarlierVersion(t *testing.T) {
	mem := vfs.NewMem()
	w := open(t, Options{FS: mem, Mode: Always})
	w.debit("a")
	w.close()
	m, err := readMark(mem, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeSealed(mem, dir, markFile, fact{"generation", m.generation}, fact{"round", m.round}, fact{"chain", "00000000"}, fact{"clean", true}); err != nil {
		t.Fatal(err)
	}
	if m, err = readMark(mem, dir); err != nil || !m.clean || m.durability != "" || m.drained != 0 {
		t.Errorf("%+v, %v", m, err)
	}
}
