package shard

// Each tells every entry to fn, in batches of at most 256, until it returns
// false. An entry that is there from the beginning to the end is told at least
// once, in some state that it had meanwhile; one that comes or goes may be
// told or not. Entries past their deadline and not yet swept are told too. fn
// runs without any lock; what it gets is valid until it returns. Named limits
// are not entries: Limits.Changes has them. Under the promise Ahead it tells what
// the first feed does.
func (s *Store) Each(fn func([]Change) bool) {
	w := s.Walk()
	for more := true; more; {
		var batch []Change
		if batch, more = w.Next(); len(batch) > 0 && !fn(batch) {
			return
		}
	}
}

// A Walk is Each for those who cannot stay: it goes on when asked, and may be
// dropped at any time. It is for one goroutine.
type Walk struct {
	store *Store
	feed  int // whose telling it is
	shard int
	pos   uint64 // a hash of the next segment; segments may split and merge behind and before it
	out   []Change
	buf   []byte
}

// Walk begins a walk over all entries, which tells what Each does.
func (s *Store) Walk() *Walk { return &Walk{store: s} }

// Walk begins a walk that tells entries as this feed does.
func (f *Feed) Walk() *Walk { return &Walk{store: f.store, feed: f.n} }

// Next tells at most 256 entries, perhaps none, and whether there may be more.
// They are valid until the next call.
func (w *Walk) Next() (batch []Change, more bool) {
	if w.shard == len(w.store.shards) {
		return nil, false
	}
	w.out, w.buf, w.pos, more = w.store.shards[w.shard].collect(w.out[:0], w.buf[:0], w.pos, w.feed)
	if !more {
		w.shard, w.pos = w.shard+1, 0
	}
	return w.out, w.shard < len(w.store.shards)
}

// collect tells the segment of hash pos, and where the next one begins, if
// there is one.
func (sh *shard) collect(out []Change, buf []byte, pos uint64, feed int) ([]Change, []byte, uint64, bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t := sh.table
	if t.dir == nil {
		return out, buf, 0, false
	}
	seg := t.segmentOf(pos)
	for b := range seg.buckets {
		bk := &seg.buckets[b]
		t.fetchAll(bk)
		for i := range bucketSlots {
			if bk.tags[i] != 0 {
				out, buf = t.arena.at(bk.refs[i]).appendChange(out, buf, feed)
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
