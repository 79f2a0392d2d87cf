package resp

import "slices"

// Bounds of a turn.
const (
	turnNs   = 500_000 // it ends after this, ns
	lookCost = 64      // cost of what is done between two looks at the clock
)

// longCall is a call of a command that works in turns, so that others are served
// between them.
type longCall struct {
	cmd  *command // for the slow log: what is done, for whom it takes how long
	args [][]byte
	ns   int64
}

// newLongCall begins one for the command at hand. The slow log is left to it,
// that knows how long all turns took, and the arguments in it stay as they are.
func (s *Session) newLongCall(args [][]byte) longCall {
	s.run.args = nil
	return longCall{cmd: s.cmd, args: cloneArgs(args)}
}

// timed does a turn and counts its time.
func (c *longCall) timed(s *Session, turn func(*stint) (done bool)) (done bool) {
	t := stint{clock: s.srv.clock, began: s.srv.clock.NowNs()}
	defer func() {
		c.ns += s.srv.clock.NowNs() - t.began
		if done {
			s.srv.slow.add(s, c.cmd, c.args, c.ns)
		}
	}()
	return turn(&t)
}

// stint is a turn under way.
type stint struct {
	clock Clock
	began int64 // ns
	cost  int   // since the last look at the clock
}

// over says whether others are to have their turn. cost is what was done since
// the last call; 1 is a key, a name or a short line.
func (t *stint) over(cost int) bool {
	if t.cost += cost; t.cost < lookCost {
		return false
	}
	t.cost = 0
	return t.clock.NowNs()-t.began >= turnNs
}

// each does something n times, in turns that also end when there is much output:
// what was done is answered. It is given the arguments, which may have moved.
func (s *Session) each(n int, args [][]byte, do func(i int, args [][]byte)) {
	if n <= lookCost/eachCost {
		for i := range n {
			do(i, args)
		}
		return
	}
	call := s.newLongCall(args)
	i := 0
	s.inTurns(func(s *Session) bool {
		return call.timed(s, func(t *stint) bool {
			for i < n {
				do(i, call.args)
				i++
				if i < n && (t.over(eachCost) || len(s.out) >= flushAt) {
					return false
				}
			}
			return true
		})
	})
}

// eachCost is what a step of each costs: about a line of COMMAND DOCS.
const eachCost = 16

// inTurns does a turn of a long command. While it is not done, each Feed does
// one more, and the client's next commands wait. On EXEC's keys others wait
// instead; among its other commands it is a turn of EXEC.
func (s *Session) inTurns(turn func(*Session) (done bool)) {
	switch e := s.exec; {
	case e != nil:
		if !turn(s) {
			e.inner = turn
		}
	case s.atOnce:
		for !turn(s) {
		}
	default:
		if s.turn = turn; turn(s) {
			s.turn = nil
		}
	}
}

// cloneArgs copies arguments that alias the input, all into one piece.
func cloneArgs(args [][]byte) [][]byte {
	size := 0
	for _, a := range args {
		size += len(a)
	}
	piece, clone := make([]byte, 0, size), slices.Clone(args)
	for i, a := range args {
		from := len(piece)
		piece = append(piece, a...)
		clone[i] = piece[from:len(piece):len(piece)]
	}
	return clone
}
