package shard

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// room asks for room as a command would, and proves that asking changed nothing.
func room(t *testing.T, s *Store, key string, n int) bool {
	t.Helper()
	before := s.Stats()
	k := []byte(key)
	tx := s.Lock(0, k)
	ok := tx.Room(k, n)
	if tx.Changed() {
		t.Error("Room changed something")
	}
	tx.Unlock()
	if after := s.Stats(); after != before {
		t.Errorf("Room made %+v of %+v", after, before)
	}
	return ok
}

// putIfRoom is what a command does; it says whether the key is stored now.
func putIfRoom(s *Store, key string, value []byte, reset int64) bool {
	k := []byte(key)
	tx := s.Lock(0, k)
	defer tx.Unlock()
	if !tx.Room(k, len(value)) {
		return false
	}
	tx.Put(k, 1, value, reset)
	return true
}

// A store over its ceiling has room for what it holds and for nothing else,
// however much of it is free.
func TestRoomOfKeysHeld(t *testing.T) {
	s := New(Config{Shards: 4})
	f := s.NewFeed()
	value, reset := bucketValue(t, 0, 1)
	if !room(t, s, "a", 10) || !putIfRoom(s, "a", value, reset) {
		t.Fatal("no room without a ceiling")
	}
	s.SetMaxBytes(1)
	if !s.Pressed() {
		t.Error("memory is not short over the ceiling")
	}
	if !room(t, s, "a", MaxValueBytes) {
		t.Error("no room for a key that is there")
	}
	if room(t, s, "b", 0) {
		t.Error("room for a new key")
	}
	tx := s.Lock(reset, []byte("a"))
	if _, ok := tx.Get([]byte("a")); ok || !tx.Room([]byte("a"), 10) {
		t.Error("no room for a key past its deadline, in the place that it still has")
	}
	tx.Unlock()
	remove(s, "a")
	drain(f.Cut())
	if room(t, s, "a", 10) {
		t.Error("room for a key that was deleted")
	}
	s.SetMaxBytes(0)
	if !room(t, s, "b", MaxValueBytes) || s.Pressed() {
		t.Error("no room after the ceiling was taken away")
	}
	check(t, s)
}

// Where memory is not short, slots that wait for the feed count when they are
// more than the entries: when most keys have gone.
func TestGoneWithoutPressure(t *testing.T) {
	const keys = 1000
	s := New(Config{Shards: 2})
	f := s.NewFeed()
	for i := range keys {
		put(s, fmt.Sprint(i), "value")
	}
	drain(f.Cut())
	for i := range keys {
		s.Measure()
		want := 0
		if left := keys - i; i > left {
			want = i
		}
		if s.Gone() != want || s.Pressed() {
			t.Fatalf("%d of %d keys deleted: %d slots are said to wait, want %d", i, keys, s.Gone(), want)
		}
		remove(s, fmt.Sprint(i))
	}
	drain(f.Cut())
	if s.Measure(); s.Gone() != 0 {
		t.Errorf("%d slots wait when all was told", s.Gone())
	}
}

// At the ceiling free slots are still filled, each once, and those that become
// free are when they were told to the feed.
func TestRoomInFreeSlots(t *testing.T) {
	s := New(Config{Shards: 1})
	f := s.NewFeed()
	value := strings.Repeat("v", 16)
	key := func(i int) string { return fmt.Sprintf("key:%04d", i) }
	put(s, key(0), value)
	s.SetMaxBytes(s.Used())
	held, used := 1, s.Used()
	for room(t, s, key(held), len(value)) {
		put(s, key(held), value)
		held++
	}
	if want := minChunkBytes / slotSizes[classOf(headerBytes+len(key(0))+len(value))]; held != want {
		t.Errorf("%d keys found a slot in a chunk of %d", held, want)
	}
	if room(t, s, "x", 4*len(value)) {
		t.Error("room for a slot of another size")
	}
	remove(s, key(3))
	if s.Measure(); s.Gone() != 1 {
		t.Errorf("%d slots are kept for the feed, want 1", s.Gone())
	}
	if room(t, s, key(held), len(value)) {
		t.Error("a deleted entry's slot is free before the round was drained")
	}
	drain(f.Cut())
	if s.Measure(); s.Gone() != 0 {
		t.Errorf("%d slots are kept for nobody", s.Gone())
	}
	s.SetMaxBytes(s.Used()) // the list of changes has grown
	if !putIfRoom(s, key(held), []byte(value), 1) || putIfRoom(s, key(held+1), []byte(value), 1) {
		t.Error("the slot was not filled, or filled twice")
	}
	if grown := s.Used() - used; grown >= minChunkBytes {
		t.Errorf("%d bytes more are used", grown)
	}
	check(t, s)
}

// A flood of new keys stops at the ceiling, and a ceiling that comes too late
// takes nothing away.
func TestRoomUnderFlood(t *testing.T) {
	const keys, ceiling = 100_000, 2 << 20
	s := New(Config{Shards: 8})
	f := s.NewFeed()
	s.SetMaxBytes(ceiling)
	value, reset := bucketValue(t, 0, 1)
	held := 0
	for i := range keys {
		if putIfRoom(s, fmt.Sprintf("user:%011d", i), value, reset) {
			held++
		}
		if i%1000 == 0 {
			drain(f.Cut())
			s.Measure()
		}
	}
	if used := s.Used(); used < ceiling*31/32 || used > ceiling+8*(maxChunkBytes+segmentBytes) {
		t.Errorf("%d bytes used of %d", used, ceiling)
	}
	if n := s.Len(); n != held || n < 25_000 || n > 45_000 {
		t.Errorf("%d keys are there, %d were taken", n, held)
	}
	s.SetMaxBytes(ceiling / 2)
	s.Sweep(0, time.Hour)
	if n := s.Len(); n != held {
		t.Errorf("%d of %d keys are left under a lower ceiling", n, held)
	}
	check(t, s)
}

// While memory is short the sweep makes room for slots of other sizes: entries
// of one size come due, in part, and the memory serves another size.
func TestRoomForOtherSizes(t *testing.T) {
	const ceiling = 4 << 20
	s := New(Config{Shards: 2})
	f := s.NewFeed()
	s.SetMaxBytes(ceiling)
	idle, reset := bucketValue(t, 0, 1)
	owing, long := bucketValue(t, 0, 100)
	i := 0
	for ; ; i++ {
		value, reset := idle, reset
		if i%3 == 0 {
			value, reset = owing, long
		}
		if !putIfRoom(s, fmt.Sprintf("user:%011d", i), value, reset) {
			break
		}
		if i%1000 == 0 {
			drain(f.Cut())
		}
	}
	drain(f.Cut())
	fat := make([]byte, 64)
	if putIfRoom(s, "fat", fat, 1) {
		t.Error("room before anything came due")
	}
	for range 4 { // drops, empties, and rests of cycles that found dirty records
		s.Sweep(reset, time.Hour)
		drain(f.Cut())
		s.Measure()
	}
	if n := s.Len(); n != (i+2)/3 {
		t.Errorf("%d of %d keys are left, want a third", n, i)
	}
	fats := 0
	for ; putIfRoom(s, fmt.Sprintf("fat:%011d", fats), fat, 1); fats++ {
		if fats%1000 == 0 {
			drain(f.Cut())
		}
	}
	if fats < i/6 {
		t.Errorf("%d fat keys have room in place of %d", fats, i-(i+2)/3)
	}
	if used := s.Used(); used > ceiling+2*(maxChunkBytes+segmentBytes) {
		t.Errorf("%d bytes used of %d", used, ceiling)
	}
	check(t, s)
}
