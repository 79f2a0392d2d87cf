package engine

import "math"

// An Op is what a call asks for.
type Op struct {
	Cost    int64 // tokens, >= 0
	MaxWait int64 // bucket: ms the caller is willing to wait, 0 = none; at most MaxMaxWait
	Partial bool  // bucket: grant min(Cost, whole tokens there)
	Force   bool  // bucket: debit in any case
}

// A Decision is the answer to a call: five integers.
type Decision struct {
	Allowed    int64 // 1 or 0; with Partial how many were granted
	RetryAfter int64 // ms. Denied: until the same call would pass, -1 if it never can. Allowed: 0, or with MaxWait the ms to sleep first
	Remaining  int64 // whole tokens left after the call, never below 0
	ResetAfter int64 // ms until full again, or until nothing counts; debt and penalty included
	Limit      int64 // burst in tokens, or the window's limit
}

// Acquire decides a call at now (Unix ms in [0, MaxNow]) under lim and debits if it is allowed. old is the entry's bytes as the last call
// returned them, empty for an absent key; it may have been made under another limit of the same algorithm.
//
// The new bytes are appended to dst and returned; nil means that nothing changed and nothing need be written: a refusal, or an allowed
// cost of 0. With room in dst nothing is allocated. dst must not overlap old. Errors: *RangeError, ErrMalformed, ErrAlgorithm, and an
// error in words for options that contradict each other or that windows do not have; with any of them nothing changed.
func Acquire(dst []byte, lim Limit, old []byte, now int64, op Op) (out []byte, d Decision, err error) {
	var c call
	c.state.log = logRoom(lim.Algorithm, old)
	if err = c.open(&lim, old, now, &op); err != nil {
		return nil, d, err
	}
	changed, err := c.take(&op, &d)
	if err != nil {
		return nil, d, err
	}
	c.outlook(&d)
	if changed {
		out = appendEntry(dst, &c.entry)
	}
	return out, d, nil
}

// Peek asks and takes nothing: allowed and retry_after are what Acquire with that cost would answer, remaining and reset_after what is
// there. So it differs from Acquire's answer only where that debits.
func Peek(lim Limit, old []byte, now int64, cost int64) (d Decision, err error) {
	var c call
	c.state.log = logRoom(lim.Algorithm, old)
	op := Op{Cost: cost}
	if err = c.open(&lim, old, now, &op); err != nil {
		return d, err
	}
	c.outlook(&d) // before anything is taken
	_, err = c.take(&op, &d)
	return d, err
}

// Refund gives tokens (>= 0) back at now, capped at the limit the entry carries; of a window's, the oldest first. old must not be empty. The decision says allowed 1,
// retry_after 0 and the rest as after the refund. Bytes as in Acquire: nil if nothing was missing or tokens is 0.
func Refund(dst []byte, old []byte, tokens, now int64) (out []byte, d Decision, err error) {
	return refund(dst, nil, old, tokens, now)
}

// RefundUnder is Refund under lim, the limit now in force for an entry that carries an earlier one of the same algorithm, else ErrAlgorithm.
func RefundUnder(dst []byte, lim Limit, old []byte, tokens, now int64) (out []byte, d Decision, err error) {
	if !lim.ok() {
		return nil, d, errLimit
	}
	return refund(dst, &lim, old, tokens, now)
}

// refund goes by the limit that the entry carries if lim is nil.
func refund(dst []byte, lim *Limit, old []byte, tokens, now int64) (out []byte, d Decision, err error) {
	if tokens < 0 {
		return nil, d, outOfRange("tokens", tokens, math.MaxInt64)
	}
	if now < 0 || now > MaxNow {
		return nil, d, outOfRange("now", now, MaxNow)
	}
	var c call
	c.state.log = logRoom(0, old)
	if err = c.read(old); err != nil {
		return nil, d, err
	}
	under := lim
	if lim == nil {
		under = &c.limit
	}
	if c.limit.Algorithm != under.Algorithm {
		return nil, d, ErrAlgorithm
	}
	if err = c.carry(under, now); err != nil {
		return nil, d, err
	}
	if lim != nil {
		c.limit, c.name = *lim, nil
	}
	c.settle()
	_, missing := c.outlookState()
	if err = c.refundState(tokens); err != nil {
		return nil, d, err
	}
	d.Allowed = 1
	c.outlook(&d)
	if tokens > 0 && missing > 0 {
		out = appendEntry(dst, &c.entry)
	}
	return out, d, nil
}

// Penalize lets no call pass before now + wait (ms in [0, MaxPenalty]), or before ts + wait where the entry's time is later. It never
// shortens an earlier penalty. The decision is what Peek with cost 1 then says. Bytes as in Acquire: nil if an earlier penalty lasts as
// long, or wait is 0.
func Penalize(dst []byte, lim Limit, old []byte, wait, now int64) (out []byte, d Decision, err error) {
	if wait < 0 || wait > MaxPenalty {
		return nil, d, outOfRange("wait", wait, MaxPenalty)
	}
	var c call
	c.state.log = logRoom(lim.Algorithm, old)
	op := Op{Cost: 1}
	if err = c.open(&lim, old, now, &op); err != nil {
		return nil, d, err
	}
	until := max(c.ts, c.certain) + wait
	changed := wait > 0 && until > max(c.blocked, c.ts)
	if changed {
		c.blocked = until
	}
	c.outlook(&d)
	if changed {
		out = appendEntry(dst, &c.entry)
	}
	if _, err = c.take(&op, &d); err != nil { // takes from c, which is not looked at again
		return nil, d, err
	}
	return out, d, nil
}
