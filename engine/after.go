package engine

// AcquireAfter is Acquire under a bucket while callers are kept away: before until (Unix ms, 0 = they are not) a call is answered as under
// a penalty that lasts as long, whatever the entry says. What is debited meanwhile, by MaxWait or Force, takes that penalty into the entry.
func AcquireAfter(dst []byte, lim Limit, old []byte, now int64, op Op, until int64) (out []byte, d Decision, err error) {
	var c call
	if err = c.openAfter(&lim, old, now, &op, until); err != nil {
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

// PeekAfter is Peek while callers are kept away before until, as AcquireAfter has it.
func PeekAfter(lim Limit, old []byte, now, cost, until int64) (d Decision, err error) {
	var c call
	op := Op{Cost: cost}
	if err = c.openAfter(&lim, old, now, &op, until); err != nil {
		return d, err
	}
	c.outlook(&d) // before anything is taken
	_, err = c.take(&op, &d)
	return d, err
}

// openAfter is open under a bucket, with a penalty that lasts until then at least.
func (c *call) openAfter(lim *Limit, old []byte, now int64, op *Op, until int64) error {
	if lim.Algorithm != Bucket {
		return errLimit
	}
	if err := c.open(lim, old, now, op); err != nil {
		return err
	}
	if until = min(until, maxBlocked); until > c.ts {
		c.blocked = max(c.blocked, until)
	}
	return nil
}
