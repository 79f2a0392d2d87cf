package resp

import (
	"errors"

	"github.com/rlserver/rlserver/shard"
)

// The gate: a reply that promises what the disk must hold leaves when the disk
// does. Which round that is, a session notes while it has the keys (unlock); the
// carrier waits for it. If the round fails the connection ends unanswered: a
// reply that promised more than the disk holds is never sent.

// gateWarnEvery is the least time between two lines in the log about clients
// that were closed at the gate, ns.
const gateWarnEvery = 60e9

// passGate waits until a round is durable.
func (srv *Server) passGate(round uint64, client string) bool {
	err := srv.durability.Wait(round)
	if err != nil {
		srv.closedAtGate(client, err)
	}
	return err == nil
}

// closedAtGate counts a client that ends unanswered, and from time to time logs it.
func (srv *Server) closedAtGate(client string, err error) {
	closed := srv.counters.closedAtGate.Add(1)
	at, last := srv.clock.NowNs(), srv.gateWarn.Load()
	if (last == 0 || at-last >= gateWarnEvery) && srv.gateWarn.CompareAndSwap(last, at) {
		srv.log.Error("closing a client unanswered: its change could not be made durable", "client", client, "err", err, "closed_so_far", closed)
	}
}

// barred answers a command that changes state while the disk cannot keep what its
// reply would promise. A decision may be one that the disk needs not hear of: by
// itself it is made, and what it would change asks wantsDisk.
func (s *Session) barred(c *command) bool {
	if c.flags&flagWrite == 0 && (s.multi == nil || !s.multi.writes || c.name != "exec") {
		return false
	}
	if s.srv.ahead && s.multi == nil && c.flags&flagDecides != 0 {
		return false
	}
	err := s.srv.durability.Trouble()
	if err != nil {
		s.misconf(err)
	}
	return err != nil
}

// wantsDisk says why a state cannot be put while the disk is in trouble: unless
// it is covered by what the disk holds already.
func (s *Session) wantsDisk(tx *shard.Tx, key []byte, kind byte, state []byte) error {
	if !s.srv.ahead || s.tx != nil { // EXEC has asked for all that is in it
		return nil
	}
	err := s.srv.durability.Trouble()
	if err == nil {
		return nil
	}
	if round, covered := tx.Covered(key, kind, state); covered && round <= s.srv.durability.Durable() {
		return nil
	}
	return err
}

// wantDisk is wantsDisk for all legs.
func (c *legs) wantDisk(s *Session, tx *shard.Tx) error {
	for i := range c.list {
		l := &c.list[i]
		if l.to == l.from {
			continue
		}
		if err := s.wantsDisk(tx, l.key, byte(l.lim.Algorithm), c.states[l.from:l.to]); err != nil {
			return err
		}
	}
	return nil
}

// misconf answers that the disk cannot be written.
func (s *Session) misconf(err error) {
	// What the system said; where in the file system is nobody's business.
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	s.fail(errMisconf + err.Error())
}
