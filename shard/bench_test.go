package shard

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

const benchKeys = 100_000

// benchStore makes a store of n keys and the keys, 16 bytes each, in another
// random order, one after the other in memory as a connection would have them.
func benchStore(n int) (*Store, [][]byte) {
	s := New(Config{})
	s.NewFeed()
	order := rand.Perm(n)
	for _, k := range order {
		key := fmt.Appendf(nil, "user:%011d", k)
		tx := s.Lock(0, key)
		tx.Put(key, 1, make([]byte, 16), 60_000)
		tx.Unlock()
	}
	keys := make([][]byte, n)
	flat := make([]byte, 0, n*16)
	for i, k := range rand.Perm(n) {
		flat = fmt.Appendf(flat, "user:%011d", k)
		keys[i] = flat[i*16 : (i+1)*16]
	}
	return s, keys
}

// cpuTime is the CPU time of this process: on a machine shared with others it
// says more than the clock.
func cpuTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkHit is the hot path: a key is locked, read, written and unlocked;
// the keys are random ones of 100,000, fetched before or not, or the same 100
// again and again.
func BenchmarkHit(b *testing.B) {
	for _, kind := range []struct {
		among   int
		fetched bool
	}{{100, false}, {benchKeys, false}, {benchKeys, true}} {
		among := kind.among
		b.Run(fmt.Sprintf("%d/fetched=%t", among, kind.fetched), func(b *testing.B) {
			s, keys := benchStore(benchKeys)
			value := make([]byte, 16)
			b.ReportAllocs()
			began, i := cpuTime(b), 0
			for b.Loop() {
				if kind.fetched && i%MaxFetch == 0 {
					s.Fetch(keys[i:min(i+MaxFetch, among)])
				}
				key := keys[i]
				if i++; i == among {
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
			b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkInsert adds new keys, splits of segments included.
func BenchmarkInsert(b *testing.B) {
	s := New(Config{})
	s.NewFeed()
	key, value := []byte("user:0000000000\x00"), make([]byte, 16)
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		binary.LittleEndian.PutUint64(key[8:], i)
		tx := s.Lock(1, key)
		tx.Put(key, 1, value, 60_000)
		tx.Unlock()
	}
}

// BenchmarkSweep is one cycle over a million keys, none or all of them due.
func BenchmarkSweep(b *testing.B) {
	const keys = 1_000_000
	s := New(Config{})
	f := s.NewFeed()
	reset := int64(0)
	for name, late := range map[string]int64{"none": -1, "all": 0} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				if s.Len() == 0 {
					reset = fill(b, s, keys)
					for r := f.Cut(); r.Next(1000) != nil; {
					}
				}
				b.StartTimer()
				s.Sweep(reset+late, time.Hour)
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/keys, "ns/key")
		})
	}
}

// BenchmarkDrain is a round in which each of a million keys changed.
func BenchmarkDrain(b *testing.B) {
	s, keys := benchStore(1_000_000)
	f := s.feeds[0]
	for b.Loop() {
		b.StopTimer()
		for _, key := range keys {
			tx := s.Lock(1, key)
			tx.Put(key, 1, key, 60_000)
			tx.Unlock()
		}
		b.StartTimer()
		for r := f.Cut(); r.Next(1000) != nil; {
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(len(keys)), "ns/key")
}

// BenchmarkEach tells a million entries.
func BenchmarkEach(b *testing.B) {
	s, keys := benchStore(1_000_000)
	for b.Loop() {
		s.Each(func([]Change) bool { return true })
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(len(keys)), "ns/key")
}

// BenchmarkApply is a frame of 1,000 changes of random keys of a million.
func BenchmarkApply(b *testing.B) {
	s, keys := benchStore(1_000_000)
	state, _ := bucketValue(b, 1000, 5)
	frame := make([]Change, 1000)
	for i := 0; b.Loop(); i++ {
		for j := range frame {
			frame[j] = Change{Key: keys[(i*len(frame)+j)%len(keys)], Kind: 1, Value: state}
		}
		if err := s.Apply(WipeNothing, frame); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(len(frame)), "ns/key")
}

// BenchmarkParallel is the hot path from all cores at once.
func BenchmarkParallel(b *testing.B) {
	s, keys := benchStore(benchKeys)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		value, i := make([]byte, 16), rand.IntN(len(keys))
		for pb.Next() {
			key := keys[i]
			if i++; i == len(keys) {
				i = 0
			}
			tx := s.Lock(1, key)
			tx.Get(key)
			tx.Put(key, 1, value, 60_000)
			tx.Unlock()
		}
	})
}
