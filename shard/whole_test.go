package shard

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// What a Tx over all shards does is in one round with what it clears.
func TestLockAll(t *testing.T) {
	s := New(Config{Shards: 4})
	f := s.NewFeed()
	a, b := []byte("a"), []byte("b")
	put(s, "a", "1")
	put(s, "b", "1")
	tx := s.LockAll(0)
	if tx.Len() != 2 || tx.Round() != 1 {
		t.Errorf("%d keys in round %d", tx.Len(), tx.Round())
	}
	tx.Get(a)
	if n := tx.Clear(); n != 2 || !tx.Changed() {
		t.Errorf("%d entries cleared", n)
	}
	if _, ok := tx.Get(a); ok {
		t.Error("a key is there after Clear, in the same Tx")
	}
	tx.Put(b, 1, []byte("2"), 0)
	part := tx.Alias()
	if e, ok := part.Get(b); !ok || string(e.Value) != "2" {
		t.Error("an alias does not see what the Tx did")
	}
	part.Put(a, 1, []byte("3"), 0)
	if part = tx.Alias(); !part.Delete(b) || !tx.Changed() {
		t.Error("an alias cannot delete")
	}
	tx.Unlock()
	if got := told(f.Cut()); got != "! a=3 -b" && got != "! -b a=3" {
		t.Errorf("the round told %q", got)
	}
	check(t, s)

	tx = s.Lock(0, a, b)
	defer tx.Unlock()
	wantPanic(t, "some keys", func() { tx.Clear() })
	wantPanic(t, "some keys", func() { tx.Len() })
}

// An alias of a Tx over one key does not take the Tx's own key for looked up.
func TestAliasForgetsTheKey(t *testing.T) {
	s := New(Config{Shards: 1})
	put(s, "a", "1")
	put(s, "b", "2")
	a, b := []byte("a"), []byte("b")
	tx := s.Lock(0, a)
	defer tx.Unlock()
	for range 3 {
		for key, want := range map[*[]byte]string{&a: "1", &b: "2"} {
			part := tx.Alias()
			if e, _ := part.Get(*key); string(e.Value) != want {
				t.Errorf("%s is %q", *key, e.Value)
			}
		}
	}
}

// LockAll and Locks of some keys in any order do not wait for each other in a
// circle, nor for Cut.
func TestLockAllAmongOthers(t *testing.T) {
	s := New(Config{Shards: 16})
	f := s.NewFeed()
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			for i := range 2000 {
				a, b := fmt.Appendf(nil, "%d", i), fmt.Appendf(nil, "%d", i*g)
				tx := s.Lock(0, a, b)
				tx.Put(a, 1, nil, 0)
				tx.Put(b, 1, nil, 0)
				tx.Unlock()
			}
		})
	}
	wg.Go(func() {
		for i := range 500 {
			tx := s.LockAll(0)
			if i%50 == 0 {
				tx.Clear()
			}
			tx.Unlock()
		}
	})
	wg.Go(func() {
		for range 100 {
			drain(f.Cut())
		}
	})
	wg.Wait()
	check(t, s)
}

// The bytes of all keys are about what the store says it uses.
func TestBytes(t *testing.T) {
	s := New(Config{})
	const keys = 200_000
	value, reset := bucketValue(t, 0, 1)
	sum := 0
	for i := range keys {
		key := fmt.Appendf(nil, "key:%012d", i)
		tx := s.Lock(0, key)
		tx.Put(key, 1, value, reset)
		n, ok := tx.Bytes(key)
		if !ok {
			t.Fatal("a key that was put has no bytes")
		}
		sum += n
		tx.Unlock()
	}
	st := s.Stats()
	if got := float64(sum) / float64(st.Bytes); got < 0.85 || got > 1.1 {
		t.Errorf("the keys have %d bytes, the store %d", sum, st.Bytes)
	}
	t.Logf("%d bytes a key, %d with what is free", sum/keys, st.Bytes/keys)
	key := []byte("key:000000000001")
	tx := s.Lock(reset, key)
	defer tx.Unlock()
	if _, ok := tx.Bytes(key); ok {
		t.Error("a key that is absent by now has bytes")
	}
}

// A limit that a Tx sets is in its round, though that is being cut meanwhile.
func TestTxSetsLimit(t *testing.T) {
	s := New(Config{Shards: 2})
	f := s.NewFeed()
	a := []byte("a")
	tx := s.LockAll(0)
	cut := make(chan *Round)
	go func() { cut <- f.Cut() }()
	for f.Round() == 1 {
		runtime.Gosched()
	}
	n := NamedLimit{Name: "n"}
	if err := n.Parse([]byte("10:20")); err != nil {
		t.Fatal(err)
	}
	if err := tx.SetLimit(n); err != nil || !tx.Changed() {
		t.Error(err)
	}
	tx.Put(a, 1, []byte("1"), 0)
	tx.Unlock()
	want(t, "the round", told(<-cut), "n=10:20 a=1")

	tx = s.LockAll(0)
	if found, err := tx.DeleteLimit([]byte("other")); found || err != nil || tx.Changed() {
		t.Errorf("found %v %v", found, err)
	}
	if found, err := tx.DeleteLimit([]byte("n")); !found || err != nil || !tx.Changed() {
		t.Errorf("found %v %v", found, err)
	}
	tx.Unlock()
	want(t, "the next round", told(f.Cut()), "-n")
	tx = s.Lock(0, a)
	defer tx.Unlock()
	wantPanic(t, "some keys", func() { tx.SetLimit(n) })
	wantPanic(t, "some keys", func() { tx.DeleteLimit([]byte("n")) })
}
