package persist

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

// limit names a limit of a capacity; 0 forgets the name.
func (w *world) limit(name string, capacity int64) {
	w.t.Helper()
	var err error
	if capacity == 0 {
		_, _, err = w.store.Limits().Delete([]byte(name))
	} else {
		_, err = w.store.Limits().Set([]byte(name), engine.Limit{Algorithm: engine.Bucket, P: 1, Q: 1, Capacity: capacity})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// churnLimits changes some named limits; their names are those of keys too, in a space of their own.
func churnLimits(w *world, rng *rand.Rand) {
	for range rng.IntN(8) {
		w.limit(fmt.Sprint("a", rng.IntN(20)), rng.Int64N(50))
	}
}

// TestLimitsRoundTrip: what is set, changed and deleted comes back as it was, whichever way the journal is merged, and a clear, before
// it or after it, does not touch it.
func TestLimitsRoundTrip(t *testing.T) {
	for _, tune := range []tuning{{}, {chunkRecords: 3, mergeEntries: 1}} {
		fs := vfs.NewMem()
		o := Options{FS: fs, tune: tune}
		w := open(t, o)
		w.limit("wb:*", 10)
		w.limit("wb:orders:list", 20)
		w.limit("gone", 30)
		w.debit("wb:*", "user:1")
		w.save()
		w.limit("gone", 0)
		w.limit("wb:*", 11)
		w.store.Clear()
		w.debit("user:2", "gone")
		w.save()
		w.limit("wb:*", 12)
		w.limit("after", 40)
		w.limit("passing", 50)
		w.limit("passing", 0)
		want := state{"@wb:*": 12, "@wb:orders:list": 20, "@after": 40, "user:2": 1, "gone": 1}
		wantState(t, w.state(), want)
		w.close()
		for range 2 {
			w = open(t, o)
			wantState(t, w.state(), want)
			if w.info.Keys != 2 || w.info.Limits != 3 {
				t.Errorf("%+v", w.info)
			}
			if st := w.db.Stats(); st.Pending != 0 {
				t.Errorf("%d changes by the load", st.Pending)
			}
			w.close()
		}
	}
}

// TestLimitsSurviveACrash: a limit that was waited for is there after it, one that was not may be.
func TestLimitsSurviveACrash(t *testing.T) {
	mem := vfs.NewCrashableMem()
	w := open(t, Options{FS: mem, Mode: Shutdown})
	for i := range int64(30) {
		w.limit("n", 1+i)
		if err := w.db.Wait(w.db.Save()); err != nil {
			t.Fatal(err)
		}
		w.limit("later", 1+i)
		got, _, err := stateOn(t, mem.CrashClone(vfs.CrashCloneCfg{}))
		if err != nil || got["@n"] != 1+i || got["@later"] != i {
			t.Fatalf("%v, %v", got, err)
		}
	}
	w.close()
}

// TestLimitsBeforeEntries: who changes limits between the two loads does it in time for the entries.
func TestLimitsBeforeEntries(t *testing.T) {
	fs := vfs.NewMem()
	w := open(t, Options{FS: fs})
	w.limit("old", 1)
	w.debit("user:1")
	w.close()
	s := newStore()
	feed := s.NewFeed()
	db, err := Open(Options{FS: fs, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.LoadLimits(s); err != nil || s.Limits().Len() != 1 || s.Len() != 0 {
		t.Fatal(err, s.Limits().Len(), s.Len())
	}
	if _, err := s.Limits().SetFile([]shard.NamedLimit{{Name: "new", Limit: slow}}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Load(s, start, start); err != nil {
		t.Fatal(err)
	}
	db.Start(feed, s)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	got, _, err := stateOn(t, fs)
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, got, state{"@old": 1, "@new": slow.Capacity, "user:1": 1})
}

// TestDamagedLimitStopsTheStart: a limit that cannot be read is not left out.
func TestDamagedLimitStopsTheStart(t *testing.T) {
	fs := vfs.NewMem()
	w := open(t, Options{FS: fs})
	c := shard.Change{Space: shard.LimitSpace, Key: []byte("n"), Kind: byte(shard.FromCommand), Value: []byte("no limit")}
	h := w.db.h
	w.save()
	if err := h.db.Set(appendTableKey(nil, c.Space, c.Key), appendEntry(nil, c), nil); err != nil {
		t.Fatal(err)
	}
	w.close()
	if _, _, err := stateOn(t, fs); err == nil || !strings.Contains(err.Error(), `"no limit"`) || !strings.Contains(err.Error(), "Restore the directory") {
		t.Error(err)
	}
}
