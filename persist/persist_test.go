package persist

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestRoundTrip(t *testing.T) {
	for _, tune := range []tuning{{}, {chunkRecords: 7, mergeEntries: 50, mergeLines: 3}, {chunkRecords: 3, mergeEntries: 1, mergeLines: 2}} {
		t.Run(fmt.Sprintf("chunks of %d", tune.withDefaults().chunkRecords), func(t *testing.T) {
			fs := vfs.NewMem()
			w := open(t, Options{FS: fs, tune: tune})
			if !w.info.Fresh || !w.info.Clean || w.info.Keys != 0 {
				t.Fatalf("a new directory: %+v", w.info)
			}
			for round := range 5 {
				for i := range 300 {
					if i%(round+1) == 0 {
						w.debit(fmt.Sprintf("user:%d", i), "hot")
					}
				}
				w.save()
			}
			w.forget("user:0")
			w.save()
			w.forget("user:60")
			w.debit("\x00binary\xff")
			w.forget("user:120")
			w.debit("user:120") // gone and there again in one round
			want := w.state()
			w.close()

			got, info, err := stateOn(t, fs)
			if err != nil {
				t.Fatal(err)
			}
			wantState(t, got, want)
			if !info.Clean || info.Fresh || info.Keys != len(want) || info.Dropped != 0 || info.SavedAt.IsZero() {
				t.Errorf("%+v", info)
			}
		})
	}
}

func TestClear(t *testing.T) {
	for _, reopen := range []bool{false, true} {
		fs := vfs.NewMem()
		w := open(t, Options{FS: fs, tune: tuning{chunkRecords: 3}})
		for i := range 20 {
			w.debit(fmt.Sprint(i))
		}
		w.save()
		if reopen {
			w.close()
			w = open(t, Options{FS: fs, tune: tuning{chunkRecords: 3}})
		}
		w.debit("changed before the clear")
		w.store.Clear()
		w.debit("3", "after")
		w.save()
		w.debit("later")
		w.close()
		got, _, err := stateOn(t, fs)
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, got, state{"3": 1, "after": 1, "later": 1})
	}
}

func TestIdleEntriesAreDroppedForGood(t *testing.T) {
	fs := vfs.NewMem()
	w := open(t, Options{FS: fs})
	w.debit("a")
	w.debit("b")
	w.close()
	// A year later both buckets are full.
	const later = start + 366*86_400_000
	w = &world{t: t, store: w.store}
	for _, want := range []LoadInfo{{Dropped: 2}, {Dropped: 0}} {
		s := newStore()
		f := s.NewFeed()
		db, err := Open(Options{FS: fs, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		info, err := db.Load(s, later, later)
		if err != nil || info.Keys != 0 || info.Dropped != want.Dropped {
			t.Fatalf("%+v, %v", info, err)
		}
		db.Start(f, s)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, Options{FS: vfs.NewMem(), Interval: time.Second})
		time.Sleep(100 * time.Millisecond)
		if st := w.db.Stats(); st.LagMs != 0 || st.Rounds != 0 || !st.LastSaveOK {
			t.Fatalf("nothing to write: %+v", st)
		}
		w.debit("a")
		time.Sleep(700 * time.Millisecond)
		synctest.Wait()
		if st := w.db.Stats(); st.Rounds != 0 || st.Pending != 1 || st.LagMs < 700 || st.LagMs > 1000 {
			t.Fatalf("before the interval is over: %+v", st)
		}
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		if st := w.db.Stats(); st.Rounds != 1 || st.Pending != 0 || st.LagMs != 0 || st.LastEntries != 1 {
			t.Fatalf("after the interval: %+v", st)
		}
		// Nothing changes, nothing is written; an hour of hot keys is one record a round each.
		time.Sleep(time.Minute)
		if st := w.db.Stats(); st.Rounds != 1 {
			t.Fatalf("idle: %+v", st)
		}
		for range 3600 {
			w.debit("a", "b")
			w.debit("a", "b")
			time.Sleep(time.Second)
		}
		if st := w.db.Stats(); st.Rounds < 3595 || st.Rounds > 3602 || st.Entries > 2*st.Rounds || st.Merges < 50 || st.LagMs > 1000 {
			t.Fatalf("an hour: %+v", st)
		}
		w.close()
	})
}

func TestShutdownModeWritesWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		w := open(t, Options{FS: fs, Mode: Shutdown})
		w.debit("a")
		w.db.Urgent()
		time.Sleep(time.Hour)
		if st := w.db.Stats(); st.Rounds != 0 || st.LagMs < time.Hour.Milliseconds() {
			t.Fatalf("an hour: %+v", st)
		}
		w.save()
		saved := w.state()
		w.debit("a", "b")
		time.Sleep(time.Hour)
		crashed, info, err := stateOn(t, fs.CrashClone(vfs.CrashCloneCfg{}))
		if err != nil || info.Clean {
			t.Fatalf("%+v, %v", info, err)
		}
		wantState(t, crashed, saved)
		want := w.state()
		w.close()
		got, info, err := stateOn(t, fs)
		if err != nil || !info.Clean {
			t.Fatalf("%+v, %v", info, err)
		}
		wantState(t, got, want)
	})
}

func TestUrgentRoundsAreSoonButNotEndless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, Options{FS: vfs.NewMem(), Interval: time.Minute})
		time.Sleep(time.Second)
		for range 1000 {
			w.debit("a")
			round := w.db.Urgent()
			time.Sleep(time.Millisecond)
			if round == 0 {
				t.Fatal("round 0")
			}
		}
		if n := w.db.Stats().Rounds; n < 45 || n > 52 {
			t.Errorf("%d rounds in a second of urgent changes", n)
		}
		w.close()
	})
}

func TestWaitersShareARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := open(t, Options{FS: vfs.NewMem(), Interval: time.Hour})
		for i := range 100 {
			w.debit(fmt.Sprint(i))
		}
		round := w.feed.Round()
		done := make(chan error, 100)
		for range 100 {
			go func() { done <- w.db.Wait(round) }()
		}
		for range 100 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if st := w.db.Stats(); st.Rounds != 1 || st.Entries != 100 {
			t.Errorf("%+v", st)
		}
		w.close()
		if err := w.db.Wait(w.db.Save()); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestPebbleFormatIsTheNewest(t *testing.T) {
	if pebbleFormat != pebble.FormatNewest {
		t.Errorf("pebbleFormat is %d, this Pebble has %d: read its release notes, then raise it", pebbleFormat, pebble.FormatNewest)
	}
}
