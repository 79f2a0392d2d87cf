package engine

import "encoding/binary"

// The sliding log: a record of each grant, so that never more than Capacity is granted within any Window ms. A record at r counts at all t
// with r <= t < r + Window. Calls granted at the same ms share a record.
//
// The records are kept as bytes, oldest first, and only what has to be looked at is decoded: what leaves the window, and what a denied call
// waits for. So a call does not cost more the longer the log, but for copying it. Damage among the records is noticed by Rebase, or when they
// are reached.

type logState struct {
	total int64  // the sum of all counts
	age   int64  // ms from the newest record to ts, >= 0; age + span < Window
	span  int64  // ms from the oldest record to the newest
	last  int64  // the newest record's count, at most total
	older []byte // all records but the newest and those in head and tail; it aliases the entry's bytes
	head  record // comes before older, if its count is not 0
	tail  record // comes after older, if its count is not 0
}

type record struct {
	step  int64 // ms to the next record
	count int64
}

func (r record) append(dst []byte) []byte {
	switch r.count {
	case 0:
		return dst
	case 1:
		return binary.AppendUvarint(dst, uint64(r.step)<<1)
	}
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(r.step)<<1|1), uint64(r.count-2))
}

func (s *logState) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(s.total))
	if s.total == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(s.age))
	dst = binary.AppendUvarint(dst, uint64(s.span))
	if s.span == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(s.last))
	dst = s.head.append(dst)
	dst = append(dst, s.older...)
	return s.tail.append(dst)
}

func (s *logState) read(b []byte, l *Limit) bool {
	total, at := uvarint(b, 0)
	if at < 0 || total > uint64(MaxLogCount) {
		return false
	}
	s.total = int64(total)
	if total == 0 {
		return at == len(b)
	}
	age, at := uvarint(b, at)
	span, at := uvarint(b, at)
	if at < 0 || age >= uint64(l.Window) || span >= uint64(l.Window)-age {
		return false
	}
	s.age, s.span, s.last = int64(age), int64(span), s.total
	if span == 0 {
		return at == len(b)
	}
	last, at := uvarint(b, at)
	if at < 0 || last == 0 || last >= total {
		return false
	}
	s.last, s.older = int64(last), b[at:]
	return true
}

// oldest reads the first of the older records at s.older[at:] and returns where the next one starts. span and total are what is left from
// it on; it is not ok if the record does not fit into them.
func (s *logState) oldest(at int, span, total int64) (r record, end int, ok bool) {
	step, end := uvarint(s.older, at)
	count := uint64(1)
	if step&1 != 0 {
		if count, end = uvarint(s.older, end); count >= uint64(MaxLogCount) {
			return r, 0, false
		}
		count += 2
	}
	step >>= 1
	others := total - s.last
	if end < 0 || step == 0 || step > uint64(span) || int64(count) > others {
		return r, 0, false
	}
	if reached := int64(step) == span; reached != (int64(count) == others) || reached != (end == len(s.older)) {
		return r, 0, false
	}
	return record{step: int64(step), count: int64(count)}, end, true
}

// drop takes the oldest record out, one of at least two.
func (s *logState) drop(r record, end int) {
	s.total -= r.count
	s.span -= r.step
	s.older = s.older[end:]
}

// verify looks at all records.
func (s *logState) verify() bool {
	span, total, at := s.span, s.total, 0
	for span > 0 {
		r, end, ok := s.oldest(at, span, total)
		if !ok {
			return false
		}
		span, total, at = span-r.step, total-r.count, end
	}
	return true
}

// carry drops what is gone elapsed ms on.
func (s *logState) carry(to *Limit, elapsed int64) error {
	s.age += elapsed
	if s.age >= to.Window {
		*s = logState{}
		return nil
	}
	for s.age+s.span >= to.Window {
		r, end, ok := s.oldest(0, s.span, s.total)
		if !ok {
			return ErrMalformed
		}
		s.drop(r, end)
	}
	return nil
}

func (s *logState) take(l *Limit, cost, hold, late int64) (allowed, retry int64, err error) {
	fits := cost <= l.Capacity-s.total
	switch {
	case fits && hold == 0:
		s.add(cost)
		return 1, 0, nil
	case cost > l.Capacity:
		return 0, -1, nil
	case fits:
		return 0, late + hold, nil
	}
	wait, err := s.wait(l, cost)
	return 0, late + max(wait, hold), err
}

// add records cost at ts.
func (s *logState) add(cost int64) {
	if cost == 0 {
		return
	}
	if s.total == 0 {
		s.total, s.last, s.age = cost, cost, 0
		return
	}
	if s.age > 0 {
		s.tail = record{step: s.age, count: s.last}
		s.span, s.age, s.last = s.span+s.age, 0, 0
	}
	s.total += cost
	s.last += cost
}

// wait returns the ms until enough of the oldest records are gone for cost (at most Capacity), which does not fit yet.
func (s *logState) wait(l *Limit, cost int64) (int64, error) {
	excess := s.total + cost - l.Capacity
	span, total, at := s.span, s.total, 0
	for span > 0 {
		r, end, ok := s.oldest(at, span, total)
		if !ok {
			return 0, ErrMalformed
		}
		if excess -= r.count; excess <= 0 {
			break
		}
		span, total, at = span-r.step, total-r.count, end
	}
	return l.Window - s.age - span, nil
}

func (s *logState) refund(tokens int64) error {
	for tokens > 0 && s.span > 0 {
		r, end, ok := s.oldest(0, s.span, s.total)
		if !ok {
			return ErrMalformed
		}
		s.drop(r, end)
		if r.count > tokens {
			r.count -= tokens
			s.head = r
			s.total += r.count
			s.span += r.step
			return nil
		}
		tokens -= r.count
	}
	given := min(tokens, s.total)
	s.total -= given
	s.last -= given
	return nil
}

func (s *logState) outlook(l *Limit) (remaining, reset int64) {
	if s.total > 0 {
		reset = l.Window - s.age
	}
	return max(l.Capacity-s.total, 0), reset
}
