package resp

import (
	"fmt"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

// RL.FEEDBACK: what the upstream said to a caller of an adaptive limit.

func feedbackRows() []*command {
	return []*command{
		{name: "rl.feedback", arity: -3, flags: flagWrite | flagFast | flagLimiter, group: "limiter",
			summary: "Reports to an adaptive limit that the upstream took a call, or throttled one and wants none for so long. " +
				"The reply: the rate now in force, as text, and for how many ms callers are still kept away. " +
				"Every user with @limiter may report, and so slow all callers of a limit down to its lowest rate: ACL SETUSER name -rl.feedback takes that from one.",
			complexity: "O(1)", reply: "array", run: rlFeedback,
			args: []arg{{name: "name", kind: "string"},
				{name: "answer", kind: "oneof", sub: []arg{{name: "ok", kind: "pure-token", token: "OK"}, {name: "throttled", kind: "pure-token", token: "THROTTLED"}}},
				{name: "wait", kind: "string", optional: true}, argNow}},
	}
}

// feedbackArgs are the fields of RL.FEEDBACK after the name.
type feedbackArgs struct {
	ok    bool
	wait  int64
	now   int64
	given bool
}

// parseFeedback reads OK|THROTTLED [wait] [now].
func parseFeedback(args [][]byte) (f feedbackArgs, err error) {
	f.ok = equalFold(args[0], "ok")
	if !f.ok && !equalFold(args[0], "throttled") {
		return f, fmt.Errorf("answer %.64q: expected OK or THROTTLED", args[0])
	}
	if args = args[1:]; len(args) > 0 {
		if f.wait, err = engine.ParseWait("wait", args[0], engine.MaxPenalty); err != nil {
			return f, err
		}
		if f.ok && f.wait != 0 {
			return f, fmt.Errorf("wait %.64q: expected 0 with OK, since a wait belongs to THROTTLED", args[0])
		}
		args = args[1:]
	}
	if f.now, f.given, args, err = nowArg(args, noOption); err == nil && len(args) > 0 {
		err = fmt.Errorf("unexpected argument %.64q: expected name OK|THROTTLED [wait] [now]", args[0])
	}
	return f, err
}

// rlFeedback is RL.FEEDBACK name OK|THROTTLED [wait] [now].
func rlFeedback(s *Session, args [][]byte) {
	name := args[1]
	f, err := parseFeedback(args[2:])
	if err != nil {
		s.failWith(err)
		return
	}
	now := s.callerNow(f.now, f.given)
	rate, due, err := s.srv.store.Limits().Feedback(name, f.ok, f.wait, now)
	switch err {
	case nil:
	case shard.ErrNoLimit:
		s.failWith(noLimit(name, "adaptive:5..200:20"))
		return
	case shard.ErrNotAdaptive:
		s.failWith(fmt.Errorf("limit %.64s has a fixed rate: RL.LIMIT SET %.64s adaptive:5..200:20 makes it one that follows reports", name, name))
		return
	default:
		s.failWith(err)
		return
	}
	s.round = max(s.round, due)
	s.shipped(s.srv.store.Shipping())
	if f.ok {
		s.run.allowed++
	} else {
		s.run.denied++
	}
	s.array(2)
	s.text(engine.RateText(rate.Limit))
	s.int(max(rate.PausedUntil-now, 0))
}

// acquire decides op on a state under lim, in a pause of an adaptive limit as
// under a penalty.
func (s *Session) acquire(dst []byte, lim *engine.Limit, old []byte, now int64, op engine.Op) ([]byte, engine.Decision, error) {
	if until := s.pausedUntil(lim); until > now {
		return engine.AcquireAfter(dst, *lim, old, now, op, until)
	}
	return engine.Acquire(dst, *lim, old, now, op)
}

// peek is acquire that takes nothing.
func (s *Session) peek(lim *engine.Limit, old []byte, now, cost int64) (engine.Decision, error) {
	if until := s.pausedUntil(lim); until > now {
		return engine.PeekAfter(*lim, old, now, cost, until)
	}
	return engine.Peek(*lim, old, now, cost)
}

// pausedUntil is the Unix ms before which no call under lim may pass.
func (s *Session) pausedUntil(lim *engine.Limit) int64 {
	if lim.Name == "" || lim.Algorithm != engine.Bucket {
		return 0
	}
	return s.srv.store.Limits().PausedUntil(lim.Name)
}
