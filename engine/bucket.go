package engine

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"strconv"
)

// The token bucket: it holds at most Capacity tokens, gains P each Q ms, and a call takes its cost out. Source: J. Turner, "New directions
// in communications", IEEE Communications Magazine 24(10), 1986; debt as in golang.org/x/time/rate.
//
// Invariant of every state that is stored: credit <= full and full - credit <= maxUnits, where full = Capacity*Q.

type bucketState struct {
	credit int64 // units of 1/Q token at ts; negative in debt
}

func bucketLimitOK(l *Limit) bool {
	if l.P <= 0 || l.Q <= 0 || l.Q > maxPeriod || l.Capacity <= 0 {
		return false
	}
	hi, lo := bits.Mul64(uint64(l.Capacity), uint64(l.Q))
	return hi == 0 && lo <= maxUnits && l.Window == 0 && !l.Aligned
}

func bucketReduced(l *Limit) bool { return commonDivisor(l.P, l.Q) == 1 }

func (s *bucketState) append(dst []byte) []byte {
	return binary.AppendUvarint(dst, zigzag(s.credit))
}

func (s *bucketState) read(b []byte, l *Limit) bool {
	credit, end := uvarint(b, 0)
	if end != len(b) || !bucketLimitOK(l) {
		return false
	}
	s.credit = unzigzag(credit)
	full := l.Capacity * l.Q
	return s.credit <= full && uint64(full)-uint64(s.credit) <= maxUnits
}

func (s *bucketState) fresh(l *Limit) { s.credit = l.Capacity * l.Q }

// carry works on what is missing to a full bucket, which is never negative and 128 bits wide here, so that a debt too large for the new
// unit does not matter once time has paid it.
func (s *bucketState) carry(from, to *Limit, elapsed int64) error {
	full := to.Capacity * to.Q
	var hi, lo uint64
	switch {
	case from.Q != to.Q:
		hi, lo = rescaledMissing(from.Q, to.Q, s.credit, full)
	case s.credit < full:
		lo = uint64(full) - uint64(s.credit)
	}
	gainedHi, gainedLo := bits.Mul64(uint64(elapsed), uint64(to.P))
	lo, borrow := bits.Sub64(lo, gainedLo, 0)
	hi, borrow = bits.Sub64(hi, gainedHi, borrow)
	if borrow != 0 {
		s.credit = full
		return nil
	}
	if hi != 0 || lo > maxUnits {
		return debtError(to, hi, lo)
	}
	s.credit = full - int64(lo)
	return nil
}

// rescaledMissing returns what is missing to full, in the new unit, after credit was rescaled from units of 1/q to 1/toQ, rounded down.
func rescaledMissing(q, toQ, credit, full int64) (hi, lo uint64) {
	debt := credit < 0
	hi, lo = bits.Mul64(uint64(max(credit, -credit)), uint64(toQ))
	quoHi := hi / uint64(q)
	quoLo, rest := bits.Div64(hi%uint64(q), lo, uint64(q))
	if !debt {
		if quoHi != 0 || quoLo >= uint64(full) {
			return 0, 0
		}
		return 0, uint64(full) - quoLo
	}
	var carry uint64
	if rest != 0 { // down is deeper into debt
		quoLo, carry = bits.Add64(quoLo, 1, 0)
		quoHi += carry
	}
	lo, carry = bits.Add64(quoLo, uint64(full), 0)
	return quoHi + carry, lo
}

// debtError says that under l a bucket misses hi, lo units, more than can be held: the burst is too large for the debt, or else the rate's
// unit is too small for it.
func debtError(l *Limit, hi, lo uint64) error {
	debtLo, borrow := bits.Sub64(lo, uint64(l.Capacity*l.Q), 0)
	if hi-borrow == 0 && debtLo <= maxUnits-uint64(l.Q) {
		return &RangeError{
			Argument: "burst " + strconv.FormatInt(l.Capacity, 10),
			Max:      int64((maxUnits - debtLo) / uint64(l.Q)),
			Reason:   "it cannot be held exactly together with this key's debt",
		}
	}
	return &RangeError{Argument: "rate " + rateText(l.P, l.Q), Max: -1, Reason: "this key's debt cannot be held exactly with it, whatever the burst"}
}

var (
	errForce   = errors.New("FORCE excludes MAXWAIT and PARTIAL")
	errPartial = errors.New("PARTIAL excludes COST 0 and MAXWAIT")
)

func bucketCheckOp(op *Op) error {
	switch {
	case op.Force && (op.MaxWait != 0 || op.Partial):
		return errForce
	case op.Partial && (op.Cost == 0 || op.MaxWait != 0):
		return errPartial
	}
	return nil
}

func (s *bucketState) take(l *Limit, op *Op, hold, late int64) (allowed, retry int64, err error) {
	if op.Partial {
		allowed, retry = s.part(l, op.Cost, hold, late)
		return allowed, retry, nil
	}
	possible := op.Cost <= l.Capacity
	if possible && hold == 0 && s.credit >= op.Cost*l.Q {
		s.credit -= op.Cost * l.Q
		return 1, 0, nil
	}
	if op.Force {
		if err = s.owe(l, op.Cost); err != nil {
			return 0, 0, err
		}
		return 0, late + max(s.wait(l, 0), hold), nil
	}
	if !possible {
		return 0, -1, nil
	}
	wait := late + max(s.wait(l, op.Cost), hold)
	if op.MaxWait == 0 {
		return 0, wait, nil
	}
	if wait > op.MaxWait {
		return 0, wait - op.MaxWait, nil
	}
	if err = s.owe(l, op.Cost); err != nil {
		return 0, 0, err
	}
	return 1, wait, nil
}

// part grants what is there of cost, whole tokens only; with nothing to grant it waits for one.
func (s *bucketState) part(l *Limit, cost, hold, late int64) (allowed, retry int64) {
	granted := min(cost, s.credit/l.Q)
	if hold == 0 && granted > 0 {
		s.credit -= granted * l.Q
		return granted, 0
	}
	return 0, late + max(s.wait(l, 1), hold)
}

// owe debits cost whether it is there or not.
func (s *bucketState) owe(l *Limit, cost int64) error {
	room := maxUnits - uint64(l.Capacity*l.Q-s.credit)
	hi, lo := bits.Mul64(uint64(cost), uint64(l.Q))
	if hi != 0 || lo > room {
		return &RangeError{
			Argument: "COST " + strconv.FormatInt(cost, 10),
			Max:      int64(room / uint64(l.Q)),
			Reason:   "the debt it makes cannot be held exactly",
		}
	}
	s.credit -= int64(lo)
	return nil
}

// wait returns the ms until tokens (at most Capacity) are there, rounded up.
func (s *bucketState) wait(l *Limit, tokens int64) int64 {
	missing := tokens*l.Q - s.credit
	if missing <= 0 {
		return 0
	}
	return roundedUp(missing, l.P)
}

func (s *bucketState) refund(l *Limit, tokens int64) {
	full := l.Capacity * l.Q
	hi, lo := bits.Mul64(uint64(tokens), uint64(l.Q))
	if hi != 0 || lo >= uint64(full-s.credit) {
		s.credit = full
		return
	}
	s.credit += int64(lo)
}

func (s *bucketState) outlook(l *Limit) (remaining, reset int64) {
	return max(s.credit, 0) / l.Q, s.wait(l, l.Capacity)
}

// roundedUp divides positive numbers.
func roundedUp(a, b int64) int64 { return int64((uint64(a) + uint64(b) - 1) / uint64(b)) }
