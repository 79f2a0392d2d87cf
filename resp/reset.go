package resp

import (
	"fmt"

	"github.com/rlserver/rlserver/shard"
)

// RL.RESET of named keys, and of all keys that match a pattern, which works in
// turns so that others are served between them.

// Bounds of a turn of RL.RESET MATCH, and of what one key can cost in it.
const (
	resetTurnKeys = 1024    // keys looked at in one turn
	resetTurnNs   = 500_000 // a turn ends after this, ns
	resetStepKeys = 16      // keys looked at between two looks at the clock, with a short pattern
	shortPattern  = 64      // bytes; matching takes a time that grows with pattern times key
	maxPattern    = 1 << 10 // bytes of a pattern, as long as the longest key
)

func resetRows() []*command {
	return []*command{
		{name: "rl.reset", arity: -2, flags: flagWrite | flagLimiter | flagMovable | flagAllKeys, first: 1, last: -1, step: 1, keysOf: resetKeys, touch: touchDelete, group: "limiter",
			summary:    "Forgets keys, or all keys that match a pattern: their next call finds them as new. Replies how many there were.",
			complexity: "O(N) with N keys; with MATCH all keys there are, while others are served", reply: "integer", run: rlReset,
			args: []arg{{name: "which", kind: "oneof", sub: []arg{argKeys, {name: "pattern", kind: "pattern", token: "MATCH"}}}}},
	}
}

// isResetMatch tells the pattern's form from keys of which one is called MATCH.
func isResetMatch(args [][]byte) bool { return len(args) == 3 && equalFold(args[1], "match") }

// resetKeys are the positions of the keys: a pattern is none.
func resetKeys(args [][]byte) (at []int) {
	if isResetMatch(args) {
		return nil
	}
	for i := 1; i < len(args); i++ {
		at = append(at, i)
	}
	return at
}

// rlReset is RL.RESET key [key ...] and RL.RESET MATCH pattern.
func rlReset(s *Session, args [][]byte) {
	switch {
	case !isResetMatch(args):
		del(s, args)
	case len(args[2]) > maxPattern:
		s.fail(fmt.Sprintf("ERR the pattern is %d bytes long: expected at most %d", len(args[2]), maxPattern))
	default:
		r := &resetMatch{pattern: string(args[2]), walk: s.srv.store.Walk(), more: true}
		s.inTurns(r.turn)
	}
}

// resetMatch is an RL.RESET MATCH under way.
type resetMatch struct {
	pattern string
	walk    *shard.Walk
	batch   []shard.Change // told and not yet looked at
	more    bool           // there may be more to be told
	n       int64          // keys forgotten
	keys    [][]byte       // room for those to be forgotten next
}

// turn looks at some keys and answers when it has seen the last one.
func (r *resetMatch) turn(s *Session) (done bool) {
	began, most := s.srv.clock.NowNs(), resetStepKeys
	if len(r.pattern) > shortPattern {
		most = 1
	}
	for looked := 0; looked < resetTurnKeys && s.srv.clock.NowNs()-began < resetTurnNs; {
		if len(r.batch) == 0 {
			if !r.more {
				s.int(r.n)
				return true
			}
			r.batch, r.more = r.walk.Next()
			looked++ // a batch may be empty
		}
		step := r.batch[:min(len(r.batch), most)]
		r.batch = r.batch[len(step):]
		looked += len(step)
		r.forget(s, step)
	}
	return false
}

// forget deletes those of a few keys that match. They are of one shard: the
// walk goes from one to the next.
func (r *resetMatch) forget(s *Session, step []shard.Change) {
	r.keys = r.keys[:0]
	for _, c := range step {
		if match(r.pattern, c.Key) {
			r.keys = append(r.keys, c.Key)
		}
	}
	if len(r.keys) == 0 {
		return
	}
	tx := s.srv.store.Lock(s.now, r.keys...)
	defer tx.Unlock()
	r.n += deleteKeys(&tx, r.keys)
}
