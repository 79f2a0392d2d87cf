package engine

import (
	"bytes"
	"math/bits"
)

// States ahead. A disk that is to forget nothing that was admitted need not be told of every debit: it may hold a state ahead, in which
// a block more is debited than was, and then needs no word until the block is used up. Ahead makes such a state, Covers says whether it
// still is one. A state is ahead of another if no call can ever be allowed on it that would not be on the other, whatever the calls, their
// times and their limits, so long as both see the same.
//
// What was admitted in the block may be later than the time of a state ahead, and nobody knows how much later. Between two calls at the
// same limit that does not matter: both states grow alike. When the limit changes it does, for all elapsed time counts at the rate of the
// current call, and a state ahead has more of it. So such a state knows from when on it is certain, which is when nothing that was admitted
// can be later. Rebase, that every state from a disk goes through, knows that time. A call under other terms takes from a bucket the less
// of two: the time up to then counted at the limit the state carries, and at its own. Windows of another length count as if all that is
// counted had been then, or at the end of the window it was in. Before then a bucket's call under other terms acts then; a window's is
// denied until then.

// A Block is how far ahead of what was admitted a state is. The largest of its parts counts; the zero value is nothing ahead.
type Block struct {
	Part  int64 // one so-many-th of the limit's burst, or of its window's limit; 0 = none
	Time  int64 // buckets: what the rate admits in so many ms
	Least int64 // tokens
}

// DefaultBlock is an eighth of the burst or a tenth of a second, so that a key in heavy use is written ten times a second.
var DefaultBlock = Block{Part: 8, Time: 100, Least: 1}

// units returns the block of a bucket in 1/Q token.
func (b *Block) units(l *Limit) int64 {
	tokens := b.Least
	if b.Part > 0 {
		tokens = max(tokens, l.Capacity/b.Part)
	}
	units := multiplied(tokens, l.Q)
	return max(units, multiplied(b.Time, l.P))
}

// calls returns the block of a window.
func (b *Block) calls(l *Limit) int64 {
	if b.Part > 0 {
		return max(b.Least, l.Capacity/b.Part)
	}
	return b.Least
}

// multiplied returns the product of two numbers >= 0, at most maxUnits.
func multiplied(a, b int64) int64 {
	if hi, lo := bits.Mul64(uint64(a), uint64(b)); hi == 0 && lo <= maxUnits {
		return int64(lo)
	}
	return maxUnits
}

// Ahead appends to dst a state that is a block ahead of an entry's: a bucket with less credit, perhaps in debt, a window that counts more,
// at most its limit. It is not ok, and nothing is to be held but the entry itself, if there is nothing that could be ahead: a log, a window
// that is full, a bucket so far in debt that no more can be held, an empty block, bytes that cannot be read. dst must not overlap.
func Ahead(dst, state []byte, b Block) (out []byte, ok bool) {
	var e entry
	if isLog(state) || e.read(state) != nil {
		return nil, false
	}
	l := &e.limit
	block := int64(0)
	switch s := &e.state; l.Algorithm {
	case Bucket:
		block = min(b.units(l), maxUnits-(l.Capacity*l.Q-s.bucket.credit))
		s.bucket.credit -= block
	case Fixed:
		if s.fixed.count > 0 { // there is a window
			block = max(min(b.calls(l), l.Capacity-s.fixed.count), 0)
			s.fixed.count += block
		}
	case Sliding:
		block = max(min(b.calls(l), l.Capacity-s.sliding.cur, maxCount-s.sliding.used(l)), 0)
		s.sliding.cur += block
	}
	if block <= 0 {
		return nil, false
	}
	e.certain = MaxNow
	return appendEntry(dst, &e), true
}

func isLog(state []byte) bool { return len(state) > 0 && Algorithm(state[0]>>algorithmShift) == Log }

// Covers says whether held, that Ahead made of an earlier state of the entry, is ahead of its state too; and if so, whether by more than a
// block, so that another Ahead would hold less back. It is not under another limit or name, with a shorter penalty, or in another window.
func Covers(held, state []byte, b Block) (covered, loose bool) {
	var h, s entry
	if isLog(held) || isLog(state) || h.read(held) != nil || s.read(state) != nil {
		return false, false
	}
	if h.limit != s.limit || !bytes.Equal(h.name, s.name) || h.ts > s.ts || h.blocked < s.blocked {
		return false, false
	}
	if err := h.carryState(&h.limit, s.ts); err != nil {
		return false, false
	}
	l := &s.limit
	switch h, s := &h.state, &s.state; l.Algorithm {
	case Bucket:
		spare := s.bucket.credit - h.bucket.credit
		// One that was full before could be used earlier than the other is full.
		return spare >= 0 && h.bucket.credit < l.Capacity*l.Q, spare > b.units(l)
	case Fixed:
		// Where nothing counts is no window: the next call opens one, and that would be another one than held has.
		if h.fixed.age != s.fixed.age || (h.fixed.count == 0) != (s.fixed.count == 0) {
			return false, false
		}
		spare := h.fixed.count - s.fixed.count
		return spare >= 0, spare > b.calls(l)
	default:
		older, newer := h.sliding.prev-s.sliding.prev, h.sliding.cur-s.sliding.cur
		if older < 0 || newer < 0 {
			return false, false
		}
		return true, older > b.calls(l) || newer > b.calls(l)-older
	}
}

// IsAhead says whether an entry is ahead, or was made of one that is and is not certain yet.
func IsAhead(state []byte) bool { return len(state) > 0 && state[0]&flagAhead != 0 }

// sameTerms says whether lim is the entry's limit but for the name.
func (e *entry) sameTerms(lim *Limit) bool {
	l := &e.limit
	return l.P == lim.P && l.Q == lim.Q && l.Capacity == lim.Capacity && l.Window == lim.Window && l.Aligned == lim.Aligned
}

// carryAhead is carryState for a state that is ahead under other terms. It returns the time reached: t, or later if the state is certain
// only then, which it is now. Windows of the same length go on as they are. Since the call acts later, it may be told to wait longer than it
// has to: one of the first calls after a crash, under a limit that was changed, within max-clock-skew.
func (e *entry) carryAhead(to *Limit, t int64) (reached int64, err error) {
	from, s := &e.limit, &e.state
	if from.Algorithm != Bucket && from.Window == to.Window && from.Aligned == to.Aligned {
		return t, e.carryState(to, t)
	}
	latest := e.certain // the latest time at which what is counted may have been admitted
	e.certain = 0
	switch {
	case from.Algorithm == Bucket:
		if t < latest && t < e.blocked {
			e.blocked = max(e.blocked, latest+1) // it does not end because the call acts later
		}
		return max(t, latest), s.bucket.carryAhead(from, to, t-e.ts, min(t, latest)-e.ts)
	case from.Algorithm == Fixed:
		latest = min(latest, e.ts-s.fixed.age+from.Window-1)
		reached = max(t, latest)
		if to.Aligned {
			s.fixed.carry(to, reached, reached-latest)
		} else {
			s.fixed.carry(to, reached, reached-e.ts)
		}
	default:
		latest = min(latest, e.ts-s.sliding.age+2*from.Window-1)
		reached = max(t, latest)
		if !s.sliding.verify(from) {
			return 0, ErrMalformed
		}
		s.sliding.merge(from)
		s.sliding.age = latest % to.Window
		err = s.sliding.carry(to, to, latest, reached-latest)
	}
	if t < latest { // another window may be open then
		e.blocked = max(e.blocked, latest+1)
	}
	return reached, err
}

// settle makes a bucket that is ahead certain, at the time from which on it is, for what must not happen earlier than it would have: of a
// refund counts only what the burst leaves room for.
func (c *call) settle() {
	if c.certain <= c.ts || c.limit.Algorithm != Bucket {
		return
	}
	if c.blocked != 0 {
		c.blocked = max(c.blocked, c.certain+1)
	}
	c.late += c.certain - c.ts
	c.ts, c.certain = c.certain, 0
}

// carryAhead brings a bucket elapsed ms on, of which those up to settled, no more, count at the lesser of two limits.
func (s *bucketState) carryAhead(from, to *Limit, elapsed, settled int64) error {
	direct := *s
	if err := direct.carry(from, to, elapsed); err != nil {
		return err
	}
	if err := s.carry(from, from, settled); err != nil {
		return err
	}
	if err := s.carry(from, to, elapsed-settled); err != nil {
		return err
	}
	s.credit = min(s.credit, direct.credit)
	return nil
}
