package shard

import (
	"math"

	"github.com/rlserver/rlserver/engine"
)

// Draining. After a stop that lost the last changes nobody can know which keys
// they were of: of any key, loaded or absent, all that its limit allows may have
// been taken. Drain has every key count as emptied at some moment, until it is
// changed or forgotten by a command: who decides or looks asks Tx.Drained for
// the state to go on from. It ends by itself as limits refill.

// maxSpared is how many keys a store remembers to have been forgotten by a
// command while it drains; more of them count as emptied still.
const maxSpared = 1 << 20

// sparedBytes is about what one of them takes.
const sparedBytes = 18

// Drain has every key that is not changed from now on count as emptied at at
// (Unix ms), which must be later than the time of every entry; 0 ends it. It is
// for the time before commands are served.
func (s *Store) Drain(at int64) {
	s.lockAll()
	defer s.unlockAll()
	s.drain(at)
}

// drain is Drain for who holds all locks.
func (s *Store) drain(at int64) {
	s.drained = at
	for i := range s.shards {
		s.shards[i].spared = nil
		s.shards[i].account()
	}
}

// DrainedAt is the moment at which keys count as emptied, 0 if they do not.
func (s *Store) DrainedAt() int64 {
	sh := &s.shards[0]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return s.drained
}

// Drained returns the state that a call under lim goes on from, given the value
// that Get returned, nil for none: the value itself, or, where the key counts
// as emptied, what is left of it. Errors are those of engine.Drained.
func (t *Tx) Drained(key []byte, lim *engine.Limit, value []byte) ([]byte, error) {
	at := t.store.drained
	if at == 0 || len(value) > 0 && !engine.Untouched(value, at) {
		return value, nil
	}
	t.seek(key)
	if _, ok := t.shard.spared[t.hash]; ok {
		return value, nil
	}
	return engine.Drained(nil, *lim, value, at)
}

// spare notes that the key last used was forgotten by a command.
func (t *Tx) spare() {
	sh := t.shard
	if len(sh.spared) >= maxSpared/len(t.store.shards) {
		return
	}
	if sh.spared == nil {
		sh.spared = map[uint64]struct{}{}
	}
	sh.spared[t.hash] = struct{}{}
	sh.account()
}

// absentReset is the time in ms from clock after which an absent key says what
// a new one does, under the limit that an entry is under now.
func (s *Store) absentReset(value []byte, clock int64) int64 {
	lim, err := s.limits.inForce(value)
	if err != nil {
		return math.MaxInt64
	}
	var room [engine.EntryRoom + engine.MaxNameBytes]byte
	empty, err := engine.Drained(room[:0], lim, nil, min(s.drained, engine.MaxNow))
	if err != nil {
		return math.MaxInt64
	}
	return engine.Reset(empty, clock)
}

// inForce is the limit that an entry is under now.
func (l *Limits) inForce(value []byte) (engine.Limit, error) {
	if name := engine.Name(value); name != nil {
		if lim, ok := l.Resolve(name); ok {
			return lim, nil
		}
	}
	return engine.StoredLimit(value)
}
