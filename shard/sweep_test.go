package shard

import (
	"fmt"
	"testing"
	"time"
)

// An entry lives until its deadline, whatever its state; after it an idle one
// is absent and swept, another gets a new deadline.
func TestSweepDeadlines(t *testing.T) {
	const grace = 3000
	s := New(Config{Grace: grace})
	f := s.NewFeed()
	key, debt := []byte("key"), []byte("debt")
	value, reset := bucketValue(t, 0, 10) // idle at 10,000
	owing, _ := bucketValue(t, 0, 100)    // idle at 100,000, put with a reset that is too short
	tx := s.Lock(0, key, debt)
	tx.Put(key, 1, value, reset)
	tx.Put(debt, 1, owing, 0)
	tx.Unlock()
	drain(f.Cut())
	at := func(clock int64, key []byte) (Entry, bool) {
		tx := s.Lock(clock, key)
		defer tx.Unlock()
		return tx.Get(key)
	}

	end := reset + grace
	if n, _ := s.Sweep(end-1, time.Hour); n != 0 {
		t.Error("an entry was dropped before its deadline")
	}
	if e, ok := at(end-1, key); !ok || e.Deadline != end {
		t.Errorf("before its deadline the entry is %v, %v", e, ok)
	}
	if _, ok := at(end, key); ok {
		t.Error("at its deadline the idle entry is there")
	}
	if e, ok := at(end-1, debt); !ok || e.Deadline != 100_000+grace {
		t.Errorf("the entry not idle is %v, %v", e, ok)
	}
	want(t, "the new deadline", told(f.Cut()), "debt="+string(owing))
	if n, done := s.Sweep(end, time.Hour); n != 1 || !done || s.Len() != 1 || s.Stats().Expired != 1 {
		t.Errorf("swept %d, %v, %d keys left", n, done, s.Len())
	}
	want(t, "the drop", told(f.Cut()), "-key")
	check(t, s)
}

func TestKeepExpired(t *testing.T) {
	s := New(Config{KeepExpired: true})
	key := []byte("key")
	value, reset := bucketValue(t, 0, 1)
	tx := s.Lock(0, key)
	tx.Put(key, 1, value, reset)
	tx.Unlock()
	const late = 1 << 50
	if n, done := s.Sweep(late, time.Hour); n != 0 || !done {
		t.Errorf("swept %d", n)
	}
	tx = s.Lock(late, key)
	defer tx.Unlock()
	if _, ok := tx.Get(key); !ok {
		t.Error("the entry is absent")
	}
}

// fill stores n buckets, idle at reset ms.
func fill(t testing.TB, s *Store, n int) (reset int64) {
	value, reset := bucketValue(t, 0, 1)
	for i := range n {
		key := fmt.Appendf(nil, "user:%011d", i)
		tx := s.Lock(0, key)
		tx.Put(key, 1, value, reset)
		tx.Unlock()
	}
	return reset
}

// Without anything due a cycle only looks at the heads of the segments; with
// everything due no lock is held for more than 256 entries.
func TestSweepHolds(t *testing.T) {
	const keys = 50_000
	s := New(Config{Shards: 2})
	reset := fill(t, s, keys)
	cycle := func(clock int64) (holds, dropped int) {
		for range s.shards {
			for more := true; more; holds++ {
				var n int
				n, more = s.sweepHold(clock)
				if n > holdEntries {
					t.Errorf("%d entries dropped under one hold", n)
				}
				dropped += n
			}
			s.sweep.pos, s.sweep.begun = 0, false
			s.sweep.shard = (s.sweep.shard + 1) % len(s.shards)
		}
		return holds, dropped
	}
	segments := s.shards[0].table.segments + s.shards[1].table.segments
	if holds, dropped := cycle(reset - 1); dropped != 0 || holds > segments/holdSegments+2 {
		t.Errorf("nothing due: %d holds over %d segments dropped %d", holds, segments, dropped)
	}
	if holds, dropped := cycle(reset); dropped != keys || holds < segments {
		t.Errorf("all due: %d holds over %d segments dropped %d", holds, segments, dropped)
	}
	check(t, s)
}

// A sweep ends when its budget is used up and goes on where it was.
func TestSweepBudget(t *testing.T) {
	s := New(Config{Shards: 4})
	reset := fill(t, s, 5000)
	steps, dropped := 0, 0
	for dropped < 5000 {
		n, done := s.Sweep(reset, 0)
		if n > holdEntries || done {
			t.Fatalf("a sweep without a budget dropped %d, done %v", n, done)
		}
		dropped += n
		if steps++; steps > 1000 {
			t.Fatal("the sweep does not come round")
		}
	}
	check(t, s)
}

// When most keys are gone the memory goes too, whether all went or some of each
// chunk stayed.
func TestMemoryFollows(t *testing.T) {
	const keys = 100_000
	for name, left := range map[string]int{"all gone": 0, "one in 50 left": 50} {
		t.Run(name, func(t *testing.T) {
			s := New(Config{Shards: 4})
			f := s.NewFeed()
			reset := fill(t, s, keys)
			drain(f.Cut())
			full := s.Stats()
			for i := 0; left > 0 && i < keys; i += left {
				put(s, fmt.Sprintf("user:%011d", i), "stays")
			}
			drain(f.Cut())
			s.Sweep(reset, time.Hour) // drops
			drain(f.Cut())
			s.Sweep(reset, time.Hour) // merges
			s.Sweep(reset, time.Hour) // empties chunks
			for range 2 {             // the lists of changes keep no room for a round as large
				drain(f.Cut())
			}
			check(t, s)
			st := s.Stats()
			if left > 0 && st.Keys != keys/int64(left) || left == 0 && st.Keys != 0 {
				t.Fatalf("%d keys left", st.Keys)
			}
			if st.Bytes > full.Bytes/12 {
				t.Errorf("%d bytes held for %d keys, before %d for %d", st.Bytes, st.Keys, full.Bytes, full.Keys)
			}
			for i := 0; left > 0 && i < keys; i += left {
				if v, _ := get(s, fmt.Sprintf("user:%011d", i)); v != "stays" {
					t.Fatalf("key %d has %q", i, v)
				}
			}
		})
	}
}

// Chunks are emptied around records that a round has yet to tell.
func TestMemoryFollowsWhileDirty(t *testing.T) {
	const keys, step = 50_000, 50
	s := New(Config{Shards: 1})
	f := s.NewFeed()
	reset := fill(t, s, keys)
	drain(f.Cut())
	stays := func(i int, value string) {
		key := fmt.Appendf(nil, "user:%011d", i)
		tx := s.Lock(0, key)
		tx.Put(key, 1, []byte(value), MaxDeadline)
		tx.Unlock()
	}
	for i := 0; i < keys; i += step {
		stays(i, "1")
	}
	s.Sweep(reset, time.Hour)
	drain(f.Cut())
	for i := 0; i < keys; i += 2 * step {
		stays(i, "2")
	}
	r := f.Cut()
	for i := 0; i < keys; i += 3 * step {
		stays(i, "3")
	}
	full := s.Stats().Bytes
	s.Sweep(reset, time.Hour)
	check(t, s)
	for n, r := range []*Round{r, nil} {
		if r == nil {
			r = f.Cut()
		}
		changes := drain(r)
		if expect := (keys/step + 1 + n) / (2 + n); len(changes) != expect {
			t.Errorf("%d changes told, want %d", len(changes), expect)
		}
		for _, c := range changes {
			if string(c.Value) != fmt.Sprint(2+n) {
				t.Fatalf("key %s told as %q", c.Key, c.Value)
			}
		}
	}
	for range 3 { // one of them rests, because the one before gave nothing back
		s.Sweep(reset, time.Hour)
	}
	check(t, s)
	if st := s.Stats(); st.Bytes > full/10 {
		t.Errorf("%d bytes held, before %d", st.Bytes, full)
	}
}
