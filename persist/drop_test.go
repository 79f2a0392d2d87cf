package persist

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// churn has keys come and go for some minutes, and returns the most memory that the store took meanwhile.
func (w *world) churn(minutes int) (most int64) {
	const perMinute = 40_000
	for m := range minutes {
		for i := range perMinute {
			key := fmt.Sprint(m, ":", i)
			w.debit(key)
			w.forget(key)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		most = max(most, w.store.Used())
	}
	return most
}

// slotBytes is more than a key of churn takes, its place in the feed's list included.
const slotBytes = 60

// TestDroppedRounds: where nobody writes rounds, keys that come and go take no more memory with time, and nothing of what is there is
// missing on disk after the next save.
func TestDroppedRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		w := open(t, Options{FS: mem, Mode: Shutdown})
		w.debit("saved", "changed", "gone")
		w.save()
		saved := w.state()
		w.debit("changed", "new")
		w.forget("gone")
		if most := w.churn(8); most > 2*dropSpare*slotBytes {
			t.Errorf("%d bytes taken for %d keys", most, w.store.Len())
		}
		if st := w.db.Stats(); st.Pending < dropSpare || st.LagMs < 300_000 || !st.LastSaveOK {
			t.Errorf("with changes dropped: %+v", st)
		}
		crashed, _, err := stateOn(t, mem.CrashClone(vfs.CrashCloneCfg{}))
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, crashed, saved)

		for rewrites, key := range []string{"", "later"} {
			if key != "" {
				w.debit(key)
			}
			w.save()
			if st := w.db.Stats(); st.Pending != 0 || st.LagMs != 0 || st.Rewrites != 1 {
				t.Errorf("save %d: %+v", rewrites, st)
			}
			crashed, _, err = stateOn(t, mem.CrashClone(vfs.CrashCloneCfg{}))
			if err != nil {
				t.Fatal(err)
			}
			wantState(t, crashed, w.state())
		}
		w.close()
	})
}

// TestDroppedRoundsWhileWritingFails: the same where the disk is bad for long.
func TestDroppedRoundsWhileWritingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		bad := whenOn(func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite }, errEIO)
		w := open(t, Options{FS: errorfs.Wrap(mem, bad)})
		w.debit("saved", "changed", "gone")
		w.save()
		bad.On()
		w.debit("changed", "new")
		w.forget("gone")
		if most := w.churn(8); most > 2*dropSpare*slotBytes {
			t.Errorf("%d bytes taken for %d keys", most, w.store.Len())
		}
		if st := w.db.Stats(); st.LagMs < 300_000 || st.LastSaveOK {
			t.Errorf("while the disk is bad: %+v", st)
		}
		bad.Off()
		time.Sleep(retryMost + time.Second)
		synctest.Wait()
		if st := w.db.Stats(); st.Pending != 0 || st.LagMs != 0 || !st.LastSaveOK {
			t.Errorf("when the disk is well: %+v", st)
		}
		crashed, _, err := stateOn(t, mem.CrashClone(vfs.CrashCloneCfg{}))
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, crashed, w.state())
		w.close()
	})
}

// TestRelieve: who is short of memory has slots back at once, in every mode; who waits for a round that was dropped has what it told on
// disk; a clean stop writes everything.
func TestRelieve(t *testing.T) {
	for _, mode := range []Mode{Interval, Shutdown} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewCrashableMem()
				w := open(t, Options{FS: mem, Mode: mode, Interval: time.Hour})
				relieve := func() {
					t.Helper()
					w.db.Relieve()
					time.Sleep(2 * urgentGap)
					synctest.Wait()
					if n := w.feed.Pending(); n != 0 {
						t.Fatalf("%d changes are kept", n)
					}
				}
				relieve() // nothing to give back
				w.debit("a", "gone")
				w.forget("gone")
				round := w.feed.Round()
				relieve()
				if st := w.db.Stats(); mode == Shutdown && (st.Pending == 0 || st.LagMs == 0) || mode == Interval && st.Pending != 0 {
					t.Errorf("%+v", st)
				}
				if err := w.db.Wait(round); err != nil {
					t.Fatal(err)
				}
				crashed, _, err := stateOn(t, mem.CrashClone(vfs.CrashCloneCfg{}))
				if err != nil {
					t.Fatal(err)
				}
				wantState(t, crashed, state{"a": 1})

				w.debit("b")
				relieve()
				w.close()
				got, info, err := stateOn(t, mem)
				if err != nil {
					t.Fatal(err)
				}
				wantState(t, got, state{"a": 1, "b": 1})
				if !info.Clean {
					t.Errorf("%+v", info)
				}
			})
		})
	}
}
