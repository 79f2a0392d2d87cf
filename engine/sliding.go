package engine

import (
	"encoding/binary"
	"math/bits"
)

// The sliding window counter: windows start at multiples of Window since 1970, and of what was granted in the previous one that share
// counts which Window ms back from now would still cover, as if it had been spread evenly. Source: the interpolated counter described in
// Cloudflare, "How we built rate limiting capable of scaling to millions of domains", 2017. The estimate is a fraction with the
// denominator Window; since all it is compared with are whole numbers, it is rounded up first and nothing is lost.
//
// Invariant of every state that is stored: the estimate is at most maxCount, for no limit is larger and it only falls with time.

type slidingState struct {
	age  int64 // ms from the current window's start to ts: always ts modulo Window, and not written
	prev int64 // what was granted in the window before the current one
	cur  int64 // what was granted in the current window
}

func (s *slidingState) append(dst []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(s.prev)), uint64(s.cur))
}

func (s *slidingState) read(b []byte, l *Limit, ts int64) bool {
	prev, at := uvarint(b, 0)
	cur, end := uvarint(b, at)
	s.age, s.prev, s.cur = ts%l.Window, int64(prev), int64(cur)
	return end == len(b) && prev <= uint64(maxCount) && cur <= uint64(maxCount)
}

func (s *slidingState) fresh(l *Limit, ts int64) { s.age = ts % l.Window }

// carry goes from ts on to elapsed ms later. Where the length of the windows changes, it changes at ts, so that all time since then counts
// in the new ones.
func (s *slidingState) carry(from, to *Limit, ts, elapsed int64) error {
	if from.Window != to.Window {
		if !s.verify(from) {
			return ErrMalformed
		}
		s.merge(from)
		s.age = ts % to.Window
	}
	if s.age += elapsed; s.age < to.Window {
		return nil
	}
	if s.age < 2*to.Window {
		s.prev, s.cur = s.cur, 0
	} else {
		s.prev, s.cur = 0, 0
	}
	s.age %= to.Window
	return nil
}

// merge makes all that counts the current window's, rounded up.
func (s *slidingState) merge(l *Limit) { s.prev, s.cur = 0, s.used(l) }

func (s *slidingState) verify(l *Limit) bool { return s.used(l) <= maxCount }

// used is the estimate, rounded up.
func (s *slidingState) used(l *Limit) int64 {
	if s.prev == 0 {
		return s.cur
	}
	hi, lo := bits.Mul64(uint64(s.prev), uint64(l.Window-s.age))
	share, rest := bits.Div64(hi, lo, uint64(l.Window)) // at most prev, so it fits
	if rest != 0 {
		share++
	}
	return s.cur + int64(share)
}

func (s *slidingState) take(l *Limit, cost, hold, late int64) (allowed, retry int64) {
	free := l.Capacity - s.used(l)
	switch {
	case cost <= free && hold == 0:
		s.cur += cost
		return 1, 0
	case cost > l.Capacity:
		return 0, -1
	case cost <= free:
		return 0, late + hold
	}
	return 0, late + max(s.wait(l, cost), hold)
}

// wait returns the ms until cost (at most Capacity) fits, which it does not yet: in this window if the previous one leaves enough, else in
// the next, where what is current now is the previous one and leaves in its turn.
func (s *slidingState) wait(l *Limit, cost int64) int64 {
	if room := l.Capacity - cost - s.cur; room >= 0 {
		if at := shrunk(s.prev, room, l.Window); at < l.Window {
			return at - s.age
		}
	}
	return l.Window - s.age + shrunk(s.cur, l.Capacity-cost, l.Window)
}

// shrunk returns the first ms of a window at which no more than room is left of prev: Window if that is only at its end.
func shrunk(prev, room, window int64) int64 {
	if prev <= room {
		return 0
	}
	hi, lo := bits.Mul64(uint64(room), uint64(window))
	left, _ := bits.Div64(hi, lo, uint64(prev)) // less than window, so it fits
	return window - int64(left)
}

func (s *slidingState) refund(tokens int64) {
	older := min(tokens, s.prev)
	s.prev -= older
	s.cur -= min(tokens-older, s.cur)
}

func (s *slidingState) outlook(l *Limit) (remaining, reset int64) {
	switch {
	case s.cur > 0:
		reset = 2*l.Window - s.age
	case s.prev > 0:
		reset = l.Window - s.age
	}
	return max(l.Capacity-s.used(l), 0), reset
}
