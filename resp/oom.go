package resp

import (
	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

// maxmemory: who would store a key that is not there asks here first. A key
// that is there goes on being decided, whatever its state grows to; what would
// store nothing, as a denial or a cost of 0, is answered as ever.

// put stores a new state. If that needs memory that is not to be had, or a disk
// that cannot be written, it answers so, has changed nothing, and is not ok.
func (s *Session) put(tx *shard.Tx, key []byte, algorithm engine.Algorithm, state []byte, resetAfter int64) (ok bool) {
	if !tx.Room(key, len(state)) {
		s.outOfMemory()
		return false
	}
	if err := s.wantsDisk(tx, key, byte(algorithm), state); err != nil {
		s.misconf(err)
		return false
	}
	tx.Put(key, byte(algorithm), state, resetAfter)
	return true
}

// outOfMemory answers for a key refused, and counts it.
func (s *Session) outOfMemory() {
	s.srv.counters.keysRefused.Add(1)
	s.fail(errOOM)
}

// haveRoom says whether there is memory for the new states of all legs.
func (c *legs) haveRoom(tx *shard.Tx) bool {
	for i := range c.list {
		if l := &c.list[i]; l.to > l.from && !tx.Room(l.key, l.to-l.from) {
			return false
		}
	}
	return true
}

// ClientMemory returns the bytes that the buffers of all clients take.
func (srv *Server) ClientMemory() int64 { return srv.budget.used.Load() }
