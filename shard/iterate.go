package shard

// Each tells every entry to fn, in batches of at most 256, until it returns
// false. An entry that is there from the beginning to the end is told at least
// once, in some state that it had meanwhile; one that comes or goes may be
// told or not. Entries past their deadline and not yet swept are told too. fn
// runs without any lock; what it gets is valid until it returns.
func (s *Store) Each(fn func([]Change) bool) {
	var out []Change
	var buf []byte
	for i := range s.shards {
		// pos walks through the hashes; segments may split and merge behind
		// and before it.
		for pos, more := uint64(0), true; more; {
			out, buf = out[:0], buf[:0]
			out, buf, pos, more = s.shards[i].collect(out, buf, pos)
			if len(out) > 0 && !fn(out) {
				return
			}
		}
	}
}

// collect tells the segment of hash pos, and where the next one begins, if
// there is one.
func (sh *shard) collect(out []Change, buf []byte, pos uint64) ([]Change, []byte, uint64, bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t := sh.table
	if t.dir == nil {
		return out, buf, 0, false
	}
	seg := t.segmentOf(pos)
	for b := range seg.buckets {
		bk := &seg.buckets[b]
		for i := range bucketSlots {
			if bk.tags[i] != 0 {
				out, buf = t.arena.at(bk.refs[i]).appendChange(out, buf)
			}
		}
	}
	pos, more := seg.end(pos)
	return out, buf, pos, more
}

// begin returns the first hash of the segment that holds hash pos.
func (s *segment) begin(pos uint64) uint64 {
	return pos &^ (uint64(1)<<(64-s.depth) - 1)
}

// end returns the first hash after those of the segment that holds hash pos.
func (s *segment) end(pos uint64) (next uint64, more bool) {
	width := uint64(1) << (64 - s.depth) // 0 for the whole range
	next = s.begin(pos) + width
	return next, width != 0 && next != 0
}
