package shard

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
)

// A Tx is exclusive use of some keys: their shards are locked from Lock to
// Unlock, after which nothing may be asked of it. Everything it changes is in
// one round of each feed. It is for one goroutine and for a short time; the
// keys given to it must not be modified before Unlock.
type Tx struct {
	*txState
	key []byte // the key last used
}

// A txState is what a Tx knows beside its key. That of a Tx over one key lies
// in the shard, guarded by the lock it holds: so a Tx is small enough for
// registers and costs no allocation.
type txState struct {
	store   *Store
	one     *shard   // the shard locked, if only one key was asked for
	many    []uint32 // otherwise the numbers of the shards locked, ascending
	clock   int64
	w       writer
	changed bool
	told    int    // see Told
	due     uint64 // under the promise Ahead: the round that what was put is in, or is covered by

	// What is known of the key last used, so that a Put after a Get neither
	// hashes nor looks up again. at is what the index says if looked is set.
	looked bool
	hash   uint64
	shard  *shard
	at     spot
}

// An Entry is what is stored for a key.
type Entry struct {
	Kind     byte
	Value    []byte // valid until the next Put, Delete or Unlock; not to be modified
	Deadline int64  // ms since the epoch
}

// Lock locks the shards of the keys and returns the exclusive use of them.
// clock is the server's clock for this command, ms since the epoch, >= 0. The
// call does not allocate for one key. The same key may be given twice.
func (s *Store) Lock(clock int64, keys ...[]byte) Tx {
	if len(keys) != 1 {
		return s.lockMany(clock, keys)
	}
	h := maphash.Bytes(s.seed, keys[0])
	sh := &s.shards[h&s.mask]
	sh.mu.Lock()
	st := &sh.tx
	st.clock, st.hash, st.looked, st.changed, st.due = clock, h, false, false, 0
	st.w.read(s)
	return Tx{st, keys[0]}
}

func (s *Store) lockMany(clock int64, keys [][]byte) Tx {
	var in [MaxShards / 64]uint64 // a bit for each shard that has a key
	n := 0                        // of these
	for _, key := range keys {
		i := maphash.Bytes(s.seed, key) & s.mask
		n += int(^in[i>>6] >> (i & 63) & 1)
		in[i>>6] |= 1 << (i & 63)
	}
	// All who lock several shards do it in ascending order.
	many := make([]uint32, 0, n)
	for w, left := range in[:(len(s.shards)+63)/64] {
		for ; left != 0; left &= left - 1 {
			many = append(many, uint32(w*64+bits.TrailingZeros64(left)))
		}
	}
	return s.lockNumbers(clock, many)
}

// lockNumbers locks the shards of these numbers, which ascend.
func (s *Store) lockNumbers(clock int64, many []uint32) Tx {
	for _, i := range many {
		s.shards[i].mu.Lock()
	}
	st := &txState{store: s, many: many, clock: clock}
	st.w.read(s)
	return Tx{st, nil}
}

// Unlock ends the Tx.
func (t *Tx) Unlock() {
	st := t.txState
	*t = Tx{}
	if st.one != nil {
		st.one.mu.Unlock()
		return
	}
	for _, i := range st.many {
		st.store.shards[i].mu.Unlock()
	}
}

// Changed says whether the Tx changed anything.
func (t *Tx) Changed() bool { return t.changed }

// Round is the round of the first feed that the changes of this Tx land in, 0
// if there is no feed.
func (t *Tx) Round() uint64 { return t.w.rounds[0] }

// Get returns the entry of a key. An entry past its deadline that is idle is
// reported absent. Get changes nothing, ever.
func (t *Tx) Get(key []byte) (Entry, bool) {
	t.seek(key)
	if !t.at.hit() {
		return Entry{}, false
	}
	rec := t.shard.table.arena.at(t.at.ref)
	if t.store.absent(rec, t.clock) {
		return Entry{}, false
	}
	value := rec.value()
	t.told += len(value)
	return Entry{Kind: rec.kind(), Value: value, Deadline: rec.deadline()}, true
}

// Told is a count of the bytes of values that Get tells. It goes on from one Tx
// over one key to the next; the difference says how much was looked at between.
func (t *Tx) Told() int { return t.told }

// Put stores an entry. Its deadline is the clock + resetAfter (ms, >= 0) +
// Config.Grace, at most MaxDeadline. value may be the one that Get returned.
// A kind of 0 and a key or value over its bound panic. Whether there is memory
// for it is asked with Room, before anything is put.
func (t *Tx) Put(key []byte, kind byte, value []byte, resetAfter int64) {
	if err := checkEntry(key, kind, value); err != nil {
		panic("shard: " + err.Error())
	}
	if resetAfter < 0 {
		panic(fmt.Sprintf("shard: reset after %d ms", resetAfter))
	}
	t.seek(key)
	deadline := t.store.deadline(t.clock, resetAfter)
	sh := t.shard
	if t.store.promise == Ahead && t.w.open != 0 {
		t.putAhead(key, kind, value, deadline)
	} else if t.at.hit() {
		sh.overwrite(&t.w, &t.at, kind, value, deadline)
	} else {
		t.at = sh.insert(&t.w, t.hash, key, kind, value, deadline)
		sh.account()
	}
	sh.changes++
	t.changed = true
	if sh.watched != nil {
		sh.touch(key)
	}
}

// Delete forgets a key and says whether it was there; it does not count as emptied
// any more. One that Get would report absent is left to the sweep.
func (t *Tx) Delete(key []byte) bool {
	_, ok := t.Get(key)
	if t.store.drained != 0 {
		t.spare()
	}
	if !ok {
		return false
	}
	t.shard.remove(&t.w, t.hash, t.at)
	t.shard.account()
	t.at = spot{}
	t.shard.changes++
	t.changed = true
	if t.shard.watched != nil {
		t.shard.touch(key)
	}
	return true
}

// seek makes key the last used one and looks it up, if it is not and was not.
func (t *Tx) seek(key []byte) {
	if len(key) == 0 || len(key) != len(t.key) || &key[0] != &t.key[0] {
		t.aim(key)
	}
	if !t.looked {
		t.at = t.shard.table.find(t.hash, key)
		t.looked = true
	}
}

func (t *Tx) aim(key []byte) {
	h := maphash.Bytes(t.store.seed, key)
	n := h & t.store.mask
	sh := &t.store.shards[n]
	if sh != t.one {
		if _, ok := slices.BinarySearch(t.many, uint32(n)); !ok {
			panic("shard: a Tx used with a key it did not lock")
		}
	}
	t.key, t.hash, t.shard, t.looked = key, h, sh, false
}

// overwrite replaces the entry at a spot, in its slot if the value fits.
func (sh *shard) overwrite(w *writer, at *spot, kind byte, value []byte, deadline int64) {
	a := &sh.table.arena
	old := a.at(at.ref)
	size := headerBytes + old.keyLen() + len(value)
	// A value that shrank stays where it is unless the slot is far too large:
	// state that grows and shrinks by a byte shall not move each time.
	if room := a.slotBytes(at.ref); size <= room && size > room/4 {
		sh.mark(w, at.ref, old, w.open|w.closed)
		before := old.deadline()
		old.setHead(kind, deadline)
		old.setValue(value)
		if deadline >= before {
			// Not before the segment's due either: spare the look at its head.
			return
		}
	} else {
		r := a.alloc(size)
		rec := a.at(r)
		rec.write(old.key(), kind, value, deadline)
		sh.retire(w, at.ref, old)
		sh.mark(w, r, rec, w.open|w.closed)
		at.seg.buckets[at.bucket()].refs[at.slot()] = r
		at.ref = r
		sh.account()
	}
	at.seg.due = min(at.seg.due, deadline)
}

// insert adds a key that is not there.
func (sh *shard) insert(w *writer, h uint64, key []byte, kind byte, value []byte, deadline int64) spot {
	a := &sh.table.arena
	r := a.alloc(headerBytes + len(key) + len(value))
	rec := a.at(r)
	rec.write(key, kind, value, deadline)
	sh.mark(w, r, rec, w.open|w.closed)
	return sh.table.insert(h, r, deadline)
}

// remove takes the entry at a spot away and leaves a tombstone for the feeds.
func (sh *shard) remove(w *writer, h uint64, at spot) {
	rec := sh.table.arena.at(at.ref)
	sh.table.remove(h, at)
	sh.mark(w, at.ref, rec, w.open|w.closed)
	rec[0] |= flagGone | flagTomb
	if rec[0]&flagDirty == 0 {
		sh.table.arena.free(at.ref)
	}
}

// retire gives up a slot whose entry lives elsewhere now. Change sets that list
// the slot keep it until they are drained.
func (sh *shard) retire(w *writer, r ref, rec record) {
	dirty := rec.flags() & flagDirty
	if dirty == 0 {
		sh.table.arena.free(r)
		return
	}
	sh.mark(w, r, rec, feedsOf(dirty))
	rec[0] |= flagGone
}
