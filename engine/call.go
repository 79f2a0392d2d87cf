package engine

import "errors"

var errLimit = errors.New("the limit is not one that ParseLimit returns")

// call is one call on one entry, brought to the call's time and limit.
type call struct {
	entry // ts is max(now, ts), limit the call's, state carried over to both; a penalty that is over at ts is 0
	row   *algorithm
	late  int64 // ms by which the caller is behind the entry, >= 0
}

// open checks the arguments and brings old, or a fresh entry, to lim and now.
func (c *call) open(lim Limit, old []byte, now int64, op Op) error {
	row := lim.Algorithm.row()
	if row == nil || !row.checkLimit(lim) {
		return errLimit
	}
	if op.Cost < 0 {
		return outOfRange("COST", op.Cost, 1<<63-1)
	}
	if op.MaxWait != 0 || op.Partial || op.Force {
		if op.MaxWait < 0 || op.MaxWait > MaxMaxWait {
			return outOfRange("MAXWAIT", op.MaxWait, MaxMaxWait)
		}
		if err := row.checkOp(op); err != nil {
			return err
		}
	}
	if len(old) == 0 {
		return c.carry(lim, entry{limit: lim, state: row.fresh(lim)}, now)
	}
	stored, err := readEntry(old)
	if err != nil {
		return err
	}
	if stored.limit.Algorithm != lim.Algorithm {
		return ErrAlgorithm
	}
	return c.carry(lim, stored, now)
}

// carry brings what is stored to lim and to t = max(now, ts).
func (c *call) carry(lim Limit, stored entry, now int64) error {
	if now < 0 || now > MaxNow {
		return outOfRange("now", now, MaxNow)
	}
	t := max(now, stored.ts)
	c.row, c.late, c.limit, c.ts = lim.Algorithm.row(), t-now, lim, t
	if stored.blocked > t {
		c.blocked = stored.blocked
	}
	var err error
	c.state, err = c.row.carry(stored.limit, lim, stored.state, t-stored.ts)
	return err
}

// hold returns the ms from ts for which the penalty lasts.
func (c *call) hold() int64 {
	if c.blocked == 0 {
		return 0
	}
	return c.blocked - c.ts
}

// take decides op and, where it is granted, debits the state of c.
func (c *call) take(op Op) (d Decision, changed bool, err error) {
	next, allowed, retry, err := c.row.take(c.limit, c.state, op, c.hold(), c.late)
	if err != nil {
		return Decision{}, false, err
	}
	changed = next != c.state
	c.state = next
	return c.decision(allowed, retry), changed, nil
}

// decision completes an answer with what is left.
func (c *call) decision(allowed, retry int64) Decision {
	remaining, reset := c.row.outlook(c.limit, c.state)
	if hold := c.hold(); hold > 0 {
		remaining, reset = 0, max(reset, hold)
	}
	if reset > 0 {
		reset += c.late
	}
	return Decision{Allowed: allowed, RetryAfter: retry, Remaining: remaining, ResetAfter: reset, Limit: c.row.limit(c.limit)}
}
