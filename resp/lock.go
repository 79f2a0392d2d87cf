package resp

import "github.com/rlserver/rlserver/shard"

// Locks. A handler gets its keys here and nowhere else, so that it runs alike
// by itself and inside EXEC, where all keys are locked already.

// lock gives the command at hand the exclusive use of its keys, until unlock.
func (s *Session) lock(keys ...[]byte) shard.Tx {
	if s.tx != nil {
		return *s.tx
	}
	return s.srv.store.Lock(s.now, keys...)
}

// lockAll is lock for a command that concerns all keys: its row has flagWhole.
func (s *Session) lockAll() shard.Tx {
	if s.tx != nil {
		return *s.tx
	}
	return s.srv.store.LockAll(s.now)
}

// unlock ends lock and lockAll, and notes what the reply waits for.
func (s *Session) unlock(tx *shard.Tx) {
	if s.tx == nil {
		s.round = max(s.round, tx.Due())
		if round := tx.Shipped(); round != 0 {
			s.shipped(round)
		}
		tx.Unlock()
	}
}

// shipped notes that something was changed in a round of the second feed.
func (s *Session) shipped(round uint64) {
	s.wrote = max(s.wrote, round)
	if s.srv.shipping.Load() {
		s.ship = max(s.ship, round)
	}
}

// countKeys is how many keys there are.
func (s *Session) countKeys() int {
	if s.tx != nil {
		return s.tx.Len()
	}
	return s.srv.store.Len()
}

// scan is Store.Scan.
func (s *Session) scan(place uint64, to *shard.Page) (next uint64) {
	if s.tx != nil {
		return s.tx.Scan(place, to)
	}
	return s.srv.store.Scan(s.now, place, to)
}

// randomPlace is Store.RandomPlace.
func (s *Session) randomPlace(r uint64) (place uint64) {
	if s.tx != nil {
		return s.tx.RandomPlace(r)
	}
	return s.srv.store.RandomPlace(r)
}

// locks says whether a command works on what lock and lockAll give. The others
// are about the connection or the server.
func (c *command) locks() bool {
	return c.first != 0 || c.keysOf != nil || c.flags&(flagWhole|flagLimiter) != 0
}

// setLimit makes or changes a named limit, inside EXEC in the round of all the
// rest.
func (s *Session) setLimit(n shard.NamedLimit) error {
	if s.tx != nil {
		return s.tx.SetLimit(n)
	}
	_, err := s.srv.store.Limits().SetNamed(n)
	s.shipped(s.srv.store.Shipping())
	return err
}

// deleteLimit forgets a named limit, as setLimit makes it.
func (s *Session) deleteLimit(name []byte) (found bool, err error) {
	if s.tx != nil {
		return s.tx.DeleteLimit(name)
	}
	_, found, err = s.srv.store.Limits().Delete(name)
	s.shipped(s.srv.store.Shipping())
	return found, err
}
