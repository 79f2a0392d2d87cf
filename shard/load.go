package shard

import (
	"fmt"

	"github.com/rlserver/rlserver/engine"
)

// Load takes an entry from disk or from a peer, before commands are served; it
// may be called from several goroutines. The value is verified, its time is
// brought to at most maxTS (ms) and its deadline computed anew from clock (ms).
// An entry that is idle is dropped (kept false), unless Config.KeepExpired, and
// the feeds get a tombstone; one whose value had to be altered is told to them
// too; one that is as it was is not. An error says what is wrong with the
// change; nothing is stored then.
func (s *Store) Load(clock, maxTS int64, c Change) (kept bool, err error) {
	if err := checkEntry(c.Key, c.Kind, c.Value); err != nil {
		return false, err
	}
	var room [64]byte
	value, err := engine.Rebase(room[:0], c.Value, maxTS)
	if err != nil {
		return false, fmt.Errorf("entry of key %.64q: %w", c.Key, err)
	}
	reset := s.limits.resetAfter(value, clock)

	t := s.Lock(clock, c.Key)
	defer t.Unlock()
	t.seek(c.Key)
	if t.at.hit() {
		return false, fmt.Errorf("entry of key %.64q: there is one already", c.Key)
	}
	sh := t.shard
	if reset == 0 && !s.keepExpired {
		sh.expired++
		sh.bury(&t.w, c.Key)
		sh.account()
		return false, nil
	}
	w := t.w
	if string(value) == string(c.Value) {
		w = writer{}
	}
	sh.insert(&w, t.hash, c.Key, c.Kind, value, s.deadline(clock, reset))
	sh.account()
	return true, nil
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
