package shard

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestWatch(t *testing.T) {
	key := []byte("key")
	value, reset := bucketValue(t, 0, 1)
	store := func(tx *Tx) { tx.Put(key, 1, value, reset) }
	for _, c := range []struct {
		name          string
		before, after func(s *Store, tx *Tx) // after the watch began
		clock         int64                  // of after and of the question
		intact        bool
	}{
		{"nothing", func(_ *Store, tx *Tx) { store(tx) }, func(*Store, *Tx) {}, 1, true},
		{"nothing, absent", nil, func(*Store, *Tx) {}, 1, true},
		{"read", func(_ *Store, tx *Tx) { store(tx) }, func(_ *Store, tx *Tx) { tx.Get(key) }, 1, true},
		{"put", func(_ *Store, tx *Tx) { store(tx) }, func(_ *Store, tx *Tx) { store(tx) }, 1, false},
		{"put where none was", nil, func(_ *Store, tx *Tx) { store(tx) }, 1, false},
		{"deleted", func(_ *Store, tx *Tx) { store(tx) }, func(_ *Store, tx *Tx) { tx.Delete(key) }, 1, false},
		{"deleted where none was", nil, func(_ *Store, tx *Tx) { tx.Delete(key) }, 1, true},
		{"put and deleted", nil, func(_ *Store, tx *Tx) { store(tx); tx.Delete(key) }, 1, false},
		{"another key", func(_ *Store, tx *Tx) { store(tx) }, func(_ *Store, tx *Tx) { tx.Put([]byte("other"), 1, value, reset) }, 1, true},
		{"cleared", func(_ *Store, tx *Tx) { store(tx) }, func(_ *Store, tx *Tx) { tx.Clear() }, 1, false},
		{"cleared where none was", nil, func(_ *Store, tx *Tx) { tx.Clear() }, 1, true},
		{"dropped by the clock", func(_ *Store, tx *Tx) { store(tx) }, func(*Store, *Tx) {}, reset, false},
		{"dropped by the clock and put", func(_ *Store, tx *Tx) { store(tx) }, func(_ *Store, tx *Tx) { store(tx) }, reset, false},
		{"idle all the time", func(_ *Store, tx *Tx) { tx.Put(key, 1, value, 0) }, func(*Store, *Tx) {}, 2 * reset, false},
	} {
		s := New(Config{Shards: 1})
		tx := s.LockAll(0)
		if c.before != nil {
			c.before(s, &tx)
		}
		w := tx.Watch(key)
		tx.Unlock()
		tx = s.LockAll(c.clock)
		c.after(s, &tx)
		if got := tx.Intact(&w); got != c.intact || w.Key() != "key" {
			t.Errorf("%s: intact %v", c.name, got)
		}
		tx.Unwatch(&w)
		if s.shards[0].watched != nil {
			t.Errorf("%s: the shard still keeps the key", c.name)
		}
		tx.Unlock()
	}
}

// An entry that was idle when the watch began was absent: that the sweep takes
// it, or a Clear, is no change.
func TestWatchIdle(t *testing.T) {
	key := []byte("key")
	value, reset := bucketValue(t, 0, 1)
	for name, drop := range map[string]func(*Store){
		"sweep": func(s *Store) { s.Sweep(2*reset, 1e9) },
		"clear": func(s *Store) { tx := s.LockAll(2 * reset); tx.Clear(); tx.Unlock() },
	} {
		s := New(Config{Shards: 1})
		tx := s.Lock(0, key)
		tx.Put(key, 1, value, reset)
		tx.Unlock()
		tx = s.Lock(2*reset, key)
		w := tx.Watch(key)
		tx.Unlock()
		drop(s)
		if s.Len() != 0 {
			t.Errorf("%s left the entry", name)
		}
		tx = s.Lock(2*reset, key)
		if !tx.Intact(&w) {
			t.Errorf("%s of an idle entry counts as a change", name)
		}
		tx.Unlock()
	}
}

// Several watch one key; it is kept until the last of them has ended.
func TestWatchTogether(t *testing.T) {
	s := New(Config{Shards: 1})
	key := []byte("key")
	tx := s.Lock(0, key)
	defer tx.Unlock()
	a := tx.Watch(key)
	tx.Put(key, 1, nil, 1)
	b := tx.Watch(key)
	if tx.Intact(&a) || !tx.Intact(&b) {
		t.Error("a change is seen by who watched later, or not by who watched before")
	}
	tx.Unwatch(&a)
	tx.Put(key, 1, nil, 1)
	if tx.Intact(&b) {
		t.Error("a change is not seen when another has ended its watch")
	}
	tx.Unwatch(&b)
	if s.shards[0].watched != nil {
		t.Error("the shard still keeps the key")
	}
}

// Compare and swap by watching: no increment is lost.
func TestWatchIncrements(t *testing.T) {
	const workers, each = 4, 2000
	s := New(Config{Shards: 2})
	keys := [][]byte{[]byte("a"), []byte("b")}
	for _, key := range keys {
		put(s, string(key), "\x00\x00")
	}
	var tries atomic.Int64
	var wg sync.WaitGroup
	for g := range workers {
		wg.Go(func() {
			key := keys[g%2]
			for done := 0; done < each; tries.Add(1) {
				tx := s.Lock(0, key)
				w := tx.Watch(key)
				e, _ := tx.Get(key)
				n := uint16(e.Value[0])<<8 | uint16(e.Value[1])
				tx.Unlock()
				n++
				tx = s.Lock(0, key)
				if tx.Intact(&w) {
					tx.Put(key, 1, []byte{byte(n >> 8), byte(n)}, 1000)
					done++
				}
				tx.Unwatch(&w)
				tx.Unlock()
			}
		})
	}
	wg.Wait()
	for _, key := range keys {
		if v, _ := get(s, string(key)); int(v[0])<<8|int(v[1]) != workers/2*each {
			t.Errorf("%s counted to %x, want %d", key, v, workers/2*each)
		}
	}
	t.Logf("%d tries for %d increments", tries.Load(), workers*each)
}

// A change of a key allocates nothing, though another one of the shard is watched.
func TestWatchNoAllocation(t *testing.T) {
	s := New(Config{Shards: 1})
	key, value := []byte("key"), []byte("0123456789")
	put(s, "key", "0123456789")
	tx := s.Lock(0, key)
	tx.Watch([]byte("other"))
	tx.Watch(key)
	tx.Unlock()
	if n := testing.AllocsPerRun(100, func() {
		tx := s.Lock(1, key)
		tx.Put(key, 1, value, 1000)
		tx.Unlock()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
