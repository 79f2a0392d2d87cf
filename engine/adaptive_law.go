package engine

// How the rate is looked for. It is the law of CUBIC (S. Ha, I. Rhee, L. Xu, "CUBIC: a new TCP-friendly high-speed TCP variant", ACM
// SIGOPS OSR 42(5), 2008; RFC 9438) for a rate instead of a window, without a scale of its own, and with a capacity that is measured:
//
//   - Reports are looked at epoch by epoch. An epoch is a tenth of the increase, and at least as long as epochCalls calls take at the
//     rate in force; it should outlast the way from an acquire to its report.
//   - A congestion event is a THROTTLED report, beyond one in a hundred (BBR version 2 bears two: draft-cardwell-iccrg-bbr-congestion-
//     control-01, 2021). The rate falls at once, by the decrease below the last rate that gave none. All reports of the epoch after it
//     belong to the same event (RFC 3168, section 6.1.2: at most one reaction in a round trip). The decrease is an eighth, that of Scalable
//     TCP (T. Kelly, ACM CCR 33(2), 2003): a cubic that falls by d averages 1 - d/4 of the capacity, where AIMD averages 1 - d/2.
//   - If epochs after an event are still throttled, the rate falls to what is measured to pass: the larger of the OK reports per ms, as
//     TCP Westwood counts acknowledgements (S. Mascolo et al., MobiCom 2001), and the rate times their share, which stays right where
//     reports are lost. What is above it by less than maxOver is borne maxHeld times, since a late report looks like it. If less than
//     half of the capacity passes, that may be an outage, so the capacity is not forgotten.
//   - Without a THROTTLED report the rate rises after each epoch: back to the capacity in stepsBack epochs along a cubic, steep first and
//     flat at the end; then above it by a 32nd and half as much again each time, as BIC probes (L. Xu, K. Harfoush, I. Rhee, INFOCOM
//     2004); or, below half of the capacity and while none is known, twofold, as in slow start.
//   - It rises only if it is used: if the OK reports are at least half of what the rate allows (RFC 9438, section 5.8).
//
// TestAdaptiveSimulation holds it to its goal, with ten workers that share nothing but the state, against an upstream that allows r calls
// per second, then r/10, then r again: goodput within 10 % of that and less than 5 % of the calls throttled, both in the steady state. With
// the defaults (columns: r, goodput, throttled at r and at r/10, time until a step down or back up was over):
//
//	  10/s    97 to 100 %   1 and 2.6 %       30 s, 70 s
//	 100/s    97 to 100 %   0.3 and 1 %       4 s, 16 s
//	5000/s    95 to  99 %   0.7 and 0.3 %     3 s, 5 to 22 s
//
// A step down is over after an epoch or two, one up after the way back and about ln 32 / ln 1.5 epochs more for the tenfold. With 30 % of
// the reports lost it is much the same. An upstream that counts in long windows, and does not say how long to wait, is used up in each
// window and then throttles a fifth of the calls and more; where callers pass its wait on, one in a hundred. What was tried beside this
// law is in adaptive_rivals_test.go.
const (
	stepsBack          int64 = 10 // epochs from a decrease back to the capacity
	stepsLowered       int64 = 5  // of them already done where the capacity is measured
	epochCalls         int64 = 5  // an epoch is at least as long as so many calls take,
	farCalls           int64 = 2  // or so many, far below the capacity
	bearable           int64 = 10 // per mille of the reports that may be THROTTLED
	maxOver            int64 = 20 // per mille by which the rate may be above what passes
	maxHeld            int64 = 3  // epochs for which it may be
	blindPart          int64 = 4  // an epoch in which nothing passed lowers the rate to this part of it,
	lowestPart         int64 = 16 // and not below this part of the last known capacity
	probeStart         int64 = 32 // the first step above the capacity is this part of it
	usedPart           int64 = 2  // the rate is used if this part of it is
	perMille           int64 = 1000
	probeUp, probeDown int64 = 3, 2 // each step above the capacity is so many times the one before
)

// Feedback is one report at now (Unix ms in [0, MaxNow]) of what the upstream said: ok, or that it throttled and wants no call for wait ms
// (0 to MaxPenalty, 0 if it did not say). old is the state as the last call returned it, empty for none. The new state is appended to dst
// and returned with what Current says of it. Time never runs backwards: now counts as ts if it is earlier. dst must not overlap old.
// Errors: an *ArgumentError for a number out of range, ErrMalformed.
func Feedback(dst []byte, a *Adaptive, old []byte, ok bool, wait, now int64) (out []byte, lim Limit, pausedUntil int64, err error) {
	if wait < 0 || wait > MaxPenalty {
		return nil, lim, 0, outOfRange("wait", wait, MaxPenalty)
	}
	if now < 0 || now > MaxNow {
		return nil, lim, 0, outOfRange("now", now, MaxNow)
	}
	var s search
	if len(old) == 0 {
		s.begin(a, now)
	} else if err := s.read(old); err != nil {
		return nil, lim, 0, err
	}
	s.ts = max(s.ts, now)
	s.clamp(a)
	if s.ts >= s.paused {
		s.paused = 0
		s.report(a, ok)
	}
	if !ok {
		s.pause(wait)
	}
	return s.append(dst), s.limit(a), s.paused, nil
}

// pause keeps callers away for wait ms. The epoch stands still meanwhile, and what is reported in it is not counted: it was on its way.
func (s *search) pause(wait int64) {
	from := max(s.paused, s.ts)
	if until := s.ts + wait; until > from {
		s.since += until - from
		s.paused = until
	}
}

// clamp brings the rate between the bounds of a.
func (s *search) clamp(a *Adaptive) {
	s.rate = min(max(s.rate, nanoRate(&a.Min)), nanoRate(&a.Max))
}

// epoch is how long an epoch is at the rate in force, in ms.
func (s *search) epoch(a *Adaptive) int64 {
	calls := epochCalls
	if s.far() {
		calls = farCalls
	}
	return max(a.Increase/stepsBack, mulDiv(calls*1000, nano, s.rate))
}

// report counts one report at ts.
func (s *search) report(a *Adaptive, ok bool) {
	if ok {
		s.ok = min(s.ok+1, maxReports)
	} else {
		s.throttled = min(s.throttled+1, maxReports)
	}
	epoch := s.epoch(a)
	if !ok && !s.reacting && s.throttled*perMille > mulDiv(s.rate, epoch, 1000*nano)*bearable {
		s.event(a)
	} else if s.ts-s.since >= epoch {
		s.end(a, s.ts-s.since)
	} else {
		return
	}
	s.clamp(a)
	s.since, s.ok, s.throttled = s.ts, 0, 0
}

// far says that the rate is far below the last known capacity, or that none is known.
func (s *search) far() bool { return s.rate < s.top/2 || s.top == 0 }

// event lowers the rate at the first sign of congestion.
func (s *search) event(a *Adaptive) {
	s.step = 0
	switch {
	case s.far(): // between the half that passed before and what does not
		s.top, s.step = s.rate/4*3, stepsLowered
	case s.rate > s.top: // what passed before the last step
		s.top += max(s.rate-s.top-s.top/probeStart, 0) * probeDown / probeUp
	default:
		s.top = s.rate
	}
	s.top = max(s.top, nanoRate(&a.Min))
	s.rate = s.top - mulDiv(s.top, a.Decrease, perMille)
	s.reacting, s.held = true, 0
}

// end looks back at an epoch of so many ms.
func (s *search) end(a *Adaptive, elapsed int64) {
	all := s.ok + s.throttled
	passed := mulDiv(s.ok*1000, nano, elapsed)
	if s.throttled*perMille > all*bearable {
		if s.reacting {
			s.lower(passed)
		}
		return
	}
	s.reacting = false
	if s.throttled == 0 && passed >= s.rate/usedPart {
		s.grow(a)
	}
}

// lower brings the rate down to what passes, if that is clearly less.
func (s *search) lower(passed int64) {
	// The share by the rule of succession: a few reports do not say "none" or "all".
	capacity := max(passed, mulDiv(s.rate, s.ok+1, s.ok+s.throttled+1))
	if s.ok == 0 { // nothing was measured
		capacity = max(s.rate/blindPart, s.top/lowestPart)
	}
	capacity = min(capacity, s.rate)
	if capacity >= s.rate-s.rate*maxOver/perMille && s.held < maxHeld {
		s.held++
		return
	}
	s.rate, s.step, s.held = capacity, stepsLowered, 0
	if !s.far() {
		s.top = capacity
	}
}

// grow raises the rate after an epoch without congestion.
func (s *search) grow(a *Adaptive) {
	switch {
	case s.far():
		s.rate, s.step = s.rate*2, 0
	case s.step < stepsBack:
		s.step++
		left := stepsBack - s.step
		s.rate = max(s.rate, s.top-mulDiv(s.top, a.Decrease*left*left*left, perMille*stepsBack*stepsBack*stepsBack))
	default:
		s.rate += max(s.rate-s.top, 0)*(probeUp-probeDown)/probeDown + max(s.top/probeStart, 1)
	}
}
