package engine

// Drained appends to dst what is left under lim of a key of which more may have been taken than its entry says, nobody knows how much, up to
// at (Unix ms in [0, MaxNow], no earlier than the entry's time): a bucket that had nothing left at that time, or less if the entry says so,
// a window that was full, as if all of it had been counted then. old is the entry's bytes, empty for an absent key. What lasts longer than
// what a call takes from a bucket that is not in debt cannot be known and is not in it: debt, a penalty, and what a sliding window counted
// under a larger limit. Errors as in Acquire; dst must not overlap old.
func Drained(dst []byte, lim Limit, old []byte, at int64) (out []byte, err error) {
	var c call
	c.state.log = logRoom(lim.Algorithm, old)
	if err := c.open(&lim, old, at, &Op{}); err != nil {
		return nil, err
	}
	l := &c.limit
	switch s := &c.state; l.Algorithm {
	case Bucket:
		s.bucket.credit = min(s.bucket.credit, 0)
	case Fixed:
		s.fixed.count = max(s.fixed.count, l.Capacity)
		if !l.Aligned {
			s.fixed.age = 0
		}
	case Sliding:
		// Of a refund the window before counts first, which nobody knows either.
		s.sliding.cur = max(s.sliding.used(l), l.Capacity)
		s.sliding.prev = min(l.Capacity, maxCount-s.sliding.cur)
	default:
		n := max(s.log.total, l.Capacity)
		*s.log = logState{total: n, last: n}
	}
	return appendEntry(dst, &c.entry), nil
}

// Untouched says whether an entry was last changed before at (Unix ms): every change brings an entry's time up to that of the call.
func Untouched(old []byte, at int64) bool {
	ts, end := uvarint(old, 1)
	return end > 0 && ts < uint64(max(at, 0))
}
