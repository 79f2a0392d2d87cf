package shard

// Sparse chunks are emptied by moving what is left in them, so that memory
// follows the keys down after many have gone. The sweep does it, one shard at
// a time: it chooses the victims, moves records out of them segment by segment,
// and at the end of the shard gives empty chunks back.

const (
	// sparseSlack is how many bytes of free slots a shard may have in any case.
	sparseSlack = 128 << 10
	// pressedSparse is the part of the slots in use, an eighth, that those free
	// may come to while memory is short: new keys may need slots of other sizes.
	pressedSparse = 8
	// maxRest is how many cycles a shard whose compaction freed nothing, because
	// undrained rounds list its records, is let alone at most.
	maxRest = 64
)

// A compaction is the state of emptying sparse chunks in an arena.
type compaction struct {
	victims []int32 // chunks chosen; those emptied meanwhile are released
	before  int     // arena.held at the start
	rest    int     // cycles to pass before the next one
	back    int     // rest after the next one that frees nothing
}

// beginCompaction chooses the chunks to empty if free slots are more than
// those in use, or while memory is short a part of them.
func (a *arena) beginCompaction(pressed bool) {
	c := &a.compact
	free, allowed := a.held-a.live, a.live
	if pressed {
		allowed /= pressedSparse
	}
	if free <= max(allowed, sparseSlack) {
		return
	}
	if c.rest > 0 {
		c.rest--
		return
	}
	c.before = a.held
	for ci := range a.meta {
		m := &a.meta[ci]
		if a.bufs[ci] == nil || !m.listed || m.used*2 > m.slots {
			continue
		}
		if alone := m.prev == none && m.next == none; alone && free <= a.live {
			continue // its records would only fill a new chunk
		}
		a.unlist(int32(ci))
		m.victim = true
		c.victims = append(c.victims, int32(ci))
	}
}

// endCompaction gives empty chunks back and lets new records into the rest.
func (a *arena) endCompaction() {
	c := &a.compact
	for _, ci := range c.victims {
		// A number released may name a new chunk already, that is no victim.
		if m := &a.meta[ci]; m.victim {
			m.victim = false
			a.list(ci)
		}
	}
	a.trim()
	if c.victims == nil {
		return
	}
	c.victims = nil
	if a.held < c.before {
		c.rest, c.back = 0, 0
	} else {
		c.back = min(max(2*c.back, 1), maxRest)
		c.rest = c.back
	}
}

// evacuate moves a record out of a victim chunk. One that a round lists stays:
// its slot could not be freed before the drain.
func (a *arena) evacuate(r ref) ref {
	rec := a.at(r)
	if !a.meta[r>>placeBits].victim || rec.flags()&flagDirty != 0 {
		return r
	}
	n := rec.size()
	to := a.alloc(n)
	copy(a.at(to), rec[:n])
	a.free(r)
	return to
}
