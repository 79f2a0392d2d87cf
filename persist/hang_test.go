package persist

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// hangTime is how long the disk hangs, and hangSaid how old what is not on disk may become before the figures and the log say so.
const (
	hangTime = 10 * time.Second
	hangSaid = stalled + 1500*time.Millisecond // an interval and a look every half second
)

// A hang is a write operation that does not come back for hangTime, and then perhaps with an error.
type hang struct {
	at  int64
	err error

	armed   atomic.Bool
	n       atomic.Int64
	what    atomic.Value // what hangs, or hung
	hanging atomic.Bool
}

func (h *hang) inject(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || !h.armed.Load() || h.n.Add(1) != h.at {
		return nil
	}
	h.what.Store(fmt.Sprintf("kind %d of %s", op.Kind, op.Path))
	h.hanging.Store(true)
	time.Sleep(hangTime)
	h.hanging.Store(false)
	return h.err
}

// TestDiskHangsAtEveryOperation: whichever write operation hangs, no decision waits for it; if rounds do, the figures and the log say so
// before long; and when the disk answers again, or fails, all is on disk by itself.
func TestDiskHangsAtEveryOperation(t *testing.T) {
	for _, err := range []error{nil, errEIO} {
		ops, held := 0, 0
		for hung := true; hung; ops += stride() {
			synctest.Test(t, func(t *testing.T) {
				h := &hang{at: int64(ops + 1), err: err}
				var late bool
				hung, late = h.strikes(t)
				if late {
					held++
				}
			})
		}
		t.Logf("then %v: %d operations, %d held rounds up", err, ops, held)
		if held*stride() < 10 {
			t.Error("the hangs were not where it hurts")
		}
	}
}

// strikes lets the operation hang and says whether there were so many, and whether rounds were held up.
func (h *hang) strikes(t *testing.T) (hung, late bool) {
	mem := vfs.NewCrashableMem()
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(h.inject))
	var book logBook
	w := open(t, Options{FS: fs, Log: book.logger(), tune: tuning{chunkRecords: 3, mergeEntries: 20}})
	defer w.db.Close()
	h.armed.Store(true)
	for i := range 40 { // half seconds
		synctest.Wait()
		before := time.Now()
		for k := range 6 {
			w.debit(fmt.Sprint(i%3, k), "hot")
		}
		st := w.db.Stats()
		if d := time.Since(before); d != 0 {
			t.Fatalf("%v: decisions and figures waited %v", h.what.Load(), d)
		}
		if lag := time.Duration(st.LagMs) * time.Millisecond; lag > hangSaid {
			late = true
			if st.LastSaveOK {
				t.Fatalf("%v hangs: nothing is on disk for %v, and the figures say ok: %+v", h.what.Load(), lag, st)
			}
			if book.count("") == 0 {
				t.Fatalf("%v hangs: nothing is on disk for %v, and the log is silent", h.what.Load(), lag)
			}
		}
		time.Sleep(500 * time.Millisecond)
	}
	hung = h.n.Load() >= h.at
	time.Sleep(hangTime + 2*time.Second) // it may have begun just now
	synctest.Wait()
	if st := w.db.Stats(); !st.LastSaveOK || st.LagMs > 1500 || h.hanging.Load() {
		t.Fatalf("%v, after the hang: %+v", h.what.Load(), st)
	}
	if n := book.count(""); n > 20 {
		t.Fatalf("%v: %d log lines: %s", h.what.Load(), n, strings.Join(book.lines, ""))
	}
	w.save()
	want := w.state()
	got, _, err := stateOn(t, mem.CrashClone(vfs.CrashCloneCfg{}))
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, got, want)
	if err := w.db.Close(); err != nil && !errors.Is(err, h.err) {
		t.Fatal(err)
	}
	return hung, late
}
