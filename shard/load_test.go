package shard

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlserver/rlserver/engine"
)

// largeLog is a value far larger than a batch.
func largeLog(t *testing.T) (value []byte) {
	t.Helper()
	lim := engine.Limit{Algorithm: engine.Log, Capacity: 3000, Window: 1 << 30}
	for i := range int64(3000) {
		next, _, err := engine.Acquire(nil, lim, value, i*100_000, engine.Op{Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		value = next
	}
	if len(value) < batchBytes {
		t.Fatalf("a value of %d bytes", len(value))
	}
	return value
}

// load takes one entry.
func load(s *Store, clock, maxTS int64, c Change) (kept bool, err error) {
	l := s.Loader(clock, maxTS)
	if err = l.Add(c); err == nil {
		err = l.Flush()
	}
	n, _ := l.Count()
	return n > 0 && err == nil, err
}

func TestLoad(t *testing.T) {
	const clock, skew, grace = 1_000_000, 1000, 3000
	s := New(Config{Grace: grace, Shards: 1})
	f := s.NewFeed()
	live, reset := bucketValue(t, clock, 10)
	idle, _ := bucketValue(t, clock-50_000, 10)
	ahead, _ := bucketValue(t, clock+60_000, 10) // from a clock that ran ahead
	for _, c := range []struct {
		key   string
		value []byte
		kept  bool
	}{{"live", live, true}, {"idle", idle, false}, {"ahead", ahead, true}} {
		kept, err := load(s, clock, clock+skew, Change{Key: []byte(c.key), Value: c.value, Kind: 1, Deadline: 7})
		if err != nil || kept != c.kept {
			t.Errorf("Load of %s: %v, %v", c.key, kept, err)
		}
	}
	if s.Len() != 2 || s.Stats().Changes != 0 || s.Stats().Expired != 1 {
		t.Errorf("%d keys after Load, %+v", s.Len(), s.Stats())
	}
	tx := s.Lock(clock, []byte("live"))
	if e, ok := tx.Get([]byte("live")); !ok || e.Deadline != clock+reset+grace || string(e.Value) != string(live) {
		t.Errorf("loaded as %v, %v", e, ok)
	}
	tx.Unlock()
	// What is on disk as it should be is not written again.
	rebased, _ := bucketValue(t, clock+skew, 10)
	want(t, "the first round", told(f.Cut()), "-idle ahead="+string(rebased))
	check(t, s)

	for name, c := range map[string]Change{
		"already":        {Key: []byte("live"), Value: live, Kind: 1},
		"malformed":      {Key: []byte("bad"), Value: []byte("?"), Kind: 1},
		"tombstone":      {Key: []byte("dead"), Value: live, Kind: 0},
		"at most 1024":   {Key: make([]byte, MaxKeyBytes+1), Value: live, Kind: 1},
		"at most 63488 ": {Key: []byte("big"), Value: make([]byte, MaxValueBytes+1), Kind: 1},
	} {
		if kept, err := load(s, clock, clock, c); kept || err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Load of %s: %v, %v", name, kept, err)
		}
	}
	if s.Len() != 2 {
		t.Error("a refused entry is there")
	}
}

func TestLoadKeepsExpired(t *testing.T) {
	s := New(Config{KeepExpired: true})
	idle, _ := bucketValue(t, 0, 1)
	if kept, err := load(s, 1<<40, 1<<40, Change{Key: []byte("k"), Value: idle, Kind: 1}); !kept || err != nil {
		t.Errorf("Load: %v, %v", kept, err)
	}
}

// TestLoadInParallel loads entries of all fates and sizes from several
// goroutines, into an index made for as many keys, for too few or for too many.
func TestLoadInParallel(t *testing.T) {
	const clock, loaders, each = 1_000_000, 4, 2000
	live, _ := bucketValue(t, clock, 10)
	idle, _ := bucketValue(t, clock-50_000, 10)
	ahead, _ := bucketValue(t, clock+60_000, 10)
	fates := [][]byte{live, idle, ahead, live}
	for _, expected := range []int{0, 100, loaders * each, 300_000} {
		s := New(Config{Shards: 4})
		f := s.NewFeed()
		s.Expect(expected)
		check(t, s)
		var wg sync.WaitGroup
		for g := range loaders {
			wg.Go(func() {
				l := s.Loader(clock, clock)
				for i := range each {
					key := fmt.Appendf(nil, "%d:%d", g, i)
					if i%100 == 0 {
						key = append(key, strings.Repeat("k", MaxKeyBytes-len(key))...)
					}
					if err := l.Add(Change{Key: key, Value: fates[i%len(fates)], Kind: 1}); err != nil {
						t.Error(err)
					}
				}
				if kept, dropped := l.Count(); kept != each*3/4 || dropped != each/4 {
					t.Errorf("%d kept and %d dropped of %d", kept, dropped, each)
				}
				if err := l.Flush(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if s.Len() != loaders*each*3/4 {
			t.Errorf("expected %d: %d keys", expected, s.Len())
		}
		check(t, s)
		altered, gone := 0, 0
		for r := f.Cut(); ; {
			changes := r.Next(1000)
			if changes == nil {
				break
			}
			for _, c := range changes {
				if c.Kind == 0 {
					gone++
				} else {
					altered++
				}
			}
		}
		if altered != loaders*each/4 || gone != loaders*each/4 {
			t.Errorf("expected %d: the feed tells of %d altered and %d gone", expected, altered, gone)
		}
		check(t, s)
	}
}

// TestLoadTwice: a key that is there is an error, in the same batch or later.
func TestLoadTwice(t *testing.T) {
	s := New(Config{Shards: 1})
	value, _ := bucketValue(t, 0, 10)
	l := s.Loader(0, 0)
	for i := range 3 {
		if err := l.Add(Change{Key: []byte{byte(i / 2)}, Value: value, Kind: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := l.Flush(); err == nil || !strings.Contains(err.Error(), "already") {
			t.Error(err)
		}
	}
}

// TestLoadOfLargeValues: what is collected for a shard stays small.
func TestLoadOfLargeValues(t *testing.T) {
	s := New(Config{Shards: 1, KeepExpired: true})
	value := largeLog(t)
	l := s.Loader(0, 1<<40)
	for i := range 20 {
		if err := l.Add(Change{Key: []byte{byte(i)}, Value: value, Kind: 4}); err != nil {
			t.Fatal(err)
		}
		if n := len(l.batches[0].records); n > max(batchBytes, 2*len(value)) {
			t.Fatalf("%d bytes are collected", n)
		}
	}
	if err := l.Flush(); err != nil || s.Len() != 20 {
		t.Error(err, s.Len())
	}
	if n := cap(l.batches[0].records); n > 2*batchBytes {
		t.Errorf("%d bytes are kept for a batch", n)
	}
	check(t, s)
}

// TestExpect: an index made in advance is as large as one that grew, and gives
// back what turns out not to be needed.
func TestExpect(t *testing.T) {
	index := func(s *Store) (bytes int) {
		for i := range s.shards {
			tab := s.shards[i].table
			bytes += tab.bytes() - tab.arena.bytes()
		}
		return bytes
	}
	value, _ := bucketValue(t, 0, 10)
	for _, keys := range []int{1, 100, 1000, 10_000, 50_000, 90_000, 150_000} {
		grown, expected := New(Config{Shards: 4}), New(Config{Shards: 4})
		expected.Expect(keys)
		for _, s := range []*Store{grown, expected} {
			l := s.Loader(0, 0)
			for i := range keys {
				if err := l.Add(Change{Key: fmt.Appendf(nil, "user:%011d", i), Value: value, Kind: 1}); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Flush(); err != nil {
				t.Fatal(err)
			}
			check(t, s)
		}
		if a, b := index(grown), index(expected); b > a*3/2+8<<10 {
			t.Errorf("%d keys: the index takes %d bytes when it was made in advance, %d when it grew", keys, b, a)
		}
	}
	s := New(Config{Shards: 4})
	s.Expect(1_000_000)
	before := index(s)
	for range 20 {
		s.Sweep(0, time.Hour)
	}
	if after := index(s); before < 4_000_000 || after > before/100 {
		t.Errorf("an index for a million keys takes %d bytes, %d after the sweep found none", before, after)
	}
	s.Expect(1000)
	s.Expect(-1)
	check(t, s)
}
