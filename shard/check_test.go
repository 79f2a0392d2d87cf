package shard

import "testing"

// check proves the invariants of a store that nobody uses meanwhile.
func check(t *testing.T, s *Store) {
	t.Helper()
	bytes := 0
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		bytes += sh.bytes()
		checkTable(t, s, sh)
		checkSets(t, s, sh)
		checkArena(t, &sh.table.arena)
		sh.mu.Unlock()
		if t.Failed() {
			t.Fatalf("in shard %d", i)
		}
	}
	if got := s.Used(); got != int64(bytes) {
		t.Errorf("the store counts %d bytes and takes %d", got, bytes)
	}
}

func checkTable(t *testing.T, s *Store, sh *shard) {
	t.Helper()
	tab := sh.table
	keys, segments, byDepth := 0, 0, [maxDepth + 1]int32{}
	for pos, more := uint64(0), tab.dir != nil; more; {
		seg := tab.segmentOf(pos)
		segments++
		byDepth[seg.depth]++
		n := 0
		var passed [segmentBuckets]uint16
		for b := range seg.buckets {
			for i := range bucketSlots {
				if seg.buckets[b].tags[i] == 0 {
					continue
				}
				n++
				rec := tab.arena.at(seg.buckets[b].refs[i])
				h := tab.hash(rec.key())
				if h < pos || tab.segmentOf(h) != seg || h&s.mask != uint64(sh.number(s)) {
					t.Errorf("key %q lies in the wrong segment or shard", rec.key())
				}
				for home := homeOf(h); home != b; home = (home + 1) % segmentBuckets {
					passed[home]++
				}
				if at := tab.find(h, rec.key()); !at.hit() || at.ref != seg.buckets[b].refs[i] {
					t.Errorf("key %q is not found where it lies", rec.key())
				}
				if rec.flags()&^(flagDirty|flagHeld) != 0 {
					t.Errorf("key %q has flags %#x in the index", rec.key(), rec.flags())
				}
				if rec.deadline() < seg.due {
					t.Errorf("deadline %d before the segment's due %d", rec.deadline(), seg.due)
				}
			}
		}
		for b := range seg.buckets {
			if got := seg.buckets[b].overflow(); got != passed[b] {
				t.Errorf("bucket %d counts %d keys passed on, and %d are", b, got, passed[b])
			}
		}
		if n != int(seg.count) {
			t.Errorf("segment counts %d keys and has %d", seg.count, n)
		}
		keys += n
		pos, more = seg.end(pos)
	}
	if keys != tab.keys || segments != tab.segments || byDepth != tab.byDepth {
		t.Errorf("table counts %d keys in %d segments and has %d in %d", tab.keys, tab.segments, keys, segments)
	}
	if tab.dir != nil && (len(tab.dir) != 1<<tab.depth || byDepth[tab.depth] == 0) {
		t.Errorf("directory of %d at depth %d", len(tab.dir), tab.depth)
	}
}

func (sh *shard) number(s *Store) int {
	for i := range s.shards {
		if &s.shards[i] == sh {
			return i
		}
	}
	return -1
}

// checkSets proves that a listed slot has a dirty bit of the feed that lists
// it, and that a dirty bit stands for exactly one listing.
func checkSets(t *testing.T, s *Store, sh *shard) {
	t.Helper()
	for n := range sh.feeds {
		for parity := range sh.feeds[n] {
			set := &sh.feeds[n][parity]
			a := set.arena
			if a == nil {
				a = &sh.table.arena
			}
			bit := dirtyBit(n, uint64(parity))
			seen := map[ref]bool{}
			for _, r := range set.refs[set.next:] {
				fl := a.at(r).flags()
				if fl&flagFree != 0 || fl&feedsOf(bit) == 0 {
					t.Errorf("feed %d lists a slot with flags %#x", n, fl)
				}
				if seen[r] {
					t.Errorf("feed %d lists a slot twice", n)
				}
				seen[r] = true
			}
		}
	}
}

func checkArena(t *testing.T, a *arena) {
	t.Helper()
	held, live, slots := 0, 0, 0
	for ci := range a.meta {
		m := &a.meta[ci]
		if a.bufs[ci] == nil {
			continue
		}
		size := slotSizes[m.class]
		held += len(a.bufs[ci])
		live += int(m.used) * size
		slots += int(m.used)
		free := 0
		for i := range int(m.fresh) {
			if a.bufs[ci][i*size]&flagFree != 0 {
				free++
			}
		}
		if free != int(m.fresh-m.used) {
			t.Errorf("chunk of %d fresh, %d used has %d free slots", m.fresh, m.used, free)
		}
		if m.listed != (m.used < m.slots && !m.victim) {
			t.Errorf("chunk of %d slots, %d used: listed %v", m.slots, m.used, m.listed)
		}
	}
	if held != a.held || live != a.live || slots != a.slots {
		t.Errorf("arena counts %d held, %d live, %d slots and has %d, %d, %d", a.held, a.live, a.slots, held, live, slots)
	}
}
