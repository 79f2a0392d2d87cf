package persist

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

var update = flag.Bool("update", false, "make the golden data directories that are missing")

// golden has data directories as servers left them, each with a list of what it holds. A later version must read what an earlier one
// wrote, so one that is there is never made anew: after a change of what is written, add a name to goldenKinds and run with -update.
const golden = "testdata/golden"

// A goldenKind is a way in which a server ends that has everything on disk.
type goldenKind struct {
	name  string
	clean bool
}

var goldenKinds = []goldenKind{{"format-1-stopped", true}, {"format-1-killed", false}}

// make makes the data directory, with something of everything: in the table, and in a journal if the server was killed.
func (k goldenKind) make(t *testing.T) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	w := open(t, Options{FS: fs})
	w.fillTable()
	w.close()
	w = open(t, Options{FS: fs})
	w.fillJournal()
	w.save()
	if !k.clean {
		fs = fs.CrashClone(vfs.CrashCloneCfg{})
	}
	w.close()
	return fs
}

// listing is all that a store holds but for deadlines, which a load makes anew: space, key, kind and value, a line each.
func listing(s *shard.Store) string {
	var lines []string
	tell := func(cs []shard.Change) bool {
		for _, c := range cs {
			lines = append(lines, fmt.Sprintf("%d %+q %d %x", c.Space, c.Key, c.Kind, c.Value))
		}
		return true
	}
	s.Each(tell)
	tell(s.Limits().Changes())
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// debitBy takes cost from a key, under a limit or @name, and bars it for wait ms.
func (w *world) debitBy(limit, key string, cost, wait int64) {
	w.t.Helper()
	lim, err := engine.Limit{}, error(nil)
	if name, named := strings.CutPrefix(limit, "@"); named {
		lim, _ = w.store.Limits().Resolve([]byte(name))
	} else {
		lim, err = engine.ParseExpression([]byte(limit))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	tx := w.store.Lock(start, []byte(key))
	defer tx.Unlock()
	e, _ := tx.Get([]byte(key))
	value, d, err := engine.Acquire(nil, lim, e.Value, start, engine.Op{Cost: cost, Force: lim.Algorithm == engine.Bucket})
	if err == nil && wait > 0 {
		value, d, err = engine.Penalize(nil, lim, value, wait, start)
	}
	if err != nil || value == nil {
		w.t.Fatalf("%q under %s: %+v, %v", key, limit, d, err)
	}
	tx.Put([]byte(key), byte(lim.Algorithm), value, d.ResetAfter)
}

// setLimit makes a named limit.
func (w *world) setLimit(name, text string) {
	w.t.Helper()
	n := shard.NamedLimit{Name: name}
	if err := n.Parse([]byte(text)); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.store.Limits().SetNamed(n); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) fillTable() {
	w.t.Helper()
	w.debit("cleared")
	w.store.Clear()
	w.debit("", "\x00\xff\r\n", strings.Repeat("k", shard.MaxKeyBytes), "changed", "deleted")
	w.debitBy("1/30d:10", "bucket", 4, 0)
	w.debitBy("0.000001:10", "debt", 15, 0)
	w.debitBy("1/30d:10", "penalty", 1, engine.MaxPenalty)
	w.debitBy("fixed:100/1000d", "fixed", 7, 0)
	w.debitBy("fixed-aligned:100/10000d", "aligned", 8, 0)
	w.debitBy("sliding:100/1000d", "sliding", 9, 0)
	w.debitBy("log:100/1000d", "log", 5, 0)
	w.setLimit("api", "1/30d:50")
	w.setLimit("deleted", "1:1")
	w.debitBy("@api", "named", 6, 0)
	if _, err := w.store.Limits().SetFile([]shard.NamedLimit{{Name: "file", Limit: slow}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) fillJournal() {
	w.t.Helper()
	w.debit("changed", "added")
	w.forget("deleted")
	w.setLimit("group:*", "sliding:10/1000d")
	w.debitBy("@group:a", "grouped", 3, 0)
	w.setLimit("adaptive", "adaptive:5..200:20")
	if _, _, err := w.store.Limits().Feedback([]byte("adaptive"), false, 60_000, start); err != nil {
		w.t.Fatal(err)
	}
	if _, _, err := w.store.Limits().Delete([]byte("deleted")); err != nil {
		w.t.Fatal(err)
	}
}

// save copies the directory to the disk, with what a start on it finds.
func (k goldenKind) save(t *testing.T) {
	t.Helper()
	fs, to := k.make(t), filepath.Join(golden, k.name)
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	if ok, err := vfs.Clone(fs, vfs.Default, dir, filepath.Join(to, "data")); err != nil || !ok {
		t.Fatal(ok, err)
	}
	w := open(t, Options{FS: fs})
	defer w.close()
	if err := os.WriteFile(filepath.Join(to, "holds.txt"), []byte(listing(w.store)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestGolden: what this and earlier versions wrote is read, whole and to the last byte, and written to.
func TestGolden(t *testing.T) {
	for _, k := range goldenKinds {
		at := filepath.Join(golden, k.name)
		if _, err := os.Stat(at); os.IsNotExist(err) && *update {
			k.save(t)
		}
		want, err := os.ReadFile(filepath.Join(at, "holds.txt"))
		if err != nil {
			t.Fatalf("%v: go test ./persist -run Golden -update makes it", err)
		}
		fs := vfs.NewMem()
		if ok, err := vfs.Clone(vfs.Default, fs, filepath.Join(at, "data"), dir); err != nil || !ok {
			t.Fatal(ok, err)
		}
		for n, clean := range []bool{k.clean, true} {
			w := open(t, Options{FS: fs})
			if got := listing(w.store); got != string(want) {
				t.Errorf("%s holds at start %d\n%swant\n%s", k.name, n+1, got, want)
			}
			if w.info.Clean != clean {
				t.Errorf("%s at start %d: %+v", k.name, n+1, w.info)
			}
			w.close()
		}
		w := open(t, Options{FS: fs})
		w.debit("later")
		w.close()
		w = open(t, Options{FS: fs})
		if got := listing(w.store); strings.Count(got, "\n") != bytes.Count(want, []byte("\n"))+1 || !strings.Contains(got, `"later"`) {
			t.Errorf("%s with one key more holds\n%s", k.name, got)
		}
		w.close()
	}
}

// TestGoldenIsWhatIsWritten: a directory made now holds what those of this format do, so that they still show all there is.
func TestGoldenIsWhatIsWritten(t *testing.T) {
	for _, k := range goldenKinds {
		want, err := os.ReadFile(filepath.Join(golden, k.name, "holds.txt"))
		if err != nil {
			t.Fatal(err)
		}
		w := open(t, Options{FS: k.make(t)})
		if got := listing(w.store); got != string(want) {
			t.Errorf("%s would hold\n%sand holds\n%s", k.name, got, want)
		}
		w.close()
	}
}
