package shard

import (
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/rlserver/rlserver/engine"
)

// Config says how a Store is built. The zero value is usable.
type Config struct {
	// Shards is the number of shards, a power of two from 1 to MaxShards; 0
	// chooses by the cores.
	Shards int
	// Grace, ms, >= 0, is added to an entry's reset to make its deadline.
	Grace int64
	// KeepExpired is for caller-clock trusted: the server's clock says nothing
	// about entries, so no entry is absent or dropped because of it.
	KeepExpired bool
	// Promise is what replies wait for.
	Promise Promise
	// Block is, under the promise Ahead, how far ahead of an entry its state on
	// disk is. The zero value is not at all, so that every change waits.
	Block engine.Block
}

const (
	// MaxShards is the largest number of shards.
	MaxShards = 1024
	// shardsPerProc keeps two of Go's processors, of which there are two for a
	// core, from often wanting the same lock.
	shardsPerProc = 8
	minShards     = 32
)

// A Store is the keyspace. Its methods may be called from any goroutine.
type Store struct {
	seed        maphash.Seed
	mask        uint64
	shards      []shard
	grace       int64
	keepExpired bool
	promise     Promise
	block       engine.Block
	drained     int64 // Unix ms, 0 = not: see drain.go; written with all locks held, read under any

	feeds  [maxFeeds]*Feed // set with all locks held, read under any
	clears atomic.Uint64   // calls of Clear

	follows atomic.Bool // a peer says which entries are gone, see apply.go

	used atomic.Int64 // bytes that the keyspace takes, see memory.go
	most atomic.Int64 // the ceiling of used; MaxInt64 if there is none
	free atomic.Int64 // of used: free slots, as Measure found them
	gone atomic.Int64 // slots of entries that are gone, as Measure found them

	limits Limits
	sweep  sweepState
}

// A shard is a part of the keyspace behind one lock, that guards all of it.
type shard struct {
	mu      sync.Mutex
	table   *table
	watched map[string]*watched // by key; nil while nobody watches one
	changes uint64              // Puts and Deletes that changed something
	expired uint64              // entries dropped by the clock
	counted int                 // bytes of the shard that are in Store.used
	tx      txState             // of the Tx over one key that holds the lock
	feeds   [maxFeeds][2]changeSet
	held    []byte              // room for a state to be held
	spared  map[uint64]struct{} // hashes of keys that do not count as emptied; nil if there are none
	_       [64]byte            // keeps the locks of two shards on different cache lines
}

// New makes an empty store. A Config out of range panics.
func New(c Config) *Store {
	n := c.Shards
	if n == 0 {
		n = max(runtime.GOMAXPROCS(0)*shardsPerProc, minShards)
		n = min(1<<bits.Len(uint(n-1)), MaxShards)
	}
	if n < 1 || n > MaxShards || n&(n-1) != 0 {
		panic(fmt.Sprintf("shard: %d shards: want a power of two from 1 to %d", n, MaxShards))
	}
	if c.Grace < 0 {
		panic(fmt.Sprintf("shard: grace of %d ms", c.Grace))
	}
	s := &Store{
		seed:        maphash.MakeSeed(),
		mask:        uint64(n - 1),
		shards:      make([]shard, n),
		grace:       c.Grace,
		keepExpired: c.KeepExpired,
		promise:     c.Promise,
		block:       c.Block,
	}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.table = &table{seed: s.seed}
		sh.tx = txState{store: s, one: sh, shard: sh}
	}
	s.most.Store(math.MaxInt64)
	s.limits.init(s)
	return s
}

// Shards returns the number of shards.
func (s *Store) Shards() int { return len(s.shards) }

// Len returns the number of keys held, those past their deadline and not yet
// swept included.
func (s *Store) Len() int {
	n := 0
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		n += sh.table.keys
		sh.mu.Unlock()
	}
	return n
}

func (s *Store) lockAll() {
	for i := range s.shards {
		s.shards[i].mu.Lock()
	}
}

func (s *Store) unlockAll() {
	for i := range s.shards {
		s.shards[i].mu.Unlock()
	}
}

// deadline is when to look at an entry written at clock, ms.
func (s *Store) deadline(clock, resetAfter int64) int64 {
	d := MaxDeadline - s.grace
	if clock < d && resetAfter < d-clock {
		d = clock + resetAfter
	}
	return min(max(d, 0)+s.grace, MaxDeadline)
}

// absent says whether an entry counts as absent at clock: past its deadline
// and idle.
func (s *Store) absent(rec record, clock int64) bool {
	return rec.deadline() <= clock && !s.keepExpired && s.resetAfter(rec.value(), clock) == 0
}

// resetAfter is the time in ms from clock after which an entry says no more than
// an absent one would.
func (s *Store) resetAfter(value []byte, clock int64) int64 {
	reset := s.limits.resetAfter(value, clock)
	if s.drained != 0 && !engine.Untouched(value, s.drained) {
		reset = max(reset, s.absentReset(value, clock))
	}
	return reset
}
