package persist

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// linesMost is how many log lines a minute trouble with the disk may make, whatever the trouble and whoever asks meanwhile.
const linesMost = 20

// troubles are disks that are bad for long. since is when the trouble began; an error fails the operation.
var troubles = []struct {
	name string
	fail func(op errorfs.Op, since time.Duration) error
}{
	{"every write fails", func(errorfs.Op, time.Duration) error { return errEIO }},
	{"no room", func(op errorfs.Op, _ time.Duration) error {
		if op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpMkdirAll {
			return errENOSPC
		}
		return nil
	}},
	{"every sync fails", func(op errorfs.Op, _ time.Duration) error {
		if isSync(op) {
			return errEIO
		}
		return nil
	}},
	{"syncs and removals fail", func(op errorfs.Op, _ time.Duration) error {
		if isSync(op) || op.Kind == errorfs.OpRemoveAll || op.Kind == errorfs.OpRemove {
			return errEIO
		}
		return nil
	}},
	{"every rename fails", func(op errorfs.Op, _ time.Duration) error {
		if op.Kind == errorfs.OpRename {
			return errEIO
		}
		return nil
	}},
	{"tables fail", func(op errorfs.Op, _ time.Duration) error {
		if strings.HasSuffix(op.Path, ".sst") {
			return errEIO
		}
		return nil
	}},
	{"fails every other second", flapping(time.Second)},
	{"fails every other half minute", flapping(31 * time.Second)},
	{"each sync takes 6 s", func(op errorfs.Op, _ time.Duration) error {
		if isSync(op) {
			time.Sleep(6 * time.Second)
		}
		return nil
	}},
	{"each sync takes 6 s and fails", func(op errorfs.Op, _ time.Duration) error {
		if !isSync(op) {
			return nil
		}
		time.Sleep(6 * time.Second)
		return errEIO
	}},
}

// flapping is a disk that fails for d, works for d, and so on.
func flapping(d time.Duration) func(errorfs.Op, time.Duration) error {
	return func(_ errorfs.Op, since time.Duration) error {
		if since/d%2 == 0 {
			return errEIO
		}
		return nil
	}
}

// TestTroubleIsNotAFlood: a disk that is bad for minutes makes few log lines, also when somebody saves ten times a second; nobody who
// decides waits; and when the disk is well everything is on it by itself.
func TestTroubleIsNotAFlood(t *testing.T) {
	for _, trouble := range fewer(troubles) {
		for _, asked := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, saves %v", trouble.name, asked), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { lines(t, trouble.fail, asked) })
			})
		}
	}
}

func lines(t *testing.T, fail func(errorfs.Op, time.Duration) error, asked bool) {
	mem := vfs.NewCrashableMem()
	var began time.Time
	bad := whenOn(func(errorfs.Op) bool { return false }, nil)
	bad.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		return fail(op, time.Since(began))
	})
	var book logBook
	w := open(t, Options{FS: errorfs.Wrap(mem, bad), Log: book.logger(), tune: tuning{chunkRecords: 3, mergeEntries: 20}})
	defer w.db.Close()
	w.debit("before")
	w.save()
	began = time.Now()
	bad.On()
	tenths := 1200
	if testing.Short() {
		tenths = 650
	}
	for i := range tenths {
		before := time.Now()
		w.debit("hot", fmt.Sprint(i%30))
		if asked {
			w.db.Save()
		}
		if d := time.Since(before); d != 0 {
			t.Fatalf("waited %v", d)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if most, when := book.densest(); most > linesMost {
		t.Errorf("%d log lines in the minute from %v on, such as:\n%s", most, when.Sub(began), strings.Join(book.lines[len(book.lines)-3:], ""))
	} else if most == 0 {
		t.Error("the log is silent")
	}
	failures := w.db.Stats().Failures
	bad.Off()
	time.Sleep(retryMost + 10*time.Second)
	synctest.Wait()
	if st := w.db.Stats(); !st.LastSaveOK || st.LagMs != 0 {
		t.Errorf("when the disk is well: %+v", st)
	}
	names, err := mem.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	if left := slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, "gen-") }); len(left) != 1 {
		t.Errorf("%d generations are left on disk", len(left))
	}
	t.Logf("%d lines, %d failures", book.count(""), failures)
	want := w.state()
	got, _, err := stateOn(t, mem.CrashClone(vfs.CrashCloneCfg{}))
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, got, want)
}
