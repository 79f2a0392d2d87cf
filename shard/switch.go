package shard

// A feed that nobody needs is switched off: changes are not noted for it, so it
// costs no memory and need not be cut. A feed is on when it is made.

// Off switches the feed off and forgets what it had yet to tell, as if that had
// been told. The round before must be drained. It takes all locks, for as long
// as what was not told takes to forget.
func (f *Feed) Off() {
	s := f.store
	if f.last != nil {
		panic("shard: a feed switched off before its round was drained")
	}
	s.lockAll()
	defer s.unlockAll()
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	f.off = true
	f.cleared = [2]bool{}
	for i := range s.shards {
		sh := &s.shards[i]
		for parity := range sh.feeds[f.n] {
			sh.forgetSet(&sh.feeds[f.n][parity], dirtyBit(f.n, uint64(parity)))
		}
		sh.account()
	}
	s.limits.pending[f.n] = [2]map[string]Change{}
	s.limits.lockedSearches(func(r *search) { r.told[f.n] = true })
}

// On switches the feed on: it tells all changes from now on. Who wants to know
// the entries that are there walks over them, beginning after On.
func (f *Feed) On() {
	s := f.store
	s.lockAll()
	defer s.unlockAll()
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	if !f.off {
		return
	}
	f.off = false
	s.limits.lockedSearches(func(r *search) { r.told[f.n] = true })
}

// forgetSet empties a change set as a drain does, without telling.
func (sh *shard) forgetSet(set *changeSet, bit byte) {
	a := set.arena
	if a == nil {
		a = &sh.table.arena
	}
	for _, ref := range set.refs[set.next:] {
		rec := a.at(ref)
		fl := rec.flags()
		if fl&bit == 0 {
			continue
		}
		rec[0] = fl &^ bit
		if fl&flagGone != 0 && rec[0]&flagDirty == 0 {
			a.free(ref)
		}
	}
	*set = changeSet{}
}

// Shipped is the round of the second feed that the changes of this Tx land in,
// 0 if it has changed nothing or there is no second feed or it is off.
func (t *Tx) Shipped() uint64 {
	if !t.changed {
		return 0
	}
	return t.w.rounds[1]
}

// Shipping is the open round of the second feed, or 0: what was changed until now
// is in this one or in one before.
func (s *Store) Shipping() uint64 {
	s.limits.mu.Lock() // On and Off have it
	defer s.limits.mu.Unlock()
	return s.writer().rounds[1]
}
