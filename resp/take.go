package resp

import "github.com/rlserver/rlserver/engine"

// take decides op on one key under lim at now and writes what was debited. It
// answers an error itself and is then not ok. The decision is not answered yet.
func (s *Session) take(key []byte, lim *engine.Limit, now int64, op engine.Op) (d engine.Decision, ok bool) {
	tx := s.lock(key)
	defer s.unlock(&tx)
	old, fault := s.entryFor(&tx, key, lim)
	if fault != "" {
		s.fail(fault)
		return d, false
	}
	state, d, err := s.acquire(s.buf[:0], lim, old, now, op)
	if err != nil {
		s.failWith(err)
		return d, false
	}
	if state != nil && !s.put(&tx, key, lim.Algorithm, state, d.ResetAfter) {
		return d, false
	}
	return d, true
}
