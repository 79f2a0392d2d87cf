package shard

// A Round is a closed round of a feed, to be drained by Next.
type Round struct {
	Number uint64
	// Cleared says that every entry from earlier rounds is gone; the entries
	// that Next tells came after that. Named limits are as they were.
	Cleared bool

	feed   *Feed
	limits []Change // named limits, still to be told
	shard  int      // the first shard not drained
	saved  []byte   // copies of the last shard finished, still to be told
}

const (
	// holdEntries is how many entries are looked at under one lock hold.
	holdEntries = 256
	// drainBytes ends a Next early, so that its buffer stays small.
	drainBytes = 1 << 20
)

// Next returns the next changes of the round, most of them at the most (at
// least 1), or nil when all were told. They are valid until the next call for
// this feed. A shard's lock is held for at most 256 entries at a time.
//
// Changes are to be applied in the order told: a tombstone may be followed by a
// newer entry of the same key. Named limits come before entries.
func (r *Round) Next(most int) []Change {
	f := r.feed
	if f.last != r {
		return nil
	}
	most = max(most, 1)
	f.out, f.buf = f.out[:0], f.buf[:0]
	for len(f.out) < most && len(f.buf) < drainBytes {
		if len(r.limits) > 0 {
			n := min(len(r.limits), most-len(f.out))
			f.out, r.limits = append(f.out, r.limits[:n]...), r.limits[n:]
		} else if len(r.saved) > 0 {
			r.drainSaved(most)
		} else if r.shard == len(f.store.shards) {
			break
		} else if r.drainRefs(min(most-len(f.out), holdEntries)) {
			r.shard++
		}
	}
	if len(f.out) == 0 {
		f.last = nil
		return nil
	}
	return f.out
}

// drainSaved tells copies of the last shard finished; they need no lock.
func (r *Round) drainSaved(most int) {
	f := r.feed
	for len(r.saved) > 0 && len(f.out) < most && len(f.buf) < drainBytes {
		rec := record(r.saved)
		f.out, f.buf = rec.appendChange(f.out, f.buf, f.n)
		r.saved = r.saved[rec.size():]
	}
}

// drainRefs tells up to n listed records of the shard. At the end of the list
// it takes over the copies, that nobody adds to any more, and says done.
func (r *Round) drainRefs(n int) (done bool) {
	f := r.feed
	sh := &f.store.shards[r.shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	defer sh.account()
	set := &sh.feeds[f.n][r.Number&1]
	a := set.arena
	if a == nil {
		a = &sh.table.arena
	}
	bit := dirtyBit(f.n, r.Number)
	end := min(set.next+n, len(set.refs))
	for _, ref := range set.refs[set.next:min(set.next+fetchSoon, len(set.refs))] {
		a.fetch(ref)
	}
	for set.next < end && len(f.buf) < drainBytes {
		ref := set.refs[set.next]
		if soon := set.next + fetchSoon; soon < len(set.refs) {
			a.fetch(set.refs[soon])
		}
		set.next++
		rec := a.at(ref)
		fl := rec.flags()
		if fl&flagFree != 0 {
			panic("shard: a slot freed while a round lists it")
		}
		if fl&bit == 0 {
			continue // a later round changed it, a copy is in saved
		}
		rec[0] = fl &^ bit
		if fl&flagGone == 0 || fl&flagTomb != 0 {
			f.out, f.buf = rec.appendChange(f.out, f.buf, f.n)
		}
		if fl&flagGone != 0 && rec[0]&flagDirty == 0 {
			a.free(ref)
		}
	}
	if set.next < len(set.refs) {
		return false
	}
	r.saved = set.saved
	set.finish()
	return true
}

// finish empties a drained set and keeps a room for the next round in it.
func (c *changeSet) finish() {
	refs := c.refs[:0]
	if cap(refs) > keepRefs && cap(refs) > 4*len(c.refs) {
		refs = nil
	}
	*c = changeSet{refs: refs}
}
