package resp

import (
	"fmt"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

// keyFits answers an error for a key that is too long to be kept.
func (s *Session) keyFits(key []byte) bool {
	if len(key) <= shard.MaxKeyBytes {
		return true
	}
	s.fail(fmt.Sprintf("ERR the key is %d bytes long: expected at most %d", len(key), shard.MaxKeyBytes))
	return false
}

// deleteKeys forgets the keys and returns how many were there.
func deleteKeys(tx *shard.Tx, keys [][]byte) (n int64) {
	for _, key := range keys {
		if tx.Delete(key) {
			n++
		}
	}
	return n
}

// del is DEL, UNLINK and RL.RESET of named keys.
func del(s *Session, args [][]byte) {
	tx := s.lock(args[1:]...)
	defer s.unlock(&tx)
	s.int(deleteKeys(&tx, args[1:]))
}

// exists is EXISTS key [key ...]; a key named twice counts twice.
func exists(s *Session, args [][]byte) {
	tx := s.lock(args[1:]...)
	defer s.unlock(&tx)
	var n int64
	for _, key := range args[1:] {
		if _, found := tx.Get(key); found {
			n++
		}
	}
	s.int(n)
}

// keyType is TYPE key.
func keyType(s *Session, args [][]byte) {
	tx := s.lock(args[1])
	defer s.unlock(&tx)
	if e, found := tx.Get(args[1]); found {
		s.status(typeName(e.Kind))
		return
	}
	s.status("none")
}

// typeName is what TYPE says of a kind: a bucket is a hash to those who look at
// Redis types, and answers HGET; a window has its algorithm's name, as a
// module's value has, so that nobody tries to read it as one of Redis's own.
func typeName(kind byte) string {
	if kind == byte(engine.Bucket) {
		return "hash"
	}
	return engine.Algorithm(kind).String()
}

// ttl is TTL key, in seconds rounded as Redis does.
func ttl(s *Session, args [][]byte) {
	if ms, found := s.remaining(args[1]); found {
		s.int((ms + 500) / 1000)
	}
}

// pttl is PTTL key: ms until the server looks whether the entry can be dropped.
func pttl(s *Session, args [][]byte) {
	if ms, found := s.remaining(args[1]); found {
		s.int(ms)
	}
}

// remaining is ms to a key's deadline; it answers -2 itself for an absent key.
func (s *Session) remaining(key []byte) (ms int64, found bool) {
	tx := s.lock(key)
	defer s.unlock(&tx)
	e, found := tx.Get(key)
	if !found {
		s.int(-2)
		return 0, false
	}
	// An entry past its deadline that is not full yet is looked at again soon.
	return max(e.Deadline-s.now, 1), true
}

func dbsize(s *Session, args [][]byte) { s.int(int64(s.countKeys())) }

// flushAll is FLUSHALL and FLUSHDB [ASYNC|SYNC]; both are immediate.
func flushAll(s *Session, args [][]byte) {
	if len(args) > 2 || len(args) == 2 && !equalFold(args[1], "async") && !equalFold(args[1], "sync") {
		s.fail(errSyntax)
		return
	}
	tx := s.lockAll()
	tx.Clear()
	s.unlock(&tx)
	s.ok()
}
