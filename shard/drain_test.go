package shard

import (
	"testing"
	"time"

	"github.com/rlserver/rlserver/engine"
)

// left is what a call under the limit finds of a key.
func left(t testing.TB, s *Store, clock int64, key, expr string) int64 {
	t.Helper()
	lim, err := engine.ParseExpression([]byte(expr))
	if err != nil {
		t.Fatal(err)
	}
	tx := s.Lock(clock, []byte(key))
	defer tx.Unlock()
	e, _ := tx.Get([]byte(key))
	old, err := tx.Drained([]byte(key), &lim, e.Value)
	if err != nil {
		t.Fatal(err)
	}
	d, err := engine.Peek(lim, old, clock, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// A key counts as emptied until it is changed or forgotten, or all are.
func TestDrain(t *testing.T) {
	s := New(Config{Shards: 4})
	feed := s.NewFeed()
	put := func(key string, at, missing int64) {
		value, reset := bucketValue(t, at, missing) // 1:100
		tx := s.Lock(at, []byte(key))
		tx.Put([]byte(key), 1, value, reset)
		tx.Unlock()
	}
	put("loaded", heldAt-500, 10)
	put("other", heldAt-500, 10)
	s.Drain(heldAt)
	want := func(key string, tokens int64) {
		t.Helper()
		if got := left(t, s, heldAt+3000, key, "1:100"); got != tokens {
			t.Errorf("%s has %d tokens, want %d", key, got, tokens)
		}
	}
	want("loaded", 3)
	want("absent", 3)
	put("loaded", heldAt, 20)
	want("loaded", 83)
	for _, key := range []string{"other", "absent"} {
		tx := s.Lock(heldAt, []byte(key))
		tx.Delete([]byte(key))
		tx.Unlock()
		want(key, 100)
	}
	check(t, s)
	want("another", 3)
	s.Clear()
	want("another", 100)
	if s.DrainedAt() != 0 {
		t.Error("a clear does not end it")
	}
	for feed.Cut().Next(1000) != nil {
	}
	check(t, s)
}

// While it lasts, an entry that is full is more than an absent key, which is not:
// it stays until that is full, too. One that was not changed says nothing.
func TestDrainIdle(t *testing.T) {
	s := New(Config{Shards: 4})
	value, reset := bucketValue(t, heldAt-1000, 50)
	for _, key := range []string{"untouched", "refunded"} {
		tx := s.Lock(heldAt-1000, []byte(key))
		tx.Put([]byte(key), 1, value, reset)
		tx.Unlock()
	}
	s.Drain(heldAt)
	value, d, err := engine.Refund(nil, value, 100, heldAt)
	if err != nil || d.ResetAfter != 0 {
		t.Fatal(d, err)
	}
	tx := s.Lock(heldAt, []byte("refunded"))
	tx.Put([]byte("refunded"), 1, value, 0)
	tx.Unlock()
	if n, _ := s.Sweep(heldAt+60_000, time.Hour); n != 1 || s.Len() != 1 {
		t.Errorf("%d were dropped, %d are left", n, s.Len())
	}
	if got := left(t, s, heldAt+60_000, "refunded", "1:100"); got != 100 {
		t.Errorf("%d tokens are left", got)
	}
	if n, _ := s.Sweep(heldAt+100_000, time.Hour); n != 1 || s.Len() != 0 {
		t.Errorf("%d were dropped, %d are left", n, s.Len())
	}
}

// What is forgotten is remembered up to a bound.
func TestDrainBound(t *testing.T) {
	s := New(Config{Shards: 1})
	s.Drain(heldAt)
	forget := func(key string) {
		tx := s.Lock(heldAt, []byte(key))
		tx.Delete([]byte(key))
		tx.Unlock()
	}
	forget("first")
	for i := range uint64(maxSpared - 1) {
		s.shards[0].spared[i] = struct{}{} // as if forgotten
	}
	forget("last")
	if got := left(t, s, heldAt, "first", "1:100"); got != 100 {
		t.Errorf("the first has %d tokens", got)
	}
	if got := left(t, s, heldAt, "last", "1:100"); got != 0 {
		t.Errorf("the one too many has %d tokens", got)
	}
}
