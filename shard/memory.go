package shard

import (
	"math"
	"unsafe"
)

// Memory. A store counts what its entries really take: the chunks with all
// their slots, free ones too, the index, and the lists and copies kept for the
// feeds. The count is kept up where memory comes and goes, so it is exact at
// any moment. Not in it are the named limits, that are few, one buffer of at
// most drainBytes for each feed, and what the runtime needs to manage it all:
// together a few hundredths.
//
// With a ceiling (SetMaxBytes) a store at it has no room for new keys. Nothing
// that it holds is given up for them: only who asks first (Tx.Room) is kept
// from adding to it, and entries that are there may go on growing.

// pressedShare is the last part of the ceiling, in which memory is short: what
// can be given back is given back before anybody is refused.
const pressedShare = 32

// SetMaxBytes sets the ceiling of Used, in bytes; 0 or less means that there is
// none. It holds from the next Tx.Room on; entries that are there stay.
func (s *Store) SetMaxBytes(n int64) {
	if n <= 0 {
		n = math.MaxInt64
	}
	s.most.Store(n)
	s.Measure()
}

// Used returns the bytes of memory that the keyspace takes now.
func (s *Store) Used() int64 { return s.used.Load() }

// Pressed says that memory is short: all but a 32nd of the ceiling is used.
// Sweeps give back more then.
func (s *Store) Pressed() bool {
	most := s.most.Load()
	return s.used.Load() >= most-most/pressedShare
}

// Measure looks up how much of Used is free slots, that a store at its ceiling
// still fills, and what waits for the feeds. It is to be called now and then: in
// between, slots that become free are filled, but not those beyond the ceiling
// that SetMaxBytes has lowered.
func (s *Store) Measure() {
	free, gone, keys := 0, 0, 0
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		free += sh.table.arena.held - sh.table.arena.live
		gone += sh.table.arena.slots - sh.table.keys
		keys += sh.table.keys
		sh.mu.Unlock()
	}
	if !s.Pressed() {
		free = 0
		if gone <= keys {
			gone = 0
		}
	}
	s.free.Store(int64(free))
	s.gone.Store(int64(gone))
}

// Gone returns how many slots the last Measure found that hold nothing but what
// the feeds have yet to tell: a round of each feed makes them free. They count
// while the store is pressed, or if they are more than there are entries: when
// most keys have gone there is memory enough, and yet they keep more of it than
// all that is left.
func (s *Store) Gone() int { return int(s.gone.Load()) }

// Room says whether a Put of key with a value of n bytes may be done: below the
// ceiling, or if the key has its place already, or if it finds a free slot, so
// that no memory is added. A Put for which there is no room is not to be done.
// Room changes nothing.
func (t *Tx) Room(key []byte, n int) bool {
	s := t.store
	used, most := s.used.Load(), s.most.Load()
	if used < most {
		return true
	}
	t.seek(key)
	if t.at.hit() {
		return true
	}
	return used-s.free.Load() < most && t.shard.table.arena.hasSlot(headerBytes+len(key)+n+s.heldRoom(n))
}

// account brings the store's count in step with what the shard takes. Who makes
// the shard take more or less calls it before letting go of the lock.
func (sh *shard) account() {
	if n := sh.bytes(); n != sh.counted {
		sh.tx.store.used.Add(int64(n - sh.counted))
		sh.counted = n
	}
}

// bytes is the memory of the shard.
func (sh *shard) bytes() int {
	n := sh.table.bytes() + len(sh.spared)*sparedBytes
	var kept *arena // by a Clear, for feeds that have not drained it
	for f := range sh.feeds {
		for p := range sh.feeds[f] {
			set := &sh.feeds[f][p]
			n += cap(set.refs)*int(unsafe.Sizeof(ref(0))) + cap(set.saved)
			if set.arena != nil && set.arena != kept {
				kept = set.arena
				n += kept.bytes()
			}
		}
	}
	return n
}

// bytes is the memory of the table.
func (t *table) bytes() int {
	return t.arena.bytes() + t.segments*segmentBytes + cap(t.dir)*int(unsafe.Sizeof(t.dir[0]))
}

// bytes is the memory of the chunks and of what is kept about them.
func (a *arena) bytes() int {
	return a.held + cap(a.bufs)*int(unsafe.Sizeof(a.bufs[0])) + cap(a.meta)*int(unsafe.Sizeof(a.meta[0])) +
		cap(a.unused)*int(unsafe.Sizeof(a.unused[0])) + cap(a.classes)*int(unsafe.Sizeof(a.classes[0]))
}

// hasSlot says whether alloc(n) takes a slot that is there.
func (a *arena) hasSlot(n int) bool {
	return a.classes != nil && a.classes[classOf(n)].room != none
}
