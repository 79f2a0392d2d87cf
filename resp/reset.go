package resp

import "github.com/rlserver/rlserver/shard"

// RL.RESET of named keys, and of all keys that match a pattern, which works in
// turns so that others are served between them.

func resetRows() []*command {
	return []*command{
		{name: "rl.reset", arity: -2, flags: flagWrite | flagLimiter | flagMovable | flagAllKeys, first: 1, last: -1, step: 1, keysOf: resetKeys, notInMulti: isResetMatch, touch: touchDelete, group: "limiter",
			summary: "Forgets keys, or with MATCH all keys that fit a pattern: their next call finds them as new. Replies how many there were. " +
				"Without MATCH user:* is the one key of that name.",
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
		s.fail(patternTooLong(args[2], maxPattern))
	default:
		r := &resetMatch{tour: s.newTour(args[2], args)}
		s.inTurns(r.step)
	}
}

// resetMatch is an RL.RESET MATCH under way.
type resetMatch struct {
	tour
	n int64 // keys forgotten
}

func (r *resetMatch) step(s *Session) (done bool) {
	done = r.turn(s, func(key shard.Key) {
		tx := s.lock(key.Name)
		defer s.unlock(&tx)
		if tx.Delete(key.Name) {
			r.n++
		}
	}, func() bool { return false })
	if done {
		s.int(r.n)
	}
	return done
}
