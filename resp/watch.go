package resp

import (
	"fmt"

	"github.com/rlserver/rlserver/shard"
)

// WATCH and UNWATCH. The shard of a watched key counts its changes, so EXEC
// knows exactly whether there was one, and keys that nobody watches pay nothing.

// Bounds of one client's watches.
const (
	maxWatched      = 1024     // keys
	maxWatchedBytes = 64 << 10 // of keys
	keptPerWatch    = 128      // bytes that a watch takes beside its key
)

// watch is WATCH key [key ...].
func watch(s *Session, args [][]byte) {
	if s.multi != nil {
		s.fail(errWatchInMulti)
		return
	}
	fresh, bytes := s.notWatched(args[1:])
	switch n := len(s.watches) + len(fresh); {
	case n > maxWatched:
		s.fail(fmt.Sprintf("ERR %d keys to watch: expected at most %d", n, maxWatched))
		return
	case s.watched+bytes > maxWatchedBytes:
		s.fail(fmt.Sprintf("ERR the keys to watch have %d bytes: expected at most %d", s.watched+bytes, maxWatchedBytes))
		return
	}
	if len(fresh) > 0 {
		tx := s.lock(fresh...)
		defer s.unlock(&tx)
		for _, key := range fresh {
			s.watches = append(s.watches, tx.Watch(key))
			s.watched += len(key)
		}
	}
	s.ok()
}

// notWatched are those keys that the client does not watch yet, each once, and
// their bytes.
func (s *Session) notWatched(keys [][]byte) (fresh [][]byte, bytes int) {
	known := make(map[string]bool, len(s.watches)+len(keys))
	for i := range s.watches {
		known[s.watches[i].Key()] = true
	}
	for _, key := range keys {
		if !known[string(key)] {
			known[string(key)] = true
			bytes += len(key)
			fresh = append(fresh, key)
		}
	}
	return fresh, bytes
}

// unwatch is UNWATCH. In EXEC nothing is watched any more.
func unwatch(s *Session, args [][]byte) {
	s.endWatches()
	s.ok()
}

// appendWatched adds the keys that the client watches to a list.
func (s *Session) appendWatched(keys [][]byte) [][]byte {
	for i := range s.watches {
		keys = append(keys, []byte(s.watches[i].Key()))
	}
	return keys
}

// stillWatched ends all watches and says whether all of the keys, which tx
// locks, are as they were.
func (s *Session) stillWatched(tx *shard.Tx) (intact bool) {
	intact = true
	for i := range s.watches {
		w := &s.watches[i]
		intact = intact && tx.Intact(w)
		tx.Unwatch(w)
	}
	s.watches, s.watched = nil, 0
	return intact
}

// endWatches ends all watches.
func (s *Session) endWatches() {
	if len(s.watches) == 0 {
		return
	}
	tx := s.lock(s.appendWatched(nil)...)
	defer s.unlock(&tx)
	s.stillWatched(&tx)
}
