package shard

import "math/bits"

// A Page is what a scan tells at a time, and room for the next.
type Page struct {
	Keys []Key // valid until the next Scan with this page
	buf  []byte
}

// A Key is a key with the kind of its entry.
type Key struct {
	Name []byte
	Kind byte
}

// A place in a scan: the number of a shard above the first hash bits of the
// next segment. They are as many as a directory can use, so every segment begins
// at a place.
const placeInShard = 1<<maxDepth - 1

// Scan tells the keys of one segment, at most 168 and perhaps none, and the
// place where the next one is. 0 is the first place, and 0 says that there is
// no next. Nothing is kept between the calls: a place is a number below
// MaxShards << 24 that stays valid as long as the store lives, and any number
// may be asked for.
//
// A scan from 0 to 0 tells every key that is there from its beginning to its
// end, none of them twice, however the index grows and shrinks meanwhile; one
// that comes or goes may be told or not. A key that Get would report absent at
// clock, ms, is not told.
func (s *Store) Scan(clock int64, place uint64, to *Page) (next uint64) {
	n := place >> maxDepth
	if n < uint64(len(s.shards)) {
		sh := &s.shards[n]
		sh.mu.Lock()
		defer sh.mu.Unlock()
	}
	return s.lockedScan(clock, place, to)
}

// Scan is Store.Scan at the clock of the Tx, which must have come from LockAll.
func (t *Tx) Scan(place uint64, to *Page) (next uint64) {
	t.whole()
	return t.store.lockedScan(t.clock, place, to)
}

func (s *Store) lockedScan(clock int64, place uint64, to *Page) (next uint64) {
	to.Keys, to.buf = to.Keys[:0], to.buf[:0]
	n := place >> maxDepth
	if n >= uint64(len(s.shards)) {
		return 0
	}
	sh := &s.shards[n]
	pos := (place & placeInShard) << (64 - maxDepth)
	more := sh.table.dir != nil
	if more {
		seg := sh.table.segmentOf(pos)
		s.tell(sh.table, seg, clock, pos, to)
		pos, more = seg.end(pos)
	}
	switch {
	case more:
		return n<<maxDepth | pos>>(64-maxDepth)
	case n+1 < uint64(len(s.shards)):
		return (n + 1) << maxDepth
	}
	return 0
}

// tell adds the keys of a segment, from hash pos on, to a page.
func (s *Store) tell(t *table, seg *segment, clock int64, pos uint64, to *Page) {
	// Sisters that were merged hold keys from before pos: those were told.
	again := seg.begin(pos) != pos
	for b := range seg.buckets {
		bk := &seg.buckets[b]
		for i := range bucketSlots {
			if bk.tags[i] == 0 {
				continue
			}
			rec := t.arena.at(bk.refs[i])
			if s.absent(rec, clock) || again && t.hash(rec.key()) < pos {
				continue
			}
			from := len(to.buf)
			to.buf = append(to.buf, rec.key()...)
			to.Keys = append(to.Keys, Key{to.buf[from:len(to.buf):len(to.buf)], rec.kind()})
		}
	}
}

// RandomPlace returns a place to begin a scan at: in a shard that is the more
// likely the more keys it has, and anywhere in it. r is a random number.
func (s *Store) RandomPlace(r uint64) (place uint64) {
	return s.randomPlace(r, s.Len(), func(sh *shard) (uint64, uint64) {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		return sh.keysAndPlace(r)
	})
}

// RandomPlace is Store.RandomPlace for a Tx that came from LockAll.
func (t *Tx) RandomPlace(r uint64) (place uint64) {
	return t.store.randomPlace(r, t.Len(), func(sh *shard) (uint64, uint64) { return sh.keysAndPlace(r) })
}

// keysAndPlace is how many keys a shard has, and a place in it.
func (sh *shard) keysAndPlace(r uint64) (keys, in uint64) {
	if keys = uint64(sh.table.keys); keys > 0 {
		pos := r << (64 - maxDepth)
		in = sh.table.segmentOf(pos).begin(pos) >> (64 - maxDepth)
	}
	return keys, in
}

// randomPlace goes through the shards until as many of all keys are behind it
// as r says.
func (s *Store) randomPlace(r uint64, all int, ask func(*shard) (keys, in uint64)) (place uint64) {
	which, _ := bits.Mul64(r, uint64(all))
	for i := range s.shards {
		keys, in := ask(&s.shards[i])
		place = uint64(i)<<maxDepth | in
		if which < keys {
			break
		}
		which -= keys
	}
	return place
}
