package engine

import (
	"encoding/binary"
)

// search is what is known of the rate that an adaptive limit looks for.
//
// Its bytes: a byte with adaptiveFormat in the high nibble and the flags in the low one; ts; since - ts, zigzag; with flagPaused paused -
// ts; rate; top; step; held; ok; throttled. All but the first are uvarints, so there is exactly one encoding of a state. It takes 30 to 40
// bytes in ordinary use and at most adaptiveRoom.
type search struct {
	ts     int64 // Unix ms of the latest report
	since  int64 // Unix ms at which the epoch under way began; so much later as callers were kept away in it
	paused int64 // Unix ms before which no caller may pass; 0 = they may

	rate int64 // in force, in nano
	top  int64 // the last known capacity, in nano; 0 = unknown
	step int64 // epochs on the way back to top, from 0; from stepsBack on the rate is at top or above

	reacting      bool  // the rate was just lowered: what callers report may be older than that
	held          int64 // while reacting: epochs in which the rate was left as it is
	ok, throttled int64 // reports of the epoch under way
}

const (
	adaptiveFormat = 1 << 4
	flagReacting   = 1 << 0
	flagPaused     = 1 << 1

	// adaptiveRoom is the longest state: a byte, three times with their signs, two rates and four small numbers.
	adaptiveRoom = 1 + 3*9 + 2*9 + 2 + 2*9
	// maxReports bounds the counts of an epoch: further reports say nothing new.
	maxReports int64 = 1 << 53
)

// begin is the state before the first report at t: the lowest rate, and nothing known.
func (s *search) begin(a *Adaptive, t int64) {
	*s = search{ts: t, since: t, rate: nanoRate(&a.Min), step: stepsBack}
}

func (s *search) append(dst []byte) []byte {
	head := byte(adaptiveFormat)
	if s.reacting {
		head |= flagReacting
	}
	if s.paused > s.ts {
		head |= flagPaused
	}
	dst = append(dst, head)
	dst = binary.AppendUvarint(dst, uint64(s.ts))
	dst = binary.AppendUvarint(dst, zigzag(s.since-s.ts))
	if s.paused > s.ts {
		dst = binary.AppendUvarint(dst, uint64(s.paused-s.ts))
	}
	for _, n := range [...]int64{s.rate, s.top, s.step, s.held, s.ok, s.throttled} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return dst
}

// read sets s to what bytes that append made say. The only error is ErrMalformed; s is then undefined.
func (s *search) read(b []byte) error {
	if len(b) == 0 || b[0]&^(flagReacting|flagPaused) != adaptiveFormat {
		return ErrMalformed
	}
	s.reacting = b[0]&flagReacting != 0
	ts, at := uvarint(b, 1)
	since, at := uvarint(b, at)
	var paused uint64
	if b[0]&flagPaused != 0 {
		if paused, at = uvarint(b, at); paused == 0 || paused > uint64(MaxPenalty) {
			return ErrMalformed
		}
	}
	var n [6]uint64
	for i := range n {
		n[i], at = uvarint(b, at)
	}
	if at != len(b) || ts > uint64(MaxNow) ||
		n[0] == 0 || n[0] > uint64(maxAdaptiveRate) || n[1] > uint64(maxAdaptiveRate) ||
		n[2] > uint64(stepsBack) || n[3] > uint64(maxHeld) || n[4] > uint64(maxReports) || n[5] > uint64(maxReports) {
		return ErrMalformed
	}
	s.ts, s.since = int64(ts), int64(ts)+unzigzag(since)
	if s.since < 0 || s.since > s.ts+int64(paused) {
		return ErrMalformed
	}
	s.paused = 0
	if paused != 0 {
		s.paused = s.ts + int64(paused)
	}
	s.rate, s.top, s.step, s.held, s.ok, s.throttled = int64(n[0]), int64(n[1]), int64(n[2]), int64(n[3]), int64(n[4]), int64(n[5])
	return nil
}

// Current returns the limit in force by a state, nil for none yet, and the Unix ms before which no caller may pass, 0 if they may. The
// rate is rounded down to five digits, except for the two bounds, which are exact: so entries stay short. A state made under other bounds
// is brought between those of a. It does not allocate. The only error is ErrMalformed.
func Current(a *Adaptive, old []byte) (lim Limit, pausedUntil int64, err error) {
	if len(old) == 0 {
		return a.Min, 0, nil
	}
	var s search
	if err := s.read(old); err != nil {
		return a.Min, 0, err
	}
	return s.limit(a), s.paused, nil
}

func (s *search) limit(a *Adaptive) Limit {
	const digits = 100_000
	unit := int64(1)
	for s.rate/unit >= digits {
		unit *= 10
	}
	rate := s.rate - s.rate%unit
	switch {
	case rate <= nanoRate(&a.Min):
		return a.Min
	case s.rate >= nanoRate(&a.Max):
		return a.Max
	}
	// Nano has as many digits as the finest decimal rate, so this cannot fail.
	p, q, _ := decimalRate(nil, rate, maxFraction)
	return Limit{Algorithm: Bucket, P: p, Q: q, Capacity: a.Min.Capacity}
}

// RebaseAdaptive checks bytes that come from elsewhere and appends the state with ts at most maxTS (Unix ms in [0, MaxNow]) to dst, as
// Rebase does for an entry: what is left of a pause is left then too. The only error is ErrMalformed.
func RebaseAdaptive(dst, old []byte, maxTS int64) ([]byte, error) {
	var s search
	if err := s.read(old); err != nil {
		return nil, err
	}
	if ahead := s.ts - max(maxTS, 0); ahead > 0 {
		s.ts -= ahead
		s.since = max(s.since-ahead, 0)
		if s.paused != 0 {
			s.paused -= ahead
		}
	}
	return s.append(dst), nil
}
