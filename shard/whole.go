package shard

// LockAll locks every shard and returns the exclusive use of all keys, for
// what concerns the whole keyspace. clock is as in Lock. It waits for whoever
// holds a lock, and meanwhile nobody gets one that it has: it is for rare and
// short work.
func (s *Store) LockAll(clock int64) Tx {
	all := make([]uint32, len(s.shards))
	for i := range all {
		all[i] = uint32(i)
	}
	return s.lockNumbers(clock, all)
}

// Alias returns the same exclusive use for parts of the work that the Tx is for,
// one after the other: each works on a copy of the alias, so that none takes
// over what the one before looked up. Neither is to be unlocked.
func (t *Tx) Alias() Tx { return Tx{t.txState, nil} }

// whole panics unless the Tx came from LockAll.
func (t *Tx) whole() {
	if len(t.many) != len(t.store.shards) {
		panic("shard: a Tx over some keys used for the whole keyspace")
	}
}

// Len returns the number of keys held, as Store.Len does. The Tx must have come
// from LockAll.
func (t *Tx) Len() (n int) {
	t.whole()
	for i := range t.store.shards {
		n += t.store.shards[i].table.keys
	}
	return n
}

// Clear drops every entry and returns how many there were. It takes the same
// short time however many there are. The named limits stay; what adaptive ones have
// found does not. The Tx must have come from LockAll.
func (t *Tx) Clear() (dropped int) {
	t.whole()
	s := t.store
	for i := range s.shards {
		sh := &s.shards[i]
		dropped += sh.table.keys
		t.touchAll(sh)
		for n, f := range s.feeds {
			if f != nil && !f.off {
				sh.clearFeed(n, t.w.rounds[n])
			}
		}
		sh.table = &table{seed: s.seed}
		sh.account()
	}
	for n, f := range s.feeds {
		if f != nil && !f.off {
			f.cleared[t.w.rounds[n]&1] = true
		}
	}
	s.drain(0)
	s.limits.forget()
	s.clears.Add(1)
	t.looked, t.changed = false, true
	return dropped
}

// SetLimit is Limits.SetNamed in the round of the Tx, which must have come from
// LockAll. Calls that come from now on see the limit, though their keys are
// still locked.
func (t *Tx) SetLimit(n NamedLimit) error {
	t.whole()
	_, err := t.store.limits.setNamed(t, n)
	if err == nil {
		t.changed, t.due = true, t.Round()
	}
	return err
}

// DeleteLimit is Limits.Delete in the round of the Tx, as SetLimit is.
func (t *Tx) DeleteLimit(name []byte) (found bool, err error) {
	t.whole()
	_, found, err = t.store.limits.delete(t, name)
	if found && err == nil {
		t.changed, t.due = true, t.Round()
	}
	return found, err
}

// indexBytes is about what the index takes for a key: a segment of 1024 bytes
// holds 84 to 168 keys, and eight bytes of the directory stand for it.
const indexBytes = 9

// Bytes returns the memory that the entry of a key takes, its slot and its share
// of the index, and whether there is one as Get has it.
func (t *Tx) Bytes(key []byte) (n int, ok bool) {
	if _, ok := t.Get(key); !ok {
		return 0, false
	}
	return t.shard.table.arena.slotBytes(t.at.ref) + indexBytes, true
}
