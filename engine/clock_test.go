package engine

import (
	"math"
	"testing"
)

func TestClockMode(t *testing.T) {
	const server, skew = int64(1_700_000_000_000), int64(1000)
	for _, c := range []struct {
		mode    ClockMode
		caller  int64
		given   bool
		now     int64
		clamped bool
	}{
		{Bounded, 0, false, server, false},
		{Bounded, server, true, server, false},
		{Bounded, server + skew, true, server + skew, false},
		{Bounded, server + skew + 1, true, server + skew, true},
		{Bounded, server - skew, true, server - skew, false},
		{Bounded, server - skew - 1, true, server - skew, true},
		{Bounded, 0, true, server - skew, true},
		{Bounded, MaxNow, true, server + skew, true},
		{Bounded, math.MaxInt64, true, server + skew, true},
		{Bounded, math.MinInt64, true, server - skew, true},
		{Trusted, 5, true, 5, false},
		{Trusted, MaxNow, true, MaxNow, false},
		{Trusted, math.MaxInt64, true, MaxNow, true},
		{Trusted, -1, true, 0, true},
		{Trusted, 5, false, server, false},
		{Ignored, 5, true, server, false},
		{Ignored, 5, false, server, false},
	} {
		if now, clamped := c.mode.Now(c.caller, server, skew, c.given); now != c.now || clamped != c.clamped {
			t.Errorf("%v.Now(%d, given %v) = %d, %v, want %d, %v", c.mode, c.caller, c.given, now, clamped, c.now, c.clamped)
		}
	}
}

// TestClockStaysInRange: a broken server's clock or a silly skew makes no time that Acquire refuses.
func TestClockStaysInRange(t *testing.T) {
	extremes := []int64{math.MinInt64, -1, 0, 1, MaxNow, MaxNow + 1, math.MaxInt64}
	for _, mode := range []ClockMode{Bounded, Trusted, Ignored} {
		for _, caller := range extremes {
			for _, server := range extremes {
				for _, skew := range extremes {
					if now, _ := mode.Now(caller, server, skew, true); now < 0 || now > MaxNow {
						t.Errorf("%v.Now(%d, %d, %d) = %d", mode, caller, server, skew, now)
					}
				}
			}
		}
	}
}

func TestClockModeText(t *testing.T) {
	for _, mode := range []ClockMode{Bounded, Trusted, Ignored} {
		if got, err := ParseClockMode(mode.String()); got != mode || err != nil {
			t.Errorf("%v parses to %v, %v", mode, got, err)
		}
	}
}
