package resp

import "errors"

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
// reply would promise.
func (s *Session) barred(c *command) bool {
	if c.flags&flagWrite == 0 && (s.multi == nil || !s.multi.writes || c.name != "exec") {
		return false
	}
	err := s.srv.durability.Trouble()
	if err == nil {
		return false
	}
	// What the system said; where in the file system is nobody's business.
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	s.fail(errMisconf + err.Error())
	return true
}
