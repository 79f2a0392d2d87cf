package shard

// A Promise says what a reply waits for before it leaves: Tx.Due and
// Limits.Feedback tell the round.
type Promise byte

const (
	// Nothing waits.
	Nothing Promise = iota
	// Changes wait, each and every one.
	Changes
	// Ahead is for a disk that holds less credit than memory does: a change that
	// is covered by what the disk holds already does not wait.
	Ahead
)

// Promise is that of the store's Config.
func (s *Store) Promise() Promise { return s.promise }

// Due is the round of the first feed that must be durable before the reply to
// what this Tx did leaves, 0 if there is nothing to wait for. It is to be asked
// before Unlock.
func (t *Tx) Due() uint64 {
	switch {
	case t.store.promise == Nothing || !t.changed:
		return 0
	case t.store.promise == Ahead:
		return t.due
	}
	return t.Round()
}

// due is what Tx.Due is for a change of the named limits made now, while a lock
// is held that the cut passes through.
func (l *Limits) due() uint64 {
	if l.store.promise == Nothing || l.store.feeds[0] == nil {
		return 0
	}
	return l.store.feeds[0].Round()
}
