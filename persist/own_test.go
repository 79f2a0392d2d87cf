package persist

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// await waits for something that happens on a real disk.
func (w *world) await(what string, happened func(Stats) bool) {
	w.t.Helper()
	for end := time.Now().Add(10 * time.Second); !happened(w.db.Stats()); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("no sign of %s: %+v", what, w.db.Stats())
		}
	}
}

// TestDirectoryRemoved: a directory that is removed under a server, or whose LOCK is, is made anew with all that there is, locked again.
func TestDirectoryRemoved(t *testing.T) {
	for _, part := range []string{"", lockFile} {
		d := filepath.Join(t.TempDir(), "data")
		var book logBook
		w := open(t, Options{Dir: d, Interval: 20 * time.Millisecond, Log: book.logger()})
		w.debit("a", "b")
		w.save()
		if err := os.RemoveAll(filepath.Join(d, part)); err != nil {
			t.Fatal(err)
		}
		w.debit("a", "c")
		w.await("a new generation, told in the log", func(st Stats) bool {
			return st.Rewrites == 1 && st.LastSaveOK && book.count("was removed while in use") == 1 && book.count("works again") == 1
		})
		if _, err := Open(Options{Dir: d}); err == nil || !strings.Contains(err.Error(), "uses the data directory") {
			t.Errorf("a second server: %v", err)
		}
		w.debit("d")
		want := w.state()
		w.close()
		w = open(t, Options{Dir: d})
		wantState(t, w.state(), want)
		if !w.info.Clean {
			t.Errorf("%+v", w.info)
		}
		w.close()
	}
}

// TestDirectoryReplaced: a server whose directory another one has taken the place of does not touch that, and says so until its own is
// back.
func TestDirectoryReplaced(t *testing.T) {
	base := t.TempDir()
	d, other, away := filepath.Join(base, "data"), filepath.Join(base, "other"), filepath.Join(base, "away")
	w := open(t, Options{Dir: other})
	w.debit("theirs")
	w.close()
	theirs := files(t, vfs.Default, other)
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	w = open(t, Options{Dir: d, Interval: 20 * time.Millisecond})
	w.debit("ours")
	w.save()
	move(d, away)
	move(other, d)
	w.debit("ours")
	w.await("trouble", func(st Stats) bool { return strings.Contains(st.LastError, "was replaced while in use") })
	if err := w.db.Wait(w.db.Save()); err == nil {
		t.Error("saved in somebody else's directory")
	}
	move(d, other)
	now := files(t, vfs.Default, other)
	if !maps.EqualFunc(theirs, now, slices.Equal) {
		t.Errorf("the other directory was touched: %q, was %q", slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(theirs)))
	}
	move(away, d)
	w.await("durability, by itself", func(st Stats) bool { return st.LastSaveOK && st.LagMs == 0 })
	want := w.state()
	w.close()
	w = open(t, Options{Dir: d})
	wantState(t, w.state(), want)
	w.close()
}
