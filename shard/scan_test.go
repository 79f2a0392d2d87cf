package shard

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// scanAll goes through a scan and counts how often each key is told. between is
// called between two pages.
func scanAll(t *testing.T, s *Store, clock int64, between func()) map[string]int {
	t.Helper()
	told := map[string]int{}
	var page Page
	for place, more := uint64(0), true; more; more = place != 0 {
		next := s.Scan(clock, place, &page)
		if len(page.Keys) > splitAt {
			t.Fatalf("a page of %d keys", len(page.Keys))
		}
		if next != 0 && next <= place || next >= MaxShards<<24 {
			t.Fatalf("from %d to %d", place, next)
		}
		for _, key := range page.Keys {
			told[string(key.Name)]++
			if key.Kind != 1 {
				t.Fatalf("%q is of kind %d", key.Name, key.Kind)
			}
		}
		place = next
		between()
	}
	return told
}

// Keys that stay are told once each while others come by the thousand and go,
// so that segments split and are merged before, at and behind the scan.
func TestScanWhileOthersComeAndGo(t *testing.T) {
	const stay, extra = 1500, 6_000
	s := New(Config{Shards: 2})
	for i := range stay {
		put(s, fmt.Sprint("stay:", i), "")
	}
	other := func(i int) string { return fmt.Sprint("other:", i) }
	merged, split := 0, 0
	for round := range 10 {
		grow := round%2 == 0
		if !grow {
			for i := range extra {
				put(s, other(i), "")
			}
		}
		at, pages := 0, 0
		before := s.shards[0].table.segments
		seen := scanAll(t, s, 0, func() {
			pages++
			if grow {
				for range extra / 30 {
					put(s, other(at), "")
					at++
				}
				return
			}
			if pages == round { // all at once, so that sisters become one at the place
				for i := range extra {
					remove(s, other(i))
				}
				s.Sweep(0, time.Hour)
			}
		})
		after := s.shards[0].table.segments
		merged, split = merged+max(before-after, 0), split+max(after-before, 0)
		for i := range stay {
			if n := seen[fmt.Sprint("stay:", i)]; n != 1 {
				t.Fatalf("round %d: key %d is told %d times", round, i, n)
			}
		}
		for key, n := range seen {
			if n > 1 {
				t.Fatalf("round %d: %s is told %d times", round, key, n)
			}
		}
		for i := range max(at, extra) {
			remove(s, other(i))
		}
		s.Sweep(0, time.Hour)
	}
	if merged == 0 || split == 0 {
		t.Errorf("%d segments merged and %d split during scans: nothing was tested", merged, split)
	}
	check(t, s)
}

// The same with the others at work at once.
func TestScanConcurrently(t *testing.T) {
	const stay = 2000
	s := New(Config{})
	for i := range stay {
		put(s, fmt.Sprint("stay:", i), "")
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprint("other:", g, i%5000)
				if i/5000%2 == 0 {
					put(s, key, "")
				} else {
					remove(s, key)
				}
				if i%10_000 == 9999 {
					s.Sweep(0, time.Millisecond)
				}
			}
		})
	}
	for range 20 {
		seen := scanAll(t, s, 0, func() {})
		for i := range stay {
			if n := seen[fmt.Sprint("stay:", i)]; n != 1 {
				t.Fatalf("key %d is told %d times", i, n)
			}
		}
	}
	close(stop)
	wg.Wait()
}

// Any number may be asked for; idle entries are not told.
func TestScanPlaces(t *testing.T) {
	s := New(Config{Shards: 4})
	if seen := scanAll(t, s, 0, func() {}); len(seen) != 0 {
		t.Errorf("an empty store tells %v", seen)
	}
	value, reset := bucketValue(t, 0, 1)
	for i := range 1000 {
		key := fmt.Appendf(nil, "%d", i)
		tx := s.Lock(0, key)
		tx.Put(key, 1, value, reset)
		tx.Unlock()
	}
	put(s, "", "the empty key is a key")
	if seen := scanAll(t, s, 0, func() {}); len(seen) != 1001 {
		t.Errorf("%d keys told of 1001", len(seen))
	}
	var page Page
	for _, place := range []uint64{4 << 24, 1 << 63, 1<<64 - 1} {
		if next := s.Scan(0, place, &page); next != 0 || len(page.Keys) != 0 {
			t.Errorf("place %d tells %d keys and goes on to %d", place, len(page.Keys), next)
		}
	}
	for place := range uint64(4 << 24 / 9973) {
		if next := s.Scan(0, place*9973, &page); next != 0 && next <= place*9973 {
			t.Fatalf("from %d to %d", place*9973, next)
		}
	}
	if seen := scanAll(t, s, reset, func() {}); len(seen) != 1 {
		t.Errorf("%d keys told when all but one are idle", len(seen))
	}
}

// Every key is found by a random place now and then.
func TestRandomPlace(t *testing.T) {
	s := New(Config{Shards: 8})
	s.RandomPlace(1 << 63)
	const keys, draws = 20, 2000
	for i := range keys {
		put(s, fmt.Sprint(i), "")
	}
	seen := map[string]int{}
	var page Page
	for i := range uint64(draws) {
		s.Scan(0, s.RandomPlace(i*0x9e3779b97f4a7c15), &page)
		if len(page.Keys) == 0 {
			t.Fatal("a random place of a small store has no keys")
		}
		seen[string(page.Keys[i%uint64(len(page.Keys))].Name)]++
	}
	for i := range keys {
		if n := seen[fmt.Sprint(i)]; n < draws/keys/3 || n > draws/keys*3 {
			t.Errorf("key %d comes %d times of %d", i, n, draws)
		}
	}
}

// BenchmarkScan is one page of a large store.
func BenchmarkScan(b *testing.B) {
	s := New(Config{})
	for i := range 100_000 {
		put(s, fmt.Sprintf("key:%012d", i), "0123456789abc")
	}
	var page Page
	place, keys := uint64(0), 0
	for b.Loop() {
		place = s.Scan(0, place, &page)
		keys += len(page.Keys)
	}
	b.ReportMetric(float64(keys)/float64(b.N), "keys/op")
}

// A Tx over all keys scans as the store does.
func TestScanOfTx(t *testing.T) {
	s := New(Config{Shards: 4})
	for i := range 3000 {
		put(s, fmt.Sprint("key:", i), "value")
	}
	pages := func(scan func(place uint64, to *Page) uint64) (all []string) {
		var page Page
		for place, first := uint64(0), true; first || place != 0; first = false {
			place = scan(place, &page)
			for _, k := range page.Keys {
				all = append(all, string(k.Name))
			}
			all = append(all, fmt.Sprint("-> ", place))
		}
		return all
	}
	want := pages(func(place uint64, to *Page) uint64 { return s.Scan(0, place, to) })
	place := s.RandomPlace(1 << 62)
	tx := s.LockAll(0)
	if got := pages(tx.Scan); !slices.Equal(got, want) {
		t.Errorf("%d keys and places, want %d", len(got), len(want))
	}
	if got := tx.RandomPlace(1 << 62); got != place {
		t.Errorf("place %d, want %d", got, place)
	}
	tx.Unlock()
	some := s.Lock(0, []byte("key:1"))
	wantPanic(t, "over some keys", func() { some.Scan(0, &Page{}) })
	wantPanic(t, "over some keys", func() { some.RandomPlace(1) })
	some.Unlock()
}
