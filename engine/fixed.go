package engine

import "encoding/binary"

// The fixed window: the first call opens a window of Window ms in which costs of Capacity in all fit; the first call after it opens the
// next. Aligned windows start at multiples of Window since 1970 instead, the same for all keys. Around the end of a window twice the limit
// fits into less than one window; Sliding and Log are the remedy.
//
// A window in which nothing counts is none: the next call opens one at its own time, as it would if the entry had been dropped.
//
// A window is as long as the call at hand says. One that was shortened and is over by that opens anew, in constant time.

type fixedState struct {
	age   int64 // ms from the window's start to ts, in [0, Window), 0 if there is none; aligned: ts modulo Window, and not written
	count int64 // what was granted in the window; 0 = there is none
}

func (s *fixedState) append(dst []byte, l *Limit) []byte {
	if !l.Aligned {
		dst = binary.AppendUvarint(dst, uint64(s.age))
	}
	return binary.AppendUvarint(dst, uint64(s.count))
}

func (s *fixedState) read(b []byte, l *Limit, ts int64) bool {
	age, at := uint64(ts%l.Window), 0
	if !l.Aligned {
		age, at = uvarint(b, 0)
	}
	count, end := uvarint(b, at)
	s.age, s.count = int64(age), int64(count)
	return end == len(b) && age < uint64(l.Window) && count <= uint64(maxCount) && (count > 0 || age == 0 || l.Aligned)
}

func (s *fixedState) fresh(l *Limit, ts int64) {
	if l.Aligned {
		s.age = ts % l.Window
	}
}

// carry goes on to the time t, elapsed ms later. What was counted stays if its window, or one aligned anew, began by the time it was
// counted.
func (s *fixedState) carry(to *Limit, t, elapsed int64) {
	if to.Aligned {
		s.age = t % to.Window
		if s.age < elapsed {
			s.count = 0
		}
		return
	}
	s.age += elapsed
	if s.age >= to.Window || s.count == 0 {
		s.age, s.count = 0, 0
	}
}

func (s *fixedState) take(l *Limit, cost, hold, late int64) (allowed, retry int64) {
	fits := cost <= l.Capacity-s.count
	switch {
	case fits && hold == 0:
		s.count += cost
		return 1, 0
	case cost > l.Capacity:
		return 0, -1
	case fits:
		return 0, late + hold
	}
	return 0, late + max(l.Window-s.age, hold)
}

func (s *fixedState) refund(l *Limit, tokens int64) {
	s.count -= min(tokens, s.count)
	if s.count == 0 && !l.Aligned {
		s.age = 0
	}
}

func (s *fixedState) outlook(l *Limit) (remaining, reset int64) {
	if s.count > 0 {
		reset = l.Window - s.age
	}
	return max(l.Capacity-s.count, 0), reset
}
