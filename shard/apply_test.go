package shard

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// content is all that a store holds, entries with their deadlines and limits.
func content(s *Store) map[string]string {
	all := map[string]string{}
	w := &Walk{store: s, feed: 1} // as it is, with what is held left out
	for more := true; more; {
		var batch []Change
		batch, more = w.Next()
		for _, c := range batch {
			all[string(c.Key)] = fmt.Sprintf("%d %x %d", c.Kind, c.Value, c.Deadline)
		}
	}
	for _, c := range s.Limits().Changes() {
		all["@"+string(c.Key)] = fmt.Sprintf("%d %q", c.Kind, c.Value)
	}
	return all
}

func sameContent(t *testing.T, got, want *Store) {
	t.Helper()
	a, b := content(got), content(want)
	if len(a) != len(b) {
		t.Fatalf("%d entries, want %d", len(a), len(b))
	}
	for key, w := range b {
		if a[key] != w {
			t.Fatalf("%s is %q, want %q", key, a[key], w)
		}
	}
}

// ship cuts a round of the feed and applies it to another store.
func ship(t *testing.T, f *Feed, to *Store) {
	t.Helper()
	r := f.Cut()
	wipe := WipeNothing
	if r.Cleared {
		wipe = WipeKeys
	}
	var all []Change
	for _, c := range drain(r) {
		c.Key, c.Value = append([]byte(nil), c.Key...), append([]byte(nil), c.Value...)
		all = append(all, c)
	}
	if err := to.Apply(wipe, all); err != nil {
		t.Fatal(err)
	}
	check(t, to)
}

// TestApplyFollows has one store follow another through everything that a feed
// tells, with the feed switched off and on between and both feeds in use.
func TestApplyFollows(t *testing.T) {
	for name, promise := range map[string]Promise{"nothing": Nothing, "ahead": Ahead} {
		t.Run(name, func(t *testing.T) { applyFollows(t, promise) })
	}
}

func applyFollows(t *testing.T, promise Promise) {
	rnd := rand.New(rand.NewPCG(1, 2))
	s, to := New(Config{Shards: 4, Promise: promise}), New(Config{Shards: 2, Promise: promise})
	disk, f := s.NewFeed(), s.NewFeed()
	to.NewFeed()
	to.Follow(true)
	off := false
	for i := range 3000 {
		key := fmt.Appendf(nil, "k%d", rnd.IntN(200))
		clock := int64(i) * 10
		tx := s.Lock(clock, key)
		switch rnd.IntN(10) {
		case 0:
			tx.Delete(key)
		default:
			value, reset := bucketValue(t, clock, int64(1+rnd.IntN(100)))
			tx.Put(key, 1, value, reset)
		}
		if (tx.Shipped() == 0) != (off || !tx.changed) {
			t.Fatalf("shipped in round %d, off is %v", tx.Shipped(), off)
		}
		tx.Unlock()
		name := fmt.Sprintf("n%d", rnd.IntN(5))
		switch rnd.IntN(60) {
		case 0:
			setNamed(t, s, name, fmt.Sprintf("%d:20", 1+rnd.IntN(9)))
		case 1:
			setNamed(t, s, name, "adaptive:100..1000:20")
		case 2:
			s.Limits().Delete([]byte(name))
		case 3:
			s.Limits().Feedback([]byte(name), false, 5, clock)
		case 4:
			s.Sweep(clock, time.Hour)
		case 5:
			drain(disk.Cut())
		}
		if rnd.IntN(400) == 0 {
			s.Clear()
		}
		if rnd.IntN(20) == 0 && !off {
			ship(t, f, to)
			if n, _ := to.Sweep(clock+1_000_000, time.Hour); n != 0 {
				t.Fatal("a follower dropped by its own clock")
			}
			sameContent(t, to, s)
		}
		if rnd.IntN(200) == 0 && !off {
			f.Off()
			check(t, s)
			off = true
		} else if rnd.IntN(50) == 0 && off {
			f.On()
			off = false
			all := s.Limits().Changes()
			w := f.Walk()
			for more := true; more; {
				var batch []Change
				batch, more = w.Next()
				for _, c := range batch {
					c.Key, c.Value = append([]byte(nil), c.Key...), append([]byte(nil), c.Value...)
					all = append(all, c)
				}
			}
			if err := to.Apply(WipeAll, all); err != nil {
				t.Fatal(err)
			}
			sameContent(t, to, s)
		}
	}
	check(t, s)
}

// TestFeedOffCostsNothing: of a feed that is off no slot is kept.
func TestFeedOffCostsNothing(t *testing.T) {
	s := New(Config{Shards: 1})
	disk, f := s.NewFeed(), s.NewFeed()
	for i := range 100 {
		put(s, fmt.Sprint(i), "1")
	}
	f.Off()
	drain(disk.Cut())
	for i := range 100 {
		remove(s, fmt.Sprint(i))
	}
	drain(disk.Cut())
	check(t, s)
	if n := s.shards[0].table.arena.slots; n != 0 {
		t.Errorf("%d slots are kept", n)
	}
	put(s, "a", "1")
	if n := f.Pending(); n != 0 {
		t.Errorf("%d changes noted for a feed that is off", n)
	}
	f.On()
	put(s, "b", "1")
	want(t, "after On", told(f.Cut()), "b=1")
}

// TestApplyRefuses: what is malformed changes nothing.
func TestApplyRefuses(t *testing.T) {
	value, _ := bucketValue(t, 1000, 5)
	good := Change{Key: []byte("good"), Kind: 1, Value: value, Deadline: 5}
	for _, bad := range []Change{
		{Key: []byte("k"), Kind: 1, Value: []byte{0xff}},
		{Key: make([]byte, MaxKeyBytes+1), Kind: 1, Value: value},
		{Key: []byte("k"), Kind: 1, Value: value, Deadline: MaxDeadline + 1},
		{Key: []byte("k"), Kind: 1, Value: value, Space: 9},
		{Key: []byte("n"), Kind: 7, Value: []byte("1:2"), Space: LimitSpace},
		{Key: []byte("n"), Kind: 1, Value: []byte("nonsense"), Space: LimitSpace},
		{Key: nil, Kind: 1, Value: []byte("1:2"), Space: LimitSpace},
		{Key: []byte("#n"), Kind: 9, Space: LimitSpace},
	} {
		s := New(Config{Shards: 1})
		put(s, "old", "1")
		if err := s.Apply(WipeAll, []Change{good, bad}); err == nil {
			t.Errorf("took %+v", bad)
		}
		if s.Len() != 1 {
			t.Errorf("%+v was refused and changed the store", bad)
		}
	}
}
