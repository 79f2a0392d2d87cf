package shard

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

const benchKeys = 100_000

func benchStore(b *testing.B, n int) (*Store, [][]byte) {
	s := New(Config{})
	s.NewFeed()
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "user:%011d", i)
		tx := s.Lock(0, keys[i])
		tx.Put(keys[i], 1, make([]byte, 16), 60_000)
		tx.Unlock()
	}
	rand.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return s, keys
}

// BenchmarkHit is the hot path: a random one of 100,000 keys is locked, read,
// written and unlocked.
func BenchmarkHit(b *testing.B) {
	s, keys := benchStore(b, benchKeys)
	value := make([]byte, 16)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		key := keys[i]
		if i++; i == len(keys) {
			i = 0
		}
		tx := s.Lock(1, key)
		e, ok := tx.Get(key)
		if !ok || len(e.Value) != 16 {
			b.Fatal("a key is missing")
		}
		tx.Put(key, 1, value, 60_000)
		tx.Unlock()
	}
}
