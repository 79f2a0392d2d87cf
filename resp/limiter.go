package resp

import (
	"bytes"
	"fmt"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

// The limiter commands. Each first reads its arguments into fields and then
// runs on a Tx, so a syntax error cannot have an effect.

// limitArgs reads the LIMIT at the front of args, in one argument ("10:20",
// "@name") or two ("10 20"), and returns what follows it.
func (s *Session) limitArgs(args [][]byte) (lim engine.Limit, rest [][]byte, err error) {
	if oneArgument(args[0]) {
		lim, err = s.oneLimit(args[0])
		return lim, args[1:], err
	}
	if len(args) < 2 {
		return lim, nil, fmt.Errorf("a burst is missing after the rate %.64q: expected two arguments, as in 10 20, or one, as in 10:20 or @name", args[0])
	}
	lim, err = engine.ParseLimit(args[0], args[1])
	return lim, args[2:], err
}

// oneArgument tells the two forms of a limit apart.
func oneArgument(arg []byte) bool {
	for _, ch := range arg {
		if ch == ':' {
			return true
		}
	}
	return len(arg) > 0 && arg[0] == '@'
}

// optionSet is what may stand behind now, or in its place.
type optionSet struct {
	has   func(word []byte) bool
	words string // for people
}

var (
	noOption       = optionSet{has: func([]byte) bool { return false }}
	costOption     = optionSet{isCost, "COST n"}
	acquireOptions = optionSet{isAcquireOption, "COST n, MAXWAIT ms, PARTIAL or FORCE"}
)

// nowArg takes an optional now off the front of args. given is false for "*"
// and for none.
func nowArg(args [][]byte, options optionSet) (now int64, given bool, rest [][]byte, err error) {
	if len(args) == 0 || options.has(args[0]) {
		return 0, false, args, nil
	}
	word := args[0]
	if len(word) == 1 && word[0] == '*' {
		return 0, false, args[1:], nil
	}
	now, err = engine.ParseNow(word)
	if err != nil && options.words != "" && len(word) > 0 && (word[0]|0x20 >= 'a' && word[0]|0x20 <= 'z') {
		err = fmt.Errorf("unknown option %.64q: expected %s, or now in Unix milliseconds in front of them", word, options.words)
	}
	return now, true, args[1:], err
}

// clockWarnEvery is how often a caller's wrong clock is logged, in ns.
const clockWarnEvery = 60e9

// callerNow is the time a command acts at, under the caller-clock in force.
func (s *Session) callerNow(caller int64, given bool) int64 {
	now, clamped := s.conf.CallerClock.Now(caller, s.now, s.conf.MaxSkew, given)
	if clamped {
		s.srv.counters.clamped.Add(1)
		at, last := s.now*1e6, s.srv.clockWarn.Load()
		if (last == 0 || at-last >= clockWarnEvery) && s.srv.clockWarn.CompareAndSwap(last, at) {
			s.srv.log.Warn("a caller's clock is off by more than max-clock-skew; its now was clamped",
				"client", s.addr, "off_ms", caller-s.now, "max_ms", s.conf.MaxSkew)
		}
	}
	return now
}

// failWith answers an error of the engine, which says what came and what was
// expected.
func (s *Session) failWith(err error) { s.fail("ERR " + err.Error()) }

// acquireArgs are the fields of RL.ACQUIRE after the key.
type acquireArgs struct {
	lim   engine.Limit
	now   int64
	given bool
	op    engine.Op
}

func isAcquireOption(a []byte) bool {
	return equalFold(a, "cost") || equalFold(a, "maxwait") || equalFold(a, "partial") || equalFold(a, "force")
}

// parseAcquire reads LIMIT [now] [COST n] [MAXWAIT ms] [PARTIAL] [FORCE].
func (s *Session) parseAcquire(args [][]byte) (a acquireArgs, err error) {
	if a.lim, args, err = s.limitArgs(args); err != nil {
		return a, err
	}
	if a.now, a.given, args, err = nowArg(args, acquireOptions); err != nil {
		return a, err
	}
	a.op.Cost = 1
	var cost, wait bool
	for len(args) > 0 {
		switch word := args[0]; {
		case equalFold(word, "cost") && !cost:
			if len(args) < 2 {
				return a, fmt.Errorf("COST needs a value: expected tokens, as in COST 5")
			}
			a.op.Cost, err = engine.ParseCost(args[1])
			cost, args = true, args[2:]
		case equalFold(word, "maxwait") && !wait:
			if len(args) < 2 {
				return a, fmt.Errorf("MAXWAIT needs a value: expected ms or a time with a unit, as in MAXWAIT 250 or MAXWAIT 2s")
			}
			a.op.MaxWait, err = engine.ParseWait("MAXWAIT", args[1], engine.MaxMaxWait)
			wait, args = true, args[2:]
		case equalFold(word, "partial") && !a.op.Partial:
			a.op.Partial, args = true, args[1:]
		case equalFold(word, "force") && !a.op.Force:
			a.op.Force, args = true, args[1:]
		case isAcquireOption(word):
			err = fmt.Errorf("%s is given twice", bytes.ToUpper(word))
		default:
			err = fmt.Errorf("unknown option %.64q: expected %s", word, acquireOptions.words)
		}
		if err != nil {
			return a, err
		}
	}
	return a, a.check(wait)
}

// check refuses options that contradict each other.
func (a *acquireArgs) check(wait bool) error {
	switch {
	case a.op.Partial && a.op.Cost == 0:
		return fmt.Errorf("PARTIAL excludes COST 0: there is nothing to grant a part of")
	case a.op.Partial && (wait || a.op.Force):
		return fmt.Errorf("PARTIAL excludes MAXWAIT and FORCE")
	case wait && a.op.Force:
		return fmt.Errorf("MAXWAIT excludes FORCE")
	}
	return nil
}

// rlAcquire is RL.ACQUIRE key LIMIT [now] [COST n] [MAXWAIT ms] [PARTIAL] [FORCE].
func rlAcquire(s *Session, args [][]byte) {
	key := args[1]
	if !s.keyFits(key) {
		return
	}
	a, err := s.parseAcquire(args[2:])
	if err != nil {
		s.failWith(err)
		return
	}
	if d, ok := s.take(key, &a.lim, s.callerNow(a.now, a.given), a.op); ok {
		s.decide(d)
	}
}

// peekArgs are the fields of RL.PEEK after the key.
type peekArgs struct {
	lim    engine.Limit
	stored bool // no limit was given: the one that the entry is under
	now    int64
	given  bool
	cost   int64
}

func isCost(a []byte) bool { return equalFold(a, "cost") }

// parsePeek reads [LIMIT] [now] [COST n]. One bare argument is now, two are
// rate and burst.
func (s *Session) parsePeek(args [][]byte) (p peekArgs, err error) {
	p.cost = 1
	bare := 0
	for bare < len(args) && !isCost(args[bare]) {
		bare++
	}
	if rest := args[bare:]; len(rest) > 0 {
		if len(rest) != 2 {
			return p, fmt.Errorf("COST is the last option and takes one value, as in COST 5")
		}
		if p.cost, err = engine.ParseCost(rest[1]); err != nil {
			return p, err
		}
	}
	args = args[:bare]
	if p.stored = len(args) == 0 || len(args) == 1 && !oneArgument(args[0]); !p.stored {
		if p.lim, args, err = s.limitArgs(args); err != nil {
			return p, err
		}
	}
	if p.now, p.given, args, err = nowArg(args, costOption); err != nil {
		return p, err
	}
	if len(args) > 0 {
		return p, fmt.Errorf("unexpected argument %.64q: expected key [rate burst] [now] [COST n]", args[0])
	}
	return p, nil
}

// rlPeek is RL.PEEK key [LIMIT] [now] [COST n].
func rlPeek(s *Session, args [][]byte) {
	key := args[1]
	if !s.keyFits(key) {
		return
	}
	p, err := s.parsePeek(args[2:])
	if err != nil {
		s.failWith(err)
		return
	}
	now := s.callerNow(p.now, p.given)
	tx := s.lock(key)
	defer s.unlock(&tx)
	if p.stored {
		e, found := tx.Get(key)
		if !found {
			s.nullArray()
			return
		}
		if p.lim, err = s.inForce(e.Value); err != nil {
			s.failWith(s.noneInForce(key, e.Value, err))
			return
		}
	}
	old, fault := s.entryFor(&tx, key, &p.lim)
	if fault != "" {
		s.fail(fault)
		return
	}
	d, err := s.peek(&p.lim, old, now, p.cost)
	if err != nil {
		s.failWith(err)
		return
	}
	s.decision(d)
}

// rlRefund is RL.REFUND key tokens [now].
func rlRefund(s *Session, args [][]byte) {
	key := args[1]
	if !s.keyFits(key) {
		return
	}
	tokens, err := engine.ParseTokens("tokens", args[2])
	if err != nil {
		s.failWith(err)
		return
	}
	caller, given, rest, err := nowArg(args[3:], noOption)
	if err != nil {
		s.failWith(err)
		return
	}
	if len(rest) > 0 {
		s.failWith(fmt.Errorf("unexpected argument %.64q: expected key tokens [now]", rest[0]))
		return
	}
	now := s.callerNow(caller, given)
	tx := s.lock(key)
	defer s.unlock(&tx)
	e, found := tx.Get(key)
	if !found {
		s.nullArray()
		return
	}
	state, d, err := s.refund(&tx, key, e, tokens, now)
	if err != nil {
		s.failWith(err)
		return
	}
	if state != nil {
		tx.Put(key, e.Kind, state, d.ResetAfter)
	}
	s.decision(d)
}

// refund goes by the limit in force. One whose algorithm was changed has
// nothing to take back from the entry: it finds the key as if it were new.
func (s *Session) refund(tx *shard.Tx, key []byte, e shard.Entry, tokens, now int64) (state []byte, d engine.Decision, err error) {
	lim, err := s.inForce(e.Value)
	if err != nil {
		return nil, d, err
	}
	old := e.Value
	afresh := e.Kind != byte(lim.Algorithm)
	if afresh {
		old = nil
	}
	if old, err = tx.Drained(key, &lim, old); err != nil {
		return nil, d, err
	}
	if afresh {
		d, err = engine.Peek(lim, old, now, 0)
		return nil, d, err
	}
	return engine.RefundUnder(s.buf[:0], lim, old, tokens, now)
}

// rlPenalize is RL.PENALIZE key LIMIT wait [now].
func rlPenalize(s *Session, args [][]byte) {
	key := args[1]
	if !s.keyFits(key) {
		return
	}
	lim, rest, err := s.limitArgs(args[2:])
	if err == nil && len(rest) == 0 {
		err = fmt.Errorf("the wait is missing: expected key rate burst wait [now], as in 10 20 30s")
	}
	if err != nil {
		s.failWith(err)
		return
	}
	wait, err := engine.ParseWait("wait", rest[0], engine.MaxPenalty)
	if err != nil {
		s.failWith(err)
		return
	}
	caller, given, rest, err := nowArg(rest[1:], noOption)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unexpected argument %.64q: expected key rate burst wait [now]", rest[0])
	}
	if err != nil {
		s.failWith(err)
		return
	}
	now := s.callerNow(caller, given)
	tx := s.lock(key)
	defer s.unlock(&tx)
	old, fault := s.entryFor(&tx, key, &lim)
	if fault != "" {
		s.fail(fault)
		return
	}
	state, d, err := engine.Penalize(s.buf[:0], lim, old, wait, now)
	if err != nil {
		s.failWith(err)
		return
	}
	if state != nil {
		if !s.put(&tx, key, lim.Algorithm, state, d.ResetAfter) {
			return
		}
		s.srv.durability.Urgent() // an upstream's refusal is not forgotten with the interval
		old = state
	}
	if until := s.pausedUntil(&lim); until > now {
		if d, err = engine.PeekAfter(lim, old, now, 1, until); err != nil {
			s.failWith(err)
			return
		}
	}
	s.decision(d)
}

// rlGet is RL.GET key: what is stored, as a map. Of a key under a named limit it
// is what that limit, as it is now, finds there.
func rlGet(s *Session, args [][]byte) {
	tx := s.lock(args[1])
	defer s.unlock(&tx)
	e, found := tx.Get(args[1])
	if !found {
		s.null()
		return
	}
	info, err := s.inspect(&tx, args[1], e.Value)
	if err != nil {
		s.failWith(err)
		return
	}
	type pair struct {
		name  string
		value any // string or int64
	}
	pairs := []pair{{"algorithm", info.Limit.Algorithm.String()}, {"limit", info.Limit.String()}}
	if info.Limit.Name != "" {
		pairs = append(pairs, pair{"name", info.Limit.Name})
	}
	if info.Limit.Algorithm == engine.Bucket {
		pairs = append(pairs, pair{"burst", info.Limit.Capacity}, pair{"tokens", info.Tokens})
	} else {
		pairs = append(pairs, pair{"capacity", info.Limit.Capacity}, pair{"window", info.Limit.Window}, pair{"used", info.Used})
	}
	pairs = append(pairs, pair{"ts", info.TS}, pair{"blocked_until", info.BlockedUntil}, pair{"deadline", e.Deadline})
	s.dict(len(pairs))
	for _, p := range pairs {
		s.text(p.name)
		if n, ok := p.value.(int64); ok {
			s.int(n)
		} else {
			s.text(p.value.(string))
		}
	}
}
