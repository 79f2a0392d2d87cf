package shard

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestFetch fetches keys that are there, are not, or were, among splits, deletes
// and a Clear: it changes nothing and looks at nothing that is not there.
func TestFetch(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	s := New(Config{})
	keys := make([][]byte, 3000)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "%0*d", 1+rnd.IntN(40), i)
	}
	value, reset := bucketValue(t, 1000, 5)
	for n := range 20_000 {
		key := keys[rnd.IntN(len(keys))]
		tx := s.Lock(1000, key)
		if rnd.IntN(4) == 0 {
			tx.Delete(key)
		} else {
			tx.Put(key, 1, value, reset)
		}
		tx.Unlock()
		if n == 10_000 {
			s.Clear()
		}
		if n%500 != 0 {
			continue
		}
		before := content(s)
		for from := 0; from < len(keys); from += MaxFetch {
			s.Fetch(keys[from:min(from+MaxFetch, len(keys))])
		}
		if after := content(s); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Fatalf("after %d changes Fetch changed something", n)
		}
		check(t, s)
	}
	s.Fetch(nil)
}
