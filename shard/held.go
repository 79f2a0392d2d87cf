package shard

import (
	"encoding/binary"

	"github.com/rlserver/rlserver/engine"
)

// Under the promise Ahead a record may hold, behind its value, what the first
// feed tells instead: a state that is ahead of it (engine.Ahead), with the round
// that it is in, or one that is no less ahead. While it covers what is put, the
// feed need not hear of it, and who waits only waits for that round, in most
// cases one long durable. A record without such a state is told as it is, and
// what is put next waits for its own round.
//
// The bytes behind the value: the state, the round (8 bytes, little endian), the
// length of the state (2 bytes).

// flagHeld says that a record holds such a state. Under the other promises it
// is never set, and a record has not a byte more.
const flagHeld = 0x40

// heldTail is what comes after a held state, in bytes.
const heldTail = 8 + 2

// firstFeed has the dirty bits of the feed that held states are for.
const firstFeed = 0x03

// behind is the length of what lies behind the value.
func (r record) behind(payload int) int {
	if r[0]&flagHeld == 0 {
		return 0
	}
	end := headerBytes + r.keyLen() + payload
	return heldTail + int(binary.LittleEndian.Uint16(r[end-2:]))
}

// held returns the held state and its round, nil if there is none.
func (r record) held() (state []byte, round uint64) {
	if r[0]&flagHeld == 0 {
		return nil, 0
	}
	end := r.size() - heldTail
	from := headerBytes + r.keyLen() + r.valueLen()
	return r[from:end:end], binary.LittleEndian.Uint64(r[end:])
}

// setHeld overwrites value and held state, of which there is none if it is nil.
// The slot must have room for them; value may be the record's own, held not.
func (r record) setHeld(value, held []byte, round uint64) {
	r[0] &^= flagHeld
	r.setValue(value)
	if held == nil {
		return
	}
	at := r.size()
	at += copy(r[at:], held)
	binary.LittleEndian.PutUint64(r[at:], round)
	binary.LittleEndian.PutUint16(r[at+8:], uint16(len(held)))
	binary.LittleEndian.PutUint16(r[10:], uint16(at+heldTail-headerBytes-r.keyLen()))
	r[0] |= flagHeld
}

// told is what the first feed tells of the record.
func (r record) told() []byte {
	if state, _ := r.held(); state != nil {
		return state
	}
	return r.value()
}

// A holding is what a put does to what is held.
type holding struct {
	state []byte // nil: nothing is held
	round uint64 // that it is in
	told  bool   // the first feed hears of it
}

// hold says what is to be held for a value that is about to be put.
func (t *Tx) hold(kind byte, value []byte) holding {
	sh, block := t.shard, t.store.block
	var held []byte
	var round uint64
	if t.at.hit() {
		if rec := sh.table.arena.at(t.at.ref); rec.kind() == kind {
			held, round = rec.held()
		}
	}
	if held != nil {
		covered, loose := engine.Covers(held, value, block)
		if covered {
			sh.held = append(sh.held[:0], held...)
			if loose {
				// What is held now covers what would be, so a value covered by that is by both,
				// whichever of them a disk has: nobody has to wait for the new one.
				if less, ok := engine.Ahead(sh.held[len(sh.held):], value, block); ok {
					if both, _ := engine.Covers(held, less, block); both {
						return holding{less, round, true}
					}
				}
			}
			return holding{sh.held, round, false}
		}
	}
	state, ok := engine.Ahead(sh.held[:0], value, block)
	if !ok {
		return holding{nil, t.w.rounds[0], true}
	}
	sh.held = state
	return holding{state, t.w.rounds[0], true}
}

// Covered says whether the first feed has been told, in the round returned, what covers a Put of the value: then that Put waits for nothing
// else. It is for the promise Ahead and changes nothing.
func (t *Tx) Covered(key []byte, kind byte, value []byte) (round uint64, ok bool) {
	t.seek(key)
	if !t.at.hit() {
		return 0, false
	}
	rec := t.shard.table.arena.at(t.at.ref)
	held, round := rec.held()
	if held == nil || rec.kind() != kind {
		return 0, false
	}
	ok, _ = engine.Covers(held, value, t.store.block)
	return round, ok
}

// putAhead is what Put does to the table under the promise Ahead.
func (t *Tx) putAhead(key []byte, kind byte, value []byte, deadline int64) {
	sh, h := t.shard, t.hold(kind, value)
	t.due = max(t.due, h.round)
	if t.at.hit() {
		sh.overwriteHeld(&t.w, &t.at, kind, value, &h, deadline)
		return
	}
	a := &sh.table.arena
	size := headerBytes + len(key) + len(value) + h.size()
	r := a.alloc(size)
	rec := a.at(r)
	rec.write(key, kind, value, deadline)
	rec.setHeld(value, h.state, h.round)
	sh.mark(&t.w, r, rec, t.w.open|t.w.closed)
	t.at = sh.table.insert(t.hash, r, deadline)
	sh.account()
}

// size is what the record takes more.
func (h *holding) size() int {
	if h.state == nil {
		return 0
	}
	return len(h.state) + heldTail
}

// overwriteHeld is overwrite with what is held.
func (sh *shard) overwriteHeld(w *writer, at *spot, kind byte, value []byte, h *holding, deadline int64) {
	a := &sh.table.arena
	old := a.at(at.ref)
	size := headerBytes + old.keyLen() + len(value) + h.size()
	if room := a.slotBytes(at.ref); size <= room && size > room/4 {
		mask := w.open | w.closed
		if !h.told { // a round that lists the record tells what is held, and that stays
			mask &^= firstFeed
		}
		sh.mark(w, at.ref, old, mask)
		old.setHead(kind, deadline)
		old.setHeld(value, h.state, h.round)
	} else {
		r := a.alloc(size)
		rec := a.at(r)
		rec.write(old.key(), kind, value, deadline)
		rec.setHeld(value, h.state, h.round)
		sh.retire(w, at.ref, old)
		sh.mark(w, r, rec, w.open|w.closed)
		at.seg.buckets[at.bucket()].refs[at.slot()] = r
		at.ref = r
		sh.account()
	}
	at.seg.due = min(at.seg.due, deadline)
}

// heldRoom is about what a new entry with a value of n bytes takes more.
func (s *Store) heldRoom(n int) int {
	if s.promise != Ahead {
		return 0
	}
	return n + 1 + heldTail
}

// Settle has the first feed told every entry as it is, for the last round of a
// stop: nothing is held from then on but what is put after it. It is to be called
// when no more commands come; a lock is held for at most 256 entries at a time.
func (s *Store) Settle() {
	if s.promise != Ahead {
		return
	}
	for i := range s.shards {
		sh := &s.shards[i]
		for pos, more := uint64(0), true; more; {
			pos, more = sh.settle(s, pos)
		}
	}
}

// settle is Settle for the segment of hash pos; it returns where the next one
// begins, if there is one.
func (sh *shard) settle(s *Store, pos uint64) (next uint64, more bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	t := sh.table
	if t.dir == nil {
		return 0, false
	}
	w := s.writer()
	seg := t.segmentOf(pos)
	for b := range seg.buckets {
		bk := &seg.buckets[b]
		for i := range bucketSlots {
			if bk.tags[i] == 0 {
				continue
			}
			if rec := t.arena.at(bk.refs[i]); rec.flags()&flagHeld != 0 {
				sh.mark(&w, bk.refs[i], rec, (w.open|w.closed)&firstFeed)
				rec.setHeld(rec.value(), nil, 0)
			}
		}
	}
	return seg.end(pos)
}
