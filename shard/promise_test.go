package shard

import "testing"

// What changed waits for its round, under a promise; what did not, never.
func TestDue(t *testing.T) {
	key, other := []byte("key"), []byte("other")
	// With nothing held ahead every put waits, deletions need not.
	for _, c := range []struct {
		promise Promise
		feed    bool
		want    uint64
	}{{Nothing, true, 0}, {Changes, true, 2}, {Changes, false, 0}, {Ahead, true, 2}, {Ahead, false, 0}} {
		s := New(Config{Promise: c.promise})
		if c.feed {
			f := s.NewFeed()
			for r := f.Cut(); r.Next(1) != nil; {
			}
		}
		setNamed(t, s, "up", "adaptive:100..1000:20")
		due := func(what string, want uint64, f func(tx *Tx)) {
			t.Helper()
			for _, lock := range []func() Tx{
				func() Tx { return s.Lock(0, key) },
				func() Tx { return s.Lock(0, key, other) },
				func() Tx { return s.LockAll(0) },
			} {
				tx := lock()
				f(&tx)
				if got := tx.Due(); got != want {
					t.Errorf("promise %d: %s is due in round %d, want %d", c.promise, what, got, want)
				}
				tx.Unlock()
			}
		}
		due("a look", 0, func(tx *Tx) { tx.Get(key) })
		due("a deletion of nothing", 0, func(tx *Tx) { tx.Delete(key) })
		due("a put", c.want, func(tx *Tx) { tx.Put(key, 1, nil, 1000) })
		due("a deletion", c.want, func(tx *Tx) {
			tx.Put(key, 1, nil, 1000)
			tx.Delete(key)
		})
		if c.promise == Ahead {
			if _, got, err := s.Limits().Feedback([]byte("up"), true, 0, reportsAt); err != nil || got != 0 {
				t.Errorf("promise %d: a report that changes no rate is due in round %d", c.promise, got)
			}
			if _, got, err := s.Limits().Feedback([]byte("up"), false, 0, reportsAt); err != nil || got != c.want {
				t.Errorf("promise %d: a throttled call is due in round %d, want %d", c.promise, got, c.want)
			}
			continue
		}
		if _, got, err := s.Limits().Feedback([]byte("up"), true, 0, reportsAt); err != nil || got != c.want {
			t.Errorf("promise %d: a report is due in round %d, want %d", c.promise, got, c.want)
		}
	}
}
