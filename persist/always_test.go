package persist

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// isLogSync is a sync of Pebble's log. Others it waits for with a mutex held: who waits for that keeps the time of a bubble from going on.
func isLogSync(op errorfs.Op) bool { return isSync(op) && strings.HasSuffix(op.Path, ".log") }

// slowSyncs makes each sync of Pebble's log take some time, ns. A log that is full is synced with a mutex held, too: tests write less, and
// close with quick syncs.
func slowSyncs(fs vfs.FS, takes *atomic.Int64) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if isLogSync(op) {
			time.Sleep(time.Duration(takes.Load()))
		}
		return nil
	}))
}

func nanoseconds(d time.Duration) *atomic.Int64 {
	var n atomic.Int64
	n.Store(int64(d))
	return &n
}

// TestGroupCommit: while a round is being written the next one fills; it is cut as soon as the last is done, and all who came meanwhile
// share its sync.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const syncTakes, clients, calls = 10 * time.Millisecond, 30, 40
		fs, takes := vfs.NewCrashableMem(), nanoseconds(syncTakes)
		w := open(t, Options{FS: slowSyncs(fs, takes), Mode: Always, Interval: time.Hour})
		time.Sleep(time.Second)
		synctest.Wait()
		began, before := time.Now(), w.db.Stats()
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() {
				for i := range calls {
					time.Sleep(time.Duration(c*i%7) * time.Millisecond)
					w.debit(fmt.Sprint("k", c, i))
					if err := w.db.Wait(w.feed.Round()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		took, st := time.Since(began), w.db.Stats()
		rounds := int64(st.Rounds - before.Rounds)
		// A call waits for the round under way and for its own: two syncs and what it slept. The rest is seals, each of some syncs.
		if most := calls * (2*syncTakes + 6*time.Millisecond); took > most+most/4 {
			t.Errorf("%d calls of each client took %v, at most %v expected", calls, took, most)
		}
		if rounds > int64(took/syncTakes) || rounds < int64(took/syncTakes)/2 {
			t.Errorf("%d rounds in %v of syncs that take %v", rounds, took, syncTakes)
		}
		if st.LagMs != 0 || st.Pending != 0 {
			t.Errorf("when all are answered: %+v", st)
		}
		crashed, _, err := stateOn(t, fs.CrashClone(vfs.CrashCloneCfg{}))
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, crashed, w.state())
		takes.Store(0)
		w.close()
	})
}

// TestSealsAreFewUnderAlways: rounds that follow one another cost one sync each, but for the seal, that comes at its own pace.
func TestSealsAreFewUnderAlways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var syncs atomic.Int64
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if isSync(op) {
				syncs.Add(1)
			}
			return nil
		}))
		takes := nanoseconds(time.Millisecond)
		w := open(t, Options{FS: slowSyncs(fs, takes), Mode: Always, Interval: time.Hour})
		time.Sleep(time.Second)
		synctest.Wait()
		began, before := time.Now(), syncs.Load()
		const rounds = 500
		for range rounds {
			w.debit("a")
			if err := w.db.Wait(w.feed.Round()); err != nil {
				t.Fatal(err)
			}
		}
		const sealSyncs = 3 // of the log, the file MARK and its directory
		seals := int64(time.Since(began)/sealEvery) + 1
		if n := syncs.Load() - before; n > rounds+seals*sealSyncs {
			t.Errorf("%d syncs for %d rounds and at most %d seals", n, rounds, seals)
		}
		takes.Store(0)
		w.close()
	})
}

// TestReady tells what Wait would, without waiting, and is told when that changes.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		bad := whenOn(isLogSync, errEIO)
		takes := nanoseconds(time.Second)
		w := open(t, Options{FS: slowSyncs(errorfs.Wrap(mem, bad), takes), Mode: Always, Interval: time.Hour})
		var told atomic.Int64
		w.db.Notify(func() { told.Add(1) })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		ready := func(round uint64, want bool, wantErr error) {
			t.Helper()
			if ok, err := w.db.Ready(round); ok != want || !errors.Is(err, wantErr) {
				t.Errorf("round %d: %v, %v; want %v, %v", round, ok, err, want, wantErr)
			}
		}
		w.debit("a")
		first := w.feed.Round()
		before := told.Load()
		ready(first, false, nil)
		synctest.Wait() // it is being written
		w.debit("b")
		second := w.feed.Round()
		if second != first+1 || w.db.Durable() >= first || told.Load() != before {
			t.Fatalf("round %d after %d, %d is durable, told %d times", second, first, w.db.Durable(), told.Load()-before)
		}
		ready(second, false, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		ready(first, true, nil)
		ready(second, false, nil)
		if told.Load() != before+1 || w.db.Durable() != first {
			t.Errorf("told %d times, %d is durable", told.Load()-before, w.db.Durable())
		}
		bad.On()
		time.Sleep(time.Second)
		synctest.Wait()
		ready(first, true, nil)
		ready(second, true, errEIO)
		if told.Load() != before+2 || w.db.Durable() != first {
			t.Errorf("told %d times, %d is durable", told.Load()-before, w.db.Durable())
		}
		bad.Off()
		time.Sleep(time.Minute)
		synctest.Wait()
		ready(second, true, nil)
		takes.Store(0)
		w.close()
		ready(w.feed.Round()+1, true, ErrClosed)
	})
}

// TestTrouble: it is told while writing fails and while the disk hangs, and is over by itself soon after the disk is well.
func TestTrouble(t *testing.T) {
	for _, mode := range []Mode{Interval, Always, Reserve} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewCrashableMem()
				var takes atomic.Int64
				bad := whenOn(isSync, errENOSPC)
				w := open(t, Options{FS: slowSyncs(errorfs.Wrap(mem, bad), &takes), Mode: mode})
				w.debit("a")
				w.save()
				trouble := func(when string, want error) {
					t.Helper()
					if err := w.db.Trouble(); !errors.Is(err, want) || (err == nil) != (want == nil) {
						t.Errorf("%s: %v, want %v", when, err, want)
					}
				}
				trouble("at the start", nil)

				takes.Store(int64(10 * time.Second))
				w.debit("b")
				w.db.Save()
				time.Sleep(stalled - time.Millisecond)
				trouble("before a sync is late", nil)
				time.Sleep(2 * time.Millisecond)
				synctest.Wait()
				trouble("when it is", ErrHangs)
				if st := w.db.Stats(); st.LastSaveOK || st.LastError != ErrHangs.Error() {
					t.Errorf("%+v", st)
				}
				takes.Store(0)
				time.Sleep(time.Minute)
				synctest.Wait()
				trouble("when the disk goes on", nil)

				bad.On()
				w.debit("c")
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				trouble("while the disk is full", errENOSPC)
				bad.Off()
				most := retryMost
				if mode != Interval {
					most = retryPromised
				}
				time.Sleep(most + time.Millisecond)
				synctest.Wait()
				trouble("after the disk is well", nil)
				crashed, _, err := stateOn(t, mem.CrashClone(vfs.CrashCloneCfg{}))
				if err != nil {
					t.Fatal(err)
				}
				wantState(t, crashed, state{"a": 1, "b": 1, "c": 1})
				w.close()
			})
		})
	}
}

// TestLag: it is the age of the oldest change that is not on disk, not that of the last round.
func TestLag(t *testing.T) {
	for _, mode := range []Mode{Interval, Shutdown, Always} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := open(t, Options{FS: vfs.NewMem(), Mode: mode, Interval: time.Hour})
				time.Sleep(20*time.Minute + 500*time.Millisecond)
				for age := range int64(5) {
					w.debit("a")
					if lag := w.db.Stats().LagMs; lag < age*1000 || lag > (age+1)*1000 {
						t.Errorf("%d s after the first change the lag is %d ms", age, lag)
					}
					time.Sleep(time.Second)
				}
				w.save()
				if lag := w.db.Stats().LagMs; lag != 0 {
					t.Errorf("%d ms when all is on disk", lag)
				}
				w.close()
			})
		})
	}
}
