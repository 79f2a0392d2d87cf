package shard

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

func put(s *Store, key string, value string) {
	k := []byte(key)
	tx := s.Lock(0, k)
	tx.Put(k, 1, []byte(value), 1000)
	tx.Unlock()
}

func get(s *Store, key string) (string, bool) {
	k := []byte(key)
	tx := s.Lock(0, k)
	defer tx.Unlock()
	e, ok := tx.Get(k)
	return string(e.Value), ok
}

// wantPanic runs f, which must panic with a text that holds want.
func wantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if r := recover(); !strings.Contains(fmt.Sprint(r), want) {
			t.Errorf("panic %v, want one about %q", r, want)
		}
	}()
	f()
}

func TestBounds(t *testing.T) {
	s := New(Config{Shards: 2})
	longest := strings.Repeat("k", MaxKeyBytes)
	largest := strings.Repeat("v", MaxValueBytes)
	put(s, longest, largest)
	put(s, "", "an empty key is a key")
	if v, ok := get(s, longest); !ok || v != largest {
		t.Error("the longest key lost the largest value")
	}
	if _, ok := get(s, ""); !ok {
		t.Error("the empty key is gone")
	}
	if _, ok := get(s, longest+"k"); ok {
		t.Error("a key too long is there")
	}
	check(t, s)

	key := []byte("key")
	tx := s.Lock(0, key)
	wantPanic(t, "at most 1024", func() { tx.Put(make([]byte, MaxKeyBytes+1), 1, nil, 0) })
	wantPanic(t, "at most 63488", func() { tx.Put(key, 1, make([]byte, MaxValueBytes+1), 0) })
	wantPanic(t, "kind 0", func() { tx.Put(key, 0, nil, 0) })
	wantPanic(t, "reset after -1", func() { tx.Put(key, 1, nil, -1) })
	wantPanic(t, "did not lock", func() {
		for i := range 64 { // some of them are in the other shard
			tx.Get([]byte{byte(i)})
		}
	})
	tx.Unlock()
	wantPanic(t, "power of two", func() { New(Config{Shards: 3}) })
	wantPanic(t, "power of two", func() { New(Config{Shards: 2 * MaxShards}) })
	wantPanic(t, "grace", func() { New(Config{Grace: -1}) })
}

// Deadlines never wrap, however far the clock and the reset.
func TestDeadlineClamp(t *testing.T) {
	s := New(Config{Grace: 3000})
	for _, c := range []struct{ clock, reset, want int64 }{
		{0, 0, 3000},
		{1000, 500, 4500},
		{MaxDeadline - 3001, 0, MaxDeadline - 1},
		{MaxDeadline, 0, MaxDeadline},
		{1<<63 - 1, 1<<63 - 1, MaxDeadline},
		{5, 1<<63 - 1, MaxDeadline},
	} {
		if got := s.deadline(c.clock, c.reset); got != c.want {
			t.Errorf("deadline(%d, %d) = %d, want %d", c.clock, c.reset, got, c.want)
		}
	}
}

// Reading never counts as a change; writing always does.
func TestChangeCounter(t *testing.T) {
	s := New(Config{Grace: 1})
	f := s.NewFeed()
	key, gone := []byte("key"), []byte("gone")
	value, reset := bucketValue(t, 0, 1)

	want := uint64(0)
	for _, step := range []struct {
		name    string
		changes uint64
		run     func(tx *Tx)
	}{
		{"get of an absent key", 0, func(tx *Tx) { tx.Get(key) }},
		{"delete of an absent key", 0, func(tx *Tx) { tx.Delete(key) }},
		{"put", 1, func(tx *Tx) { tx.Put(key, 1, value, reset) }},
		{"get", 0, func(tx *Tx) { tx.Get(key); tx.Get(gone) }},
		{"put of the same", 1, func(tx *Tx) { tx.Put(key, 1, value, reset) }},
		{"delete", 1, func(tx *Tx) { tx.Delete(key) }},
		{"put for the next", 1, func(tx *Tx) { tx.Put(key, 1, value, reset) }},
	} {
		tx := s.Lock(0, key, gone)
		step.run(&tx)
		changed := tx.Changed()
		tx.Unlock()
		want += step.changes
		if got := s.Stats().Changes; got != want || changed != (step.changes > 0) {
			t.Errorf("%s: %d changes, Changed() %v, want %d", step.name, got, changed, want)
		}
	}

	// Past its deadline and idle it is absent, and a look does not remove it.
	for drain(f.Cut()) != nil {
	}
	tx := s.Lock(reset+1, key)
	if _, ok := tx.Get(key); ok {
		t.Error("an idle entry is there at its deadline")
	}
	if tx.Delete(key) || tx.Changed() {
		t.Error("an idle entry was deleted")
	}
	tx.Unlock()
	if s.Stats().Changes != want || f.Pending() != 0 || s.Len() != 1 {
		t.Error("a look at an idle entry changed the store")
	}
	if round, n := s.Clear(); round != f.Round() || n != 1 || s.Stats().Changes != want+1 {
		t.Errorf("Clear() = round %d, %d entries", round, n)
	}
}

func drain(r *Round) (all []Change) {
	for batch := r.Next(10); batch != nil; batch = r.Next(10) {
		for _, c := range batch {
			c.Key, c.Value = append([]byte(nil), c.Key...), append([]byte(nil), c.Value...)
			all = append(all, c)
		}
	}
	return all
}

// Who locks the same shards in another order does not deadlock, and sees the
// other's work whole.
func TestOppositeOrder(t *testing.T) {
	s := New(Config{Shards: 8})
	keys := make([][]byte, 16)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key:%d", i)
		put(s, string(keys[i]), "\x00\x00\x00\x00\x00\x00\x00\x00")
	}
	const rounds = 2000
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range rounds {
				a, b := keys[i%16], keys[(i*7+g)%16]
				if g%2 == 0 {
					a, b = b, a
				}
				tx := s.Lock(0, a, b, a)
				for _, key := range [][]byte{a, b} {
					e, _ := tx.Get(key)
					var value [8]byte
					binary.LittleEndian.PutUint64(value[:], binary.LittleEndian.Uint64(e.Value)+1)
					tx.Put(key, 1, value[:], 0)
				}
				tx.Unlock()
			}
		})
	}
	wg.Wait()
	sum := uint64(0)
	s.Each(func(batch []Change) bool {
		for _, c := range batch {
			sum += binary.LittleEndian.Uint64(c.Value)
		}
		return true
	})
	if sum != 4*rounds*2 {
		t.Errorf("%d increments kept of %d", sum, 4*rounds*2)
	}
}

// Keys that an attacker chose spread over the shards, since nobody outside
// knows the seed: here keys that are alike, and those that another process
// with another seed would all put into one shard.
func TestSpread(t *testing.T) {
	const keys = 50_000
	other := New(Config{})
	chosen := func(i int) []byte { return fmt.Appendf(nil, "%d", i) }
	for name, next := range map[string]func() []byte{
		"alike": func() func() []byte {
			i := 0
			return func() []byte { i++; return fmt.Appendf(nil, "aaaaaaaaaaaaaaaa%d", i) }
		}(),
		"chosen": func() func() []byte {
			i := 0
			return func() []byte {
				for i++; other.shards[0].table.hash(chosen(i))&other.mask != 0; i++ {
				}
				return chosen(i)
			}
		}(),
	} {
		s := New(Config{})
		for range keys {
			put(s, string(next()), "")
		}
		st := s.Stats()
		if ratio := float64(st.FullestKeys) * float64(st.Shards) / float64(st.Keys); ratio >= 1.5 {
			t.Errorf("%s: the fullest of %d shards has %.2f times the mean", name, st.Shards, ratio)
		}
	}
}

// A Tx over one existing key allocates nothing.
func TestNoAllocation(t *testing.T) {
	s := New(Config{})
	s.NewFeed()
	put(s, "key", "0123456789abcdef")
	key, value := []byte("key"), []byte("0123456789ABCDE")
	if n := testing.AllocsPerRun(1000, func() {
		tx := s.Lock(1, key)
		if e, ok := tx.Get(key); !ok || e.Kind != 1 {
			t.Fatal("the key is missing")
		}
		tx.Put(key, 1, value, 60_000)
		tx.Unlock()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A Tx over many keys locks each of their shards once, in ascending order,
// whatever their number.
func TestLockManyKeys(t *testing.T) {
	for _, shards := range []int{1, 2, 64, 128, MaxShards} {
		s := New(Config{Shards: shards})
		for _, n := range []int{0, 2, 3, 100, 5 * MaxShards} {
			var keys [][]byte
			of := map[uint32]bool{}
			for i := range n {
				key := []byte(fmt.Sprint("key:", i/2*2)) // each twice
				keys = append(keys, key)
				of[uint32(maphash.Bytes(s.seed, key)&s.mask)] = true
			}
			want := slices.Sorted(maps.Keys(of))
			tx := s.Lock(0, keys...)
			if !slices.Equal(tx.many, want) {
				t.Errorf("%d keys on %d shards lock %d, want %d", n, shards, tx.many, want)
			}
			for _, key := range keys {
				tx.Put(key, 1, nil, 1000)
			}
			tx.Unlock()
			if got := s.Len(); got != n/2+n%2 && n > 0 {
				t.Errorf("%d keys on %d shards: %d are there", n, shards, got)
			}
			tx = s.LockAll(0)
			tx.Clear()
			tx.Unlock()
		}
	}
}
