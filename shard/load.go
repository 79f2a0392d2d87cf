package shard

import (
	"fmt"
	"hash/maphash"

	"github.com/rlserver/rlserver/engine"
)

// A Loader takes entries from disk or from a peer, before commands are served.
// It collects them by shard, so that a lock is taken once for many and their
// places in the index, that are all over the memory, are fetched at the same
// time. It is for one goroutine; several may load into a store at once.
type Loader struct {
	store         *Store
	clock, maxTS  int64
	batches       []batch // by shard
	room          []byte  // where values that are altered are made
	kept, dropped int
}

const (
	// batchEntries and batchBytes are the entries, and about the bytes of them,
	// that are collected for a shard: all that a Loader has fits the caches.
	batchEntries = 128
	batchBytes   = 8 << 10
)

// A batch is what is to go into one shard.
type batch struct {
	entries []pending
	records []byte // of the entries, end to end
}

// A pending is one entry of a batch.
type pending struct {
	hash uint64
	at   int // where its record begins
	fate fate
}

// A fate is what becomes of an entry that is loaded.
type fate byte

const (
	asItWas fate = iota // kept, and no feed needs to hear of it
	altered             // kept, and told
	idle                // not kept; a tombstone is told
)

// Loader returns a Loader. An entry's time is brought to at most maxTS (ms) and
// its deadline computed anew from clock (ms).
func (s *Store) Loader(clock, maxTS int64) *Loader {
	return &Loader{store: s, clock: clock, maxTS: maxTS, batches: make([]batch, len(s.shards))}
}

// Expect prepares an empty store for about so many keys: their index is there
// when they come and need not grow.
func (s *Store) Expect(keys int) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.table.expect(keys / len(s.shards))
		sh.account()
		sh.mu.Unlock()
	}
}

// Add takes an entry, whose bytes it does not keep. The value is verified. An
// entry that is idle is dropped, unless Config.KeepExpired, and the feeds get a
// tombstone; one whose value had to be altered is told to them too; one that is
// as it was is not. An error says what is wrong with the change, or with one
// added before; the store is not to be used then.
func (l *Loader) Add(c Change) error {
	if err := checkEntry(c.Key, c.Kind, c.Value); err != nil {
		return err
	}
	s := l.store
	value, err := engine.Rebase(l.room[:0], c.Value, l.maxTS)
	if err != nil {
		return fmt.Errorf("entry of key %.64q: %w", c.Key, err)
	}
	l.room = value
	reset := s.resetAfter(value, l.clock)
	p := pending{hash: maphash.Bytes(s.seed, c.Key)}
	switch {
	case reset == 0 && !s.keepExpired:
		p.fate = idle
		l.dropped++
	case string(value) != string(c.Value) && !engine.IsAhead(c.Value): // what a disk has is as good then
		p.fate = altered
		fallthrough
	default:
		l.kept++
	}
	return l.collect(p, c.Key, c.Kind, value, s.deadline(l.clock, reset))
}

// collect adds an entry to the batch of its shard.
func (l *Loader) collect(p pending, key []byte, kind byte, value []byte, deadline int64) error {
	n := p.hash & l.store.mask
	b := &l.batches[n]
	if b.entries == nil {
		b.entries, b.records = make([]pending, 0, batchEntries), make([]byte, 0, batchBytes)
	}
	size := headerBytes + len(key) + len(value)
	if len(b.entries) == batchEntries || len(b.entries) > 0 && len(b.records)+size > batchBytes {
		if err := l.put(b, &l.store.shards[n]); err != nil {
			return err
		}
	}
	p.at = len(b.records)
	b.records = append(b.records, make([]byte, size)...)
	record(b.records[p.at:]).write(key, kind, value, deadline)
	b.entries = append(b.entries, p)
	return nil
}

// Flush puts what is collected into the store. It is the last call, after which
// all entries added are there; errors as for Add.
func (l *Loader) Flush() error {
	for i := range l.batches {
		if err := l.put(&l.batches[i], &l.store.shards[i]); err != nil {
			return err
		}
	}
	return nil
}

// Count returns how many of the entries added are kept and how many dropped.
func (l *Loader) Count() (kept, dropped int) { return l.kept, l.dropped }

// put empties a batch into its shard.
func (l *Loader) put(b *batch, sh *shard) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	defer sh.account()
	w := l.store.writer()
	for i := range b.entries {
		sh.table.fetchBucket(b.entries[i].hash)
	}
	for i := range b.entries {
		p := &b.entries[i]
		rec := record(b.records[p.at:])
		if sh.table.find(p.hash, rec.key()).hit() {
			return fmt.Errorf("entry of key %.64q: there is one already", rec.key())
		}
		switch p.fate {
		case asItWas:
			sh.place(&writer{}, p.hash, rec)
		case altered:
			sh.place(&w, p.hash, rec)
		case idle:
			sh.expired++
			sh.bury(&w, rec.key())
		}
	}
	b.entries, b.records = b.entries[:0], b.records[:0]
	if cap(b.records) > 2*batchBytes {
		b.records = nil
	}
	return nil
}

// place adds an entry that is not there, given as its record without flags.
func (sh *shard) place(w *writer, h uint64, from record) {
	size := from.size()
	a := &sh.table.arena
	r := a.alloc(size)
	rec := a.at(r)
	copy(rec, from[:size])
	sh.mark(w, r, rec, w.open)
	sh.table.insert(h, r, rec.deadline())
}

// bury leaves a tombstone for a key that the store does not hold.
func (sh *shard) bury(w *writer, key []byte) {
	if w.open == 0 {
		return
	}
	a := &sh.table.arena
	r := a.alloc(headerBytes + len(key))
	rec := a.at(r)
	rec.write(key, 0, nil, 0)
	sh.mark(w, r, rec, w.open)
	rec[0] |= flagGone | flagTomb
}
