package engine

import (
	"math"
	"math/bits"
	"strconv"
)

// String returns the canonical one-argument text of the limit, which ParseExpression reads back: "10:20", "0.5:1", "5/1m:10",
// "log:5/15m". It leaves the name out.
func (l Limit) String() string {
	if r := l.Algorithm.row(); r != nil && r.windowed {
		kind := r.name
		if l.Aligned {
			kind = alignedKind
		}
		return kind + ":" + strconv.FormatInt(l.Capacity, 10) + "/" + periodText(l.Window)
	}
	return rateText(l.P, l.Q) + ":" + strconv.FormatInt(l.Capacity, 10)
}

// rateText prefers tokens per second where that is a decimal, then a count per minute, hour or day, then the fraction as it is.
func rateText(p, q int64) string {
	if n, digits, ok := perSecond(p, q); ok {
		return decimal(n, digits)
	}
	for _, unit := range [...]struct {
		ms   int64
		name string
	}{{60_000, "/1m"}, {3_600_000, "/1h"}, {86_400_000, "/1d"}} {
		if hi, lo := bits.Mul64(uint64(p), uint64(unit.ms)/uint64(q)); unit.ms%q == 0 && hi == 0 && lo <= math.MaxInt64 {
			return strconv.FormatUint(lo, 10) + unit.name
		}
	}
	return strconv.FormatInt(p, 10) + "/" + periodText(q)
}

// perSecond returns p/q per ms as n / 10^digits per second with the fewest digits, if there are at most maxFraction and n can be held.
func perSecond(p, q int64) (n int64, digits int, ok bool) {
	scale := int64(1000) // per ms to per second, then one digit more each turn
	for digits = 0; digits <= maxFraction; digits++ {
		if scale%q == 0 {
			hi, lo := bits.Mul64(uint64(p), uint64(scale/q))
			return int64(lo), digits, hi == 0 && lo <= math.MaxInt64
		}
		scale *= 10
	}
	return 0, 0, false
}

// decimal writes n / 10^digits.
func decimal(n int64, digits int) string {
	s := strconv.FormatInt(n, 10)
	if digits == 0 {
		return s
	}
	for len(s) <= digits {
		s = "0" + s
	}
	return s[:len(s)-digits] + "." + s[len(s)-digits:]
}

// periodText writes ms in the largest unit that divides it.
func periodText(ms int64) string {
	for _, unit := range [...]struct {
		ms   int64
		name string
	}{{86_400_000, "d"}, {3_600_000, "h"}, {60_000, "m"}, {1000, "s"}} {
		if ms%unit.ms == 0 {
			return strconv.FormatInt(ms/unit.ms, 10) + unit.name
		}
	}
	return strconv.FormatInt(ms, 10) + "ms"
}

// tokensText writes units/q tokens: exactly if that is a finite decimal, else rounded down to endlessDigits.
func tokensText(units, q int64) string {
	const endlessDigits = 12 // a unit is at least 1e-12 token
	rest := uint64(q)
	for rest%2 == 0 {
		rest /= 2
	}
	for rest%5 == 0 {
		rest /= 5
	}
	magnitude := uint64(max(units, -units))
	whole, part := magnitude/uint64(q), magnitude%uint64(q)
	var digits []byte
	for part != 0 && (rest == 1 || len(digits) < endlessDigits) {
		part *= 10 // part < q <= 1e12, so this cannot overflow
		digits = append(digits, '0'+byte(part/uint64(q)))
		part %= uint64(q)
	}
	if units < 0 && part != 0 { // down is away from zero
		i := len(digits) - 1
		for ; i >= 0 && digits[i] == '9'; i-- {
			digits[i] = '0'
		}
		if i >= 0 {
			digits[i]++
		} else {
			whole++
		}
	}
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	text := strconv.FormatUint(whole, 10)
	if units < 0 {
		text = "-" + text
	}
	if len(digits) > 0 {
		text += "." + string(digits)
	}
	return text
}
