package engine

import (
	"math"
	"strconv"
	"testing"
)

// The laws that were tried beside the one in adaptive_law.go, in their plain form: for comparison only, so in floating point.

// rival is a law that lowers the rate at the first THROTTLED report in a second and raises it by raise at each OK report.
type rival struct {
	low, high float64 // calls per second
	keep      float64 // part of the rate that a decrease leaves
	raise     func(l *rival, now int64) float64

	rate, top float64
	lowered   int64 // ms of the last decrease
	raised    int64 // ms of the last increase
	limit     Limit
}

const rivalReaction = 1000 // ms

func newRival(a Adaptive, keep float64, raise func(*rival, int64) float64) *rival {
	low := float64(nanoRate(&a.Min)) / float64(nano)
	return &rival{low: low, high: float64(nanoRate(&a.Max)) / float64(nano), keep: keep, raise: raise, rate: low, top: low, limit: a.Min}
}

func (l *rival) current() (Limit, int64) { return l.limit, 0 }

func (l *rival) report(ok bool, _, now int64) {
	if l.raised == 0 {
		l.lowered, l.raised = now, now
	}
	switch {
	case ok:
		l.rate = l.raise(l, now)
		l.raised = now
	case now-l.lowered >= rivalReaction:
		l.top, l.lowered = l.rate, now
		l.rate *= l.keep
	}
	l.rate = min(max(l.rate, l.low), l.high)
	l.limit, _ = ParseLimit(strconv.AppendFloat(nil, l.rate, 'f', 6, 64), strconv.AppendInt(nil, l.limit.Capacity, 10))
}

// additive raises by a hundredth of the highest rate each second (D.-M. Chiu, R. Jain, "Analysis of the increase and decrease algorithms
// for congestion avoidance in computer networks", Computer Networks and ISDN Systems 17(1), 1989).
func additive(l *rival, now int64) float64 {
	return l.rate + l.high/100*float64(min(now-l.raised, 1000))/1000
}

// cubic is RFC 9438 with calls per second for segments: C 0.4.
func cubic(l *rival, now int64) float64 {
	k := math.Cbrt(l.top * (1 - l.keep) / 0.4)
	return 0.4*math.Pow(float64(now-l.lowered)/1000-k, 3) + l.top
}

// TestAdaptiveRivals shows with -v what came of them in the same simulation: goodput and throttled share in %, and s until the step was
// over, at a tenth of the rate and back at the rate.
//
//	            10/s of 0.5..100                       100/s of 5..200                        5000/s of 100..10000
//	AIMD 1/2    100.0 50.0    - |  94.9  1.7   7.4      99.8  2.9   5.1 |  79.7  0.0  39.9     89.7  0.2  4.9 |  75.5  0.0  42.3
//	AIMD 7/8    100.0 86.9    - | 100.1  6.5   2.0     100.0 38.4     - |  98.7  0.2  36.8    100.0 34.9    - |  92.3  0.0  37.5
//	CUBIC 0.7   100.0 37.8    - | 100.1  4.5   3.5      99.8  4.9  30.1 |  96.5  0.3   8.3     95.7  0.0  8.8 |  91.0  0.0  24.2
//	ours        100.0  2.0 28.6 | 100.1  1.0  71.8     100.2  1.0   3.1 |  98.0  0.2  16.0     98.8  0.1  2.0 |  98.5  0.3  16.1
//
// What the plain laws lack is a scale of their own: their steps are numbers of calls, too large at a tenth of the rate, where a third of
// the calls is throttled for ever, or too small at the rate, where the way back takes long. A halving averages 75 % of the capacity.
func TestAdaptiveRivals(t *testing.T) {
	if !testing.Verbose() {
		t.Skip("for -v")
	}
	laws := []struct {
		name  string
		keep  float64
		raise func(*rival, int64) float64
	}{{"AIMD 1/2", 0.5, additive}, {"AIMD 7/8", 0.875, additive}, {"CUBIC 0.7", 0.7, cubic}}
	t.Log(simHead)
	for _, law := range laws {
		for _, c := range []simCase{simCases[0], simCases[3], simCases[6]} {
			a, err := ParseAdaptive([]byte(c.limit))
			if err != nil {
				t.Fatal(err)
			}
			phases := simulate(c, newRival(a, law.keep, law.raise))
			t.Logf("%v | %v | %v | %-9s %v", phases[0], phases[1], phases[2], law.name, c)
		}
	}
}
