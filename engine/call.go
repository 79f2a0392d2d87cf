package engine

import (
	"errors"
	"math"
)

var errLimit = errors.New("the limit is not one that this package parses")

// call is one call on one entry, brought to the call's time and limit.
type call struct {
	entry       // ts is max(now, ts), limit the call's, state carried over to both; a penalty that is over at ts is 0
	late  int64 // ms by which the caller is behind the entry, >= 0
}

// open checks the arguments and brings old, or a fresh entry, to lim and now.
func (c *call) open(lim *Limit, old []byte, now int64, op *Op) error {
	if !lim.ok() {
		return errLimit
	}
	if err := op.check(lim.Algorithm); err != nil {
		return err
	}
	if now < 0 || now > MaxNow {
		return outOfRange("now", now, MaxNow)
	}
	if len(old) == 0 {
		c.limit, c.ts = *lim, now
		c.fresh()
		return nil
	}
	if err := c.read(old); err != nil {
		return err
	}
	if c.limit.Algorithm != lim.Algorithm {
		return ErrAlgorithm
	}
	if err := c.carry(lim, now); err != nil {
		return err
	}
	c.limit, c.name = *lim, nil
	return nil
}

// Options that a window does not have. No call can be in debt to one.
var (
	errWindowMaxWait = errors.New("MAXWAIT is for buckets only")
	errWindowPartial = errors.New("PARTIAL is for buckets only")
	errWindowForce   = errors.New("FORCE is for buckets only")
)

// check refuses a cost that is none, and options that the algorithm does not have or that contradict each other.
func (op *Op) check(a Algorithm) error {
	if op.Cost < 0 {
		return outOfRange("COST", op.Cost, math.MaxInt64)
	}
	if op.MaxWait == 0 && !op.Partial && !op.Force {
		return nil
	}
	if op.MaxWait < 0 || op.MaxWait > MaxMaxWait {
		return outOfRange("MAXWAIT", op.MaxWait, MaxMaxWait)
	}
	if a == Bucket {
		return bucketCheckOp(op)
	}
	switch {
	case op.MaxWait != 0:
		return errWindowMaxWait
	case op.Partial:
		return errWindowPartial
	}
	return errWindowForce
}

// carry brings what was read to t = max(now, ts) under lim, of the same algorithm; now is in range. It leaves it to the caller to make
// lim the entry's limit.
func (c *call) carry(lim *Limit, now int64) error {
	t := max(now, c.ts)
	if c.certain != 0 && !c.sameTerms(lim) {
		later, err := c.carryAhead(lim, t)
		if err != nil {
			return err
		}
		t = later
	} else if err := c.carryState(lim, t); err != nil {
		return err
	}
	if c.blocked <= t {
		c.blocked = 0
	}
	c.ts, c.late = t, t-now
	return nil
}

// hold returns the ms from ts for which the penalty lasts.
func (c *call) hold() int64 {
	if c.blocked == 0 {
		return 0
	}
	return c.blocked - c.ts
}

// outlook completes an answer with what is left.
func (c *call) outlook(d *Decision) {
	remaining, reset := c.outlookState()
	if hold := c.hold(); hold > 0 {
		remaining, reset = 0, max(reset, hold)
	}
	if reset > 0 {
		reset += c.late
	}
	d.Remaining, d.ResetAfter, d.Limit = remaining, reset, c.limit.Capacity
}
