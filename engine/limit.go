package engine

import (
	"bytes"
	"math"
	"math/bits"
	"strconv"
)

// Bounds of what a limit and a wait may be.
const (
	// maxUnits bounds both a full bucket and what one misses to be full, in 1/Q token. The 1<<54 it leaves free below 1<<63 is room for
	// two times (a caller's lateness and a timestamp), so that no wait and no reset can overflow.
	maxUnits = 1<<63 - 1<<54
	// maxPeriod bounds a period, in ms, and so every Q.
	maxPeriod int64 = 1_000_000_000_000
	// maxFraction bounds the fractional digits of a decimal rate. 1000 * 10^maxFraction is maxPeriod.
	maxFraction = 9
	// MaxMaxWait is the longest MAXWAIT, in ms: one day.
	MaxMaxWait int64 = 24 * 60 * 60 * 1000
	// MaxPenalty is the longest penalty, in ms: 365 days.
	MaxPenalty int64 = 365 * MaxMaxWait
)

const (
	wantRate       = "tokens per second above 0 with at most 9 fractional digits, for example 10 or 0.5, or a count per period, for example 5/1m"
	wantUnit       = "a period with a unit (ms s m h d), for example 60s"
	wantPeriod     = "a period above 0 with a unit (ms s m h d), for example 60s, at most 11574d"
	wantBurst      = "whole tokens above 0, for example 20"
	wantWindowUnit = "a window with a unit (ms s m h d), for example 60s"
	wantWindow     = "a window above 0 with a unit (ms s m h d), for example 60s, at most 11574d"
	wantLimit      = "rate:burst, for example 10:20 or 5/1m:10, or limit/window after fixed:, fixed-aligned:, sliding: or log:, for example log:5/15m"
)

// Bounds of a window's limit and of a name.
const (
	// maxCount bounds the limit of a window: two such counts add up within 64 bits.
	maxCount int64 = math.MaxInt64 / 2
	// MaxLogCount bounds the limit of a sliding log, and so what an entry of one counts.
	MaxLogCount int64 = 4096
	// MaxNameBytes is the length of the longest name of a limit.
	MaxNameBytes = 256
)

// A Limit is what is allowed: an algorithm and its parameters. It is comparable; equal limits mean the same. What an algorithm does not
// use is zero.
type Limit struct {
	Algorithm Algorithm
	Aligned   bool   // fixed: windows start at multiples of Window since 1970, not at the first call
	P, Q      int64  // bucket: P tokens each Q ms, in lowest terms, both > 0
	Capacity  int64  // > 0, the fifth number of a decision. Bucket: burst in tokens, at most about 9.2e18/Q; windows: the window's limit
	Window    int64  // windows: ms, > 0, at most 11574d
	Name      string // the named limit that this is, at most MaxNameBytes; "" if it was given directly
}

// ok says whether l is a limit that can be held, all but whether a bucket's rate is in lowest terms.
func (l *Limit) ok() bool {
	if l.Algorithm == Bucket {
		return bucketLimitOK(l) && len(l.Name) <= MaxNameBytes
	}
	return windowLimitOK(l) && len(l.Name) <= MaxNameBytes
}

// windowLimitOK is ok for an algorithm that counts in windows.
func windowLimitOK(l *Limit) bool {
	row := l.Algorithm.row()
	return row != nil && l.Capacity > 0 && l.Capacity <= row.largest && l.Window > 0 && l.Window <= maxPeriod && l.P|l.Q == 0 &&
		(!l.Aligned || l.Algorithm == Fixed)
}

// ParseLimit reads a bucket's two arguments. rate is tokens per second as a decimal with at most 9 fractional digits ("10", "0.5") or a
// count per period ("5/1m", "5/m", "100/250ms"; units ms s m h d); burst is the capacity in tokens. It does not allocate unless it
// fails, with an *ArgumentError.
func ParseLimit(rate, burst []byte) (Limit, error) {
	p, q, err := parseRate(rate)
	if err != nil {
		return Limit{}, err
	}
	n, end, ok := scanInteger(burst, 0)
	if ok && end == len(burst) && n > 0 && n <= maxUnits/q {
		return Limit{Algorithm: Bucket, P: p, Q: q, Capacity: n}, nil
	}
	if largest := maxUnits / q; allDigits(burst) && burst[0] != '0' && (!ok || n > largest) {
		return Limit{}, badArgument("burst", burst, "at most "+strconv.FormatInt(largest, 10)+" tokens at this rate")
	}
	return Limit{}, badArgument("burst", burst, wantBurst)
}

// ParseWindow reads a window's two arguments: limit is how many fit, above 0, and window its length with a unit ("60s"; units ms s m h d).
// It does not allocate unless it fails, with an *ArgumentError. FIXED windows are not aligned; a caller sets Aligned.
func ParseWindow(a Algorithm, limit, window []byte) (Limit, error) {
	row := a.row()
	if row == nil || !row.windowed {
		return Limit{}, errLimit
	}
	n, end, ok := scanInteger(limit, 0)
	if !ok || end != len(limit) || n <= 0 || n > row.largest {
		if allDigits(limit) && limit[0] != '0' {
			return Limit{}, badArgument("limit", limit, "at most "+strconv.FormatInt(row.largest, 10)+" in a window of this kind")
		}
		return Limit{}, badArgument("limit", limit, "a whole number above 0, for example 100")
	}
	ms, bare, ok := scanPeriod(window, 0)
	if bare {
		return Limit{}, badArgument("window", window, wantWindowUnit)
	}
	if !ok {
		return Limit{}, badArgument("window", window, wantWindow)
	}
	return Limit{Algorithm: a, Capacity: n, Window: ms}, nil
}

// ParseExpression reads a limit written as one argument: a bucket's "rate:burst", as in "10:20" or "5/1m:10", or a window's limit and
// length after its kind in any letter case, as in "fixed:100/1m", "fixed-aligned:100/1m", "sliding:100/1m" or "log:5/15m".
func ParseExpression(expr []byte) (Limit, error) {
	at := bytes.IndexByte(expr, ':')
	if at < 0 {
		return Limit{}, badArgument("limit", expr, wantLimit)
	}
	if c := expr[0] | 0x20; c >= 'a' && c <= 'z' {
		return parseWindowExpression(expr, at)
	}
	if bytes.IndexByte(expr[at+1:], ':') >= 0 {
		return Limit{}, badArgument("limit", expr, wantLimit)
	}
	return ParseLimit(expr[:at], expr[at+1:])
}

// alignedKind is what an expression with aligned windows starts with, before the colon.
const alignedKind = "fixed-aligned"

// parseWindowExpression goes on where the kind ends with a colon.
func parseWindowExpression(expr []byte, colon int) (l Limit, err error) {
	kind, rest := expr[:colon], expr[colon+1:]
	var a Algorithm
	for i := range algorithms {
		if algorithms[i].windowed && isWord(kind, algorithms[i].name) {
			a = Algorithm(i)
		}
	}
	aligned := isWord(kind, alignedKind)
	if aligned {
		a = Fixed
	}
	slash := bytes.IndexByte(rest, '/')
	if a == 0 || slash < 0 {
		return Limit{}, badArgument("limit", expr, wantLimit)
	}
	l, err = ParseWindow(a, rest[:slash], rest[slash+1:])
	l.Aligned = err == nil && aligned
	return l, err
}

// isWord compares b, in any letter case, with one in lower case.
func isWord(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// ParseNow reads a caller's time: Unix ms in [0, MaxNow].
func ParseNow(b []byte) (ms int64, err error) {
	n, end, ok := scanInteger(b, 0)
	if !ok || end != len(b) || n > MaxNow {
		return 0, badArgument("now", b, "Unix milliseconds from 0 to "+strconv.FormatInt(MaxNow, 10)+", for example 1700000000000")
	}
	return n, nil
}

// ParseCost reads the number of tokens >= 0 after COST.
func ParseCost(b []byte) (int64, error) { return ParseTokens("COST", b) }

// ParseTokens reads a number of tokens >= 0 for the argument called name.
func ParseTokens(name string, b []byte) (int64, error) {
	n, end, ok := scanInteger(b, 0)
	if !ok || end != len(b) {
		return 0, badArgument(name, b, "whole tokens from 0 to 9223372036854775807, for example 1")
	}
	return n, nil
}

// ParseWait reads a wait for the argument called name: ms as a bare integer ("250") or a count with a unit ("250ms", "2s", "1m"), from 0
// to longest ms.
func ParseWait(name string, b []byte, longest int64) (ms int64, err error) {
	n, end, ok := scanInteger(b, 0)
	if ok && end < len(b) {
		n, ok = inUnit(n, b[end:])
	}
	if !ok || n > longest {
		return 0, badArgument(name, b, "milliseconds from 0 to "+strconv.FormatInt(longest, 10)+", or a count with a unit, for example 250 or 2s")
	}
	return n, nil
}

// parseRate returns the rate as p tokens each q ms in lowest terms, p > 0 and 0 < q <= maxPeriod.
func parseRate(b []byte) (p, q int64, err error) {
	n, end, ok := scanInteger(b, 0)
	if !ok {
		return 0, 0, rateError(b)
	}
	if end == len(b) {
		return decimalRate(b, n, 0)
	}
	switch b[end] {
	case '.':
		return fractionalRate(b, n, end+1)
	case '/':
		return periodicRate(b, n, end+1)
	}
	return 0, 0, rateError(b)
}

// fractionalRate goes on after the point: whole is what stood before it.
func fractionalRate(b []byte, whole int64, from int) (p, q int64, err error) {
	digits := len(b) - from
	if digits < 1 || digits > maxFraction || !allDigits(b[from:]) {
		return 0, 0, rateError(b)
	}
	n := uint64(whole)
	for _, c := range b[from:] {
		hi, lo := bits.Mul64(n, 10)
		n = lo + uint64(c-'0')
		if hi != 0 || n > math.MaxInt64 {
			return 0, 0, badArgument("rate", b, "at most "+largestDecimal(digits)+" with "+strconv.Itoa(digits)+" fractional digits")
		}
	}
	return decimalRate(b, int64(n), digits)
}

// decimalRate reduces n / 10^digits tokens per second. Only 2 and 5 can divide the denominator, so no general divisor is looked for.
func decimalRate(b []byte, n int64, digits int) (p, q int64, err error) {
	if n == 0 {
		return 0, 0, rateError(b)
	}
	tens := 3 + digits // the denominator is 1000 * 10^digits
	twos := min(bits.TrailingZeros64(uint64(n)), tens)
	n >>= uint(twos)
	fives := tens
	for ; fives > 0 && n%5 == 0; fives-- {
		n /= 5
	}
	return n, powersOf5[fives] << uint(tens-twos), nil
}

// powersOf5 reaches to the fives in maxPeriod.
var powersOf5 = [...]int64{1, 5, 25, 125, 625, 3125, 15625, 78125, 390625, 1953125, 9765625, 48828125, 244140625}

// periodicRate goes on after the slash: n tokens each period.
func periodicRate(b []byte, n int64, from int) (p, q int64, err error) {
	if n == 0 {
		return 0, 0, rateError(b)
	}
	period, bare, ok := scanPeriod(b, from)
	if bare {
		return 0, 0, badArgument("rate", b, wantUnit)
	}
	if !ok {
		return 0, 0, badArgument("rate", b, wantPeriod)
	}
	d := commonDivisor(n, period)
	return n / d, period / d, nil
}

// scanPeriod reads b from i to its end as a count with a unit, or a unit alone for one of it, in [1, maxPeriod] ms. bare says that it is
// wrong for want of a unit.
func scanPeriod(b []byte, i int) (ms int64, bare, ok bool) {
	count, end, ok := scanInteger(b, i)
	if end == i && end < len(b) {
		count, ok = 1, true // "m"
	}
	if !ok || end == len(b) {
		return 0, ok, false
	}
	ms, ok = inUnit(count, b[end:])
	return ms, false, ok && ms > 0 && ms <= maxPeriod
}

// commonDivisor is Euclid's; counts are small beside periods, so it takes one or two divisions as a rule.
func commonDivisor(a, b int64) int64 {
	x, y := uint64(a), uint64(b)
	for x > 1 {
		x, y = y%x, x
	}
	if x == 1 {
		return 1
	}
	return int64(y)
}

// inUnit returns count units in ms, not ok if the unit is unknown or the result cannot be held.
func inUnit(count int64, unit []byte) (ms int64, ok bool) {
	var size int64
	switch string(unit) {
	case "ms":
		size = 1
	case "s":
		size = 1000
	case "m":
		size = 60 * 1000
	case "h":
		size = 60 * 60 * 1000
	case "d":
		size = 24 * 60 * 60 * 1000
	default:
		return 0, false
	}
	if count > math.MaxInt64/size {
		return 0, false
	}
	return count * size, true
}

// scanInteger reads the digits of b from i on and returns their value and where they end. It is not ok without a digit, with a leading
// zero, or above the largest int64.
func scanInteger(b []byte, i int) (n int64, end int, ok bool) {
	start := i
	var v uint64
	for ; i < len(b); i++ {
		d := b[i] - '0'
		if d > 9 {
			break
		}
		if v > (math.MaxInt64-9)/10 && v > (math.MaxInt64-uint64(d))/10 {
			return 0, i, false
		}
		v = v*10 + uint64(d)
	}
	if i == start || b[start] == '0' && i > start+1 {
		return 0, i, false
	}
	return int64(v), i, true
}

// rateError tells too large from not a rate at all.
func rateError(b []byte) error {
	whole := b
	for i, c := range b {
		if c == '.' || c == '/' {
			whole = b[:i]
			break
		}
	}
	if _, _, ok := scanInteger(whole, 0); !ok && allDigits(whole) && whole[0] != '0' {
		return badArgument("rate", b, "at most "+largestDecimal(0)+" tokens")
	}
	return badArgument("rate", b, wantRate)
}

// largestDecimal writes the largest int64 with the point before the last digits.
func largestDecimal(digits int) string {
	s := strconv.FormatInt(math.MaxInt64, 10)
	if digits == 0 {
		return s
	}
	return s[:len(s)-digits] + "." + s[len(s)-digits:]
}

func allDigits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}
