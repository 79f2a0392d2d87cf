package engine

import (
	"errors"
	"math/bits"
	"strconv"
)

// An Adaptive is the limit of callers whose real limit is set by somebody else: a bucket of Burst tokens whose rate is looked for between
// two bounds, by what callers report. It is comparable; equal ones mean the same. What was found out so far is not here but in a state,
// bytes like those of an entry: see [Feedback] and [Current].
type Adaptive struct {
	Min, Max Limit // buckets of the lowest and the highest rate, with the same capacity: the burst
	Increase int64 // ms, minIncrease to maxIncrease: the way back to the last known capacity after a decrease takes so long
	Decrease int64 // per mille, minDecrease to maxDecrease: by so much the rate falls below the last known capacity
}

// Defaults and bounds of an adaptive limit.
const (
	defaultIncrease int64 = 10 * 1000
	minIncrease     int64 = 1000
	maxIncrease     int64 = 60 * 60 * 1000

	defaultDecrease int64 = 125 // 12.5 %
	minDecrease     int64 = 10
	maxDecrease     int64 = 500

	// minAdaptiveRate and maxAdaptiveRate bound a rate, in nano: one token in 11 days, 1e9 tokens per second.
	minAdaptiveRate int64 = 1000
	maxAdaptiveRate int64 = 1_000_000_000 * nano
	// maxAdaptiveBurst is what can be held exactly at any rate between the bounds.
	maxAdaptiveBurst int64 = maxUnits / maxPeriod
)

// nano is the unit of a rate that is looked for: 1e-9 tokens per second.
const nano int64 = 1_000_000_000

const (
	adaptivePrefix = "adaptive:"
	wantAdaptive   = "adaptive:min..max:burst, for example adaptive:5..200:20, and after it perhaps :increase, a time, and :decrease, a percentage, as in :10s:12.5%"
)

// IsAdaptive says whether a limit's expression is that of an adaptive limit.
func IsAdaptive(expr []byte) bool {
	return len(expr) >= len(adaptivePrefix) && isWord(expr[:len(adaptivePrefix)], adaptivePrefix)
}

// ParseAdaptive reads "adaptive:min..max:burst": two rates as ParseLimit has them, from one token in 11 days to 1e9 a second, and tokens.
// Two more parts may follow, each behind a colon: the increase, a time with a unit from 1s to 1h, and the decrease, a percentage from 1%
// to 50% with at most one fractional digit. The error is an *ArgumentError.
func ParseAdaptive(expr []byte) (a Adaptive, err error) {
	if !IsAdaptive(expr) {
		return a, badArgument("limit", expr, wantAdaptive)
	}
	span, rest, ok := cut(expr[len(adaptivePrefix):], ":")
	low, high, both := cut(span, "..")
	if !ok || !both {
		return a, badArgument("limit", expr, wantAdaptive)
	}
	burst, rest, more := cut(rest, ":")
	if a.Min, err = parseBound("min", low, burst); err != nil {
		return a, err
	}
	if a.Max, err = parseBound("max", high, burst); err != nil {
		return a, err
	}
	if compareRates(&a.Min, &a.Max) > 0 {
		return a, badArgument("max", high, "a rate not below min, as in adaptive:5..200:20")
	}
	a.Increase, a.Decrease = defaultIncrease, defaultDecrease
	if more {
		err = a.parseParameters(rest)
	}
	return a, err
}

// parseBound reads one of the two rates.
func parseBound(name string, rate, burst []byte) (Limit, error) {
	l, err := ParseLimit(rate, burst)
	if err != nil {
		var bad *ArgumentError
		if errors.As(err, &bad) && bad.Argument == "rate" {
			err = &ArgumentError{Argument: name, Got: bad.Got, Want: bad.Want}
		}
		return l, err
	}
	if l.Capacity > maxAdaptiveBurst {
		return l, badArgument("burst", burst, "at most "+strconv.FormatInt(maxAdaptiveBurst, 10)+" tokens for an adaptive limit")
	}
	if n := nanoRate(&l); n < minAdaptiveRate || n > maxAdaptiveRate {
		return l, badArgument(name, rate, "a rate from 0.000001 to 1000000000 tokens per second")
	}
	return l, nil
}

// parseParameters reads what stands behind the burst: an increase, a decrease, or both in this order.
func (a *Adaptive) parseParameters(b []byte) (err error) {
	part, rest, more := cut(b, ":")
	if len(part) == 0 || part[len(part)-1] != '%' {
		ms, _, ok := scanPeriod(part, 0)
		if !ok || ms < minIncrease || ms > maxIncrease {
			return badArgument("increase", part, "a time with a unit from 1s to 1h, for example 10s")
		}
		if a.Increase = ms; !more {
			return nil
		}
		part, rest, more = cut(rest, ":")
	}
	if a.Decrease, err = parsePercent(part); err == nil && more {
		err = badArgument("limit", rest, "nothing behind the decrease")
	}
	return err
}

// parsePercent reads a decrease in per mille.
func parsePercent(b []byte) (perMille int64, err error) {
	n, end, ok := scanInteger(b, 0)
	if ok && n <= maxDecrease {
		n *= 10
		if end+1 < len(b) && b[end] == '.' && b[end+1]-'0' <= 9 {
			n += int64(b[end+1] - '0')
			end += 2
		}
	}
	if !ok || end != len(b)-1 || b[end] != '%' || n < minDecrease || n > maxDecrease {
		return 0, badArgument("decrease", b, "a percentage from 1% to 50%, for example 12.5%")
	}
	return n, nil
}

// String returns the canonical text, which ParseAdaptive reads back. It leaves out what is as by default.
func (a Adaptive) String() string {
	s := adaptivePrefix + rateText(a.Min.P, a.Min.Q) + ".." + rateText(a.Max.P, a.Max.Q) + ":" + strconv.FormatInt(a.Min.Capacity, 10)
	if a.Increase != defaultIncrease {
		s += ":" + periodText(a.Increase)
	}
	if a.Decrease != defaultDecrease {
		s += ":" + decimal(a.Decrease/10, 0)
		if tenth := a.Decrease % 10; tenth != 0 {
			s += "." + strconv.FormatInt(tenth, 10)
		}
		s += "%"
	}
	return s
}

// RateText writes a bucket's rate as in its expression: "47.21", "5/1m".
func RateText(l Limit) string { return rateText(l.P, l.Q) }

// cut splits b around the first separator.
func cut(b []byte, separator string) (before, after []byte, found bool) {
	for i := 0; i+len(separator) <= len(b); i++ {
		if string(b[i:i+len(separator)]) == separator {
			return b[:i], b[i+len(separator):], true
		}
	}
	return b, nil, false
}

// compareRates is -1, 0 or 1 as the rate of a is below, at or above that of b.
func compareRates(a, b *Limit) int {
	hiA, loA := bits.Mul64(uint64(a.P), uint64(b.Q))
	hiB, loB := bits.Mul64(uint64(b.P), uint64(a.Q))
	switch {
	case hiA == hiB && loA == loB:
		return 0
	case hiA < hiB || hiA == hiB && loA < loB:
		return -1
	}
	return 1
}

// nanoRate is a bucket's rate in nano, rounded down; the largest int64 if it is above that.
func nanoRate(l *Limit) int64 { return mulDiv(l.P, 1000*nano, l.Q) }

// mulDiv is a * b / c for numbers >= 0 and c > 0, rounded down, at most the largest int64.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return 1<<63 - 1
	}
	quo, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(quo, 1<<63-1))
}
