package shard

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// Entries that stay are seen, while others come and go and segments split and
// merge.
func TestEachWhileChanging(t *testing.T) {
	const stable, passing = 3000, 20_000
	s := New(Config{Shards: 2})
	for i := range stable {
		put(s, fmt.Sprintf("stable:%d", i), "")
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			for i := range passing {
				select {
				case <-stop:
					return
				default:
				}
				if key := fmt.Sprintf("passing:%d", i); n%2 == 0 {
					put(s, key, "")
				} else {
					remove(s, key)
				}
				if i%1000 == 0 {
					s.Sweep(0, time.Hour)
				}
			}
		}
	})
	for range 30 {
		seen := map[string]bool{}
		s.Each(func(batch []Change) bool {
			for _, c := range batch {
				seen[string(c.Key)] = true
			}
			return true
		})
		for i := range stable {
			if !seen[fmt.Sprintf("stable:%d", i)] {
				t.Errorf("entry %d not seen", i)
			}
		}
	}
	close(stop)
	wg.Wait()
	check(t, s)

	calls := 0
	s.Each(func([]Change) bool { calls++; return false })
	if calls != 1 {
		t.Errorf("Each went on %d times after it was told to stop", calls-1)
	}
}
