package persist

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/rlserver/rlserver/shard"
)

// TestFaultWhileStarting: whichever operation fails while a server comes up, it comes up with all that there was, or it says what to do
// and leaves everything as it is. A disk that cannot be written is not called damaged data: nobody shall throw that away.
func TestFaultWhileStarting(t *testing.T) {
	clean, crashed, want := images(t)
	for _, c := range []struct {
		what  string
		image map[string][]byte
		want  state
	}{{"after a clean stop", clean, want}, {"after a crash", crashed, want}, {"the first time", nil, state{}}} {
		for _, fault := range []error{errEIO, errENOSPC} {
			refused, ops, step := 0, 0, 1
			if testing.Short() {
				step = 3 * thin
			}
			for fired := true; fired; ops += step {
				var said error
				fired, said = startsWith(t, fmt.Sprintf("%s, operation %d: %v", c.what, ops, fault), c.image, c.want, fault, int64(ops+1))
				if said != nil {
					refused++
				}
			}
			t.Logf("%s, %v: %d operations, %d times refused", c.what, fault, ops, refused)
			if refused == 0 {
				t.Error("no start was refused")
			}
		}
	}
}

// startsWith starts on a copy of an image while operation number at fails, once. No space left is an error of writes only.
func startsWith(t *testing.T, what string, image map[string][]byte, want state, fault error, at int64) (fired bool, refused error) {
	t.Helper()
	mem := written(t, image)
	var n atomic.Int64
	wrote := false
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		write := op.Kind.ReadOrWrite() == errorfs.OpIsWrite
		if fault == errENOSPC && !write || n.Add(1) != at {
			return nil
		}
		what += fmt.Sprintf(" at kind %d of %s", op.Kind, op.Path)
		wrote = write
		return fault
	}))
	w, err := opened(t, Options{FS: fs, Mode: Shutdown})
	if err == nil {
		wantState(t, w.state(), want)
		if w.info.Fresh && image != nil {
			t.Fatalf("%s: started as if there had been nothing", what)
		}
		if err := w.db.Close(); err != nil && !errors.Is(err, fault) {
			t.Fatalf("%s: close: %v", what, err)
		}
	} else {
		wantAdvice(t, what, err, wrote)
	}
	got, _, again := stateOn(t, mem)
	if again != nil {
		t.Fatalf("%s: the next start: %v", what, again)
	}
	wantState(t, got, want)
	return n.Load() >= at, err
}

// wantAdvice wants an error to be a sentence for who starts the server.
func wantAdvice(t *testing.T, what string, err error, wrote bool) {
	t.Helper()
	text := err.Error()
	if !strings.Contains(text, dir) || !errors.Is(err, errEIO) && !errors.Is(err, errENOSPC) {
		t.Fatalf("%s: %v", what, err)
	}
	if wrote && (strings.Contains(text, "backup") || strings.Contains(text, "move it away") || !strings.Contains(text, "start again")) {
		t.Fatalf("%s: %v", what, err)
	}
	if errors.Is(err, errENOSPC) && !strings.Contains(text, "make room") {
		t.Fatalf("%s: %v", what, err)
	}
}

// TestStartOnAFullDisk: the start is refused and the text says that room is wanted; with room everything is there.
func TestStartOnAFullDisk(t *testing.T) {
	_, crashed, want := images(t)
	mem := written(t, crashed)
	full := whenOn(func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpCreate }, errENOSPC)
	full.On()
	_, _, err := stateOn(t, errorfs.Wrap(mem, full))
	if err == nil {
		t.Fatal("started")
	}
	wantAdvice(t, "a full disk", err, true)
	full.Off()
	got, _, err := stateOn(t, errorfs.Wrap(mem, full))
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, got, want)
}

// TestLockThatCannotBeMade: only a lock that somebody has is called another server.
func TestLockThatCannotBeMade(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{{errENOSPC, "make room"}, {errEIO, "cannot be written"}, {syscall.EAGAIN, "another rlserver uses the data directory"}} {
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpLock {
				return c.err
			}
			return nil
		}))
		if _, err := Open(Options{FS: fs, Dir: dir}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

// TestEntryWithoutDeadline: whatever deadline is on disk, an entry that is loaded has that of its state: none lives for ever.
func TestEntryWithoutDeadline(t *testing.T) {
	for _, deadline := range []int64{0, 1, 1 << 47} {
		fs := vfs.NewMem()
		w := open(t, Options{FS: fs})
		h := w.db.h
		w.debit("a")
		w.save()
		tx := w.store.Lock(start, []byte("a"))
		e, _ := tx.Get([]byte("a"))
		c := shard.Change{Key: []byte("b"), Kind: e.Kind, Value: slices.Clone(e.Value), Deadline: deadline}
		want := e.Deadline
		tx.Unlock()
		if err := h.db.Set(appendTableKey(nil, c.Space, c.Key), appendEntry(nil, c), nil); err != nil {
			t.Fatal(err)
		}
		w.close()
		w = open(t, Options{FS: fs})
		tx = w.store.Lock(start, []byte("b"))
		if e, ok := tx.Get([]byte("b")); !ok || e.Deadline < want-10_000 || e.Deadline > want+10_000 {
			t.Errorf("with the deadline %d on disk: %v, %+v, want %d", deadline, ok, e, want)
		}
		tx.Unlock()
		w.close()
	}
}
