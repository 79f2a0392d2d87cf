package engine

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func TestParseLimit(t *testing.T) {
	for _, c := range []struct {
		rate, burst string
		p, q, cap   int64
		text        string
	}{
		{"10", "20", 1, 100, 20, "10:20"},
		{"0.5", "1", 1, 2000, 1, "0.5:1"},
		{"5/1m", "10", 1, 12_000, 10, "5/1m:10"},
		{"5/m", "10", 1, 12_000, 10, "5/1m:10"},
		{"100/250ms", "1", 2, 5, 1, "400:1"},
		{"1000/1h", "1", 1, 3600, 1, "1000/1h:1"},
		{"1/30d", "1", 1, 2_592_000_000, 1, "1/30d:1"},
		{"1/d", "1", 1, 86_400_000, 1, "1/1d:1"},
		{"7/7s", "1", 1, 1000, 1, "1:1"},
		{"1/7m", "1", 1, 420_000, 1, "1/7m:1"},
		{"3/ms", "1", 3, 1, 1, "3000:1"},
		{"1/7ms", "1", 1, 7, 1, "1/7ms:1"},
		{"1/7h", "1", 1, 25_200_000, 1, "1/7h:1"},
		{"1/7s", "1", 1, 7000, 1, "1/7s:1"},
		{"0.000000001", "9205357", 1, 1_000_000_000_000, 9_205_357, "0.000000001:9205357"},
		{"1.500000000", "1", 3, 2000, 1, "1.5:1"},
		{"9223372036.854775807", "1", 9_223_372_036_854_775_807, 1_000_000_000_000, 1, "9223372036.854775807:1"},
		{"9223372036854775807", "1", 9_223_372_036_854_775_807, 1000, 1, "9223372036854775807:1"},
		{"9223372036854775807/1ms", "9205357638345293824", 9_223_372_036_854_775_807, 1, 9_205_357_638_345_293_824, "9223372036854775807/1ms:9205357638345293824"},
		{"1", "9007199254740992", 1, 1000, 9_007_199_254_740_992, "1:9007199254740992"},
		{"1/11574d", "1", 1, 999_993_600_000, 1, "1/11574d:1"},
		{"1/1000000000000ms", "1", 1, 1_000_000_000_000, 1, "0.000000001:1"},
	} {
		got, err := ParseLimit([]byte(c.rate), []byte(c.burst))
		want := Limit{Algorithm: Bucket, P: c.p, Q: c.q, Capacity: c.cap}
		if err != nil || got != want {
			t.Errorf("ParseLimit(%q, %q) = %+v, %v, want %+v", c.rate, c.burst, got, err, want)
			continue
		}
		if got.String() != c.text {
			t.Errorf("%s %s reads %s, want %s", c.rate, c.burst, got, c.text)
		}
		if again, err := ParseExpression([]byte(c.text)); again != got {
			t.Errorf("%s parses to %+v, %v, want %+v", c.text, again, err, got)
		}
	}
}

func TestParseWindow(t *testing.T) {
	for _, c := range []struct {
		expr string
		want Limit
		text string // "" = expr
	}{
		{"fixed:100/1m", Limit{Algorithm: Fixed, Capacity: 100, Window: 60_000}, ""},
		{"fixed-aligned:100/60s", Limit{Algorithm: Fixed, Aligned: true, Capacity: 100, Window: 60_000}, "fixed-aligned:100/1m"},
		{"sliding:1000/h", Limit{Algorithm: Sliding, Capacity: 1000, Window: 3_600_000}, "sliding:1000/1h"},
		{"log:5/15m", Limit{Algorithm: Log, Capacity: 5, Window: 900_000}, ""},
		{"log:4096/11574d", Limit{Algorithm: Log, Capacity: 4096, Window: 999_993_600_000}, ""},
		{"Fixed:5/1m", Limit{Algorithm: Fixed, Capacity: 5, Window: 60_000}, "fixed:5/1m"},
		{"FIXED-ALIGNED:5/1m", Limit{Algorithm: Fixed, Aligned: true, Capacity: 5, Window: 60_000}, "fixed-aligned:5/1m"},
		{"SLIDING:5/1m", Limit{Algorithm: Sliding, Capacity: 5, Window: 60_000}, "sliding:5/1m"},
		{"lOg:5/1m", Limit{Algorithm: Log, Capacity: 5, Window: 60_000}, "log:5/1m"},
		{"fixed:4611686018427387903/1ms", Limit{Algorithm: Fixed, Capacity: 4_611_686_018_427_387_903, Window: 1}, ""},
		{"sliding:4611686018427387903/1000000000000ms", Limit{Algorithm: Sliding, Capacity: 4_611_686_018_427_387_903, Window: 1_000_000_000_000}, "sliding:4611686018427387903/1000000000s"},
	} {
		got, err := ParseExpression([]byte(c.expr))
		if err != nil || got != c.want {
			t.Errorf("%s is %+v, %v, want %+v", c.expr, got, err, c.want)
		}
		if text := cmp.Or(c.text, c.expr); got.String() != text {
			t.Errorf("%s reads %s, want %s", c.expr, got, text)
		}
		if again, err := ParseExpression([]byte(got.String())); again != got {
			t.Errorf("%s parses to %+v, %v", got, again, err)
		}
		_, rest, _ := strings.Cut(c.expr, ":")
		n, window, _ := strings.Cut(rest, "/")
		direct, err := ParseWindow(c.want.Algorithm, []byte(n), []byte(window))
		direct.Aligned = c.want.Aligned
		if direct != c.want || err != nil {
			t.Errorf("%v %s %s is %+v, %v", c.want.Algorithm, n, window, direct, err)
		}
	}
}

// TestLimitText proves that the text of any limit parses back to it.
func TestLimitText(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		l := Limit{Algorithm: Bucket, P: 1 + r.Int64N(1<<(1+r.IntN(62))), Q: 1 + r.Int64N(maxPeriod>>r.IntN(39))}
		if r.IntN(2) == 0 {
			l.Q = powersOf5[r.IntN(13)] << r.IntN(13)
		}
		d := commonDivisor(l.P, l.Q)
		l.P, l.Q = l.P/d, l.Q/d
		l.Capacity = 1 + r.Int64N(maxUnits/l.Q)
		if got, err := ParseExpression([]byte(l.String())); got != l {
			t.Fatalf("%+v reads %s, which parses to %+v, %v", l, l, got, err)
		}
	}
}

func TestLargestAcceptedIsNamed(t *testing.T) {
	for _, c := range []struct{ expr, named string }{
		{"1:9205357638345294", "9205357638345293"},
		{"10:99999999999999999999", "92053576383452938"},
		{"99999999999999999999:1", "9223372036854775807"},
		{"9223372036.854775808:1", "9223372036.854775807"},
		{"99999999999999999999/1m:1", "9223372036854775807"},
		{"1/11575d:1", "11574d"},
		{"1/1000000000001ms:1", "11574d"},
		{"log:4097/1m", "4096"},
		{"log:99999999999999999999/1m", "4096"},
		{"fixed:4611686018427387904/1m", "4611686018427387903"},
		{"sliding:4611686018427387904/1m", "4611686018427387903"},
		{"sliding:1/11575d", "11574d"},
	} {
		_, err := ParseExpression([]byte(c.expr))
		if err == nil || !strings.Contains(err.Error(), "at most "+c.named) {
			t.Errorf("%s: %v, want it to say at most %s", c.expr, err, c.named)
		}
		if at := strings.IndexByte(c.expr, ':'); c.named[0] == '9' && !strings.ContainsAny(c.expr, "/.") {
			accepted := c.named + c.expr[at:]
			if strings.HasPrefix(c.expr, "1") {
				accepted = c.expr[:at+1] + c.named
			}
			if _, err := ParseExpression([]byte(accepted)); err != nil {
				t.Errorf("%s is named as accepted: %v", accepted, err)
			}
		}
	}
}

func TestBarePeriodShowsAUnit(t *testing.T) {
	for _, window := range []string{"60", "1"} {
		if _, err := ParseWindow(Fixed, []byte("5"), []byte(window)); err == nil || !strings.Contains(err.Error(), "60s") {
			t.Errorf("%s: %v, want it to show 60s", window, err)
		}
	}
	for _, rate := range []string{"5/60", "5/1"} {
		if _, err := ParseLimit([]byte(rate), []byte("1")); err == nil || !strings.Contains(err.Error(), "60s") {
			t.Errorf("%s: %v, want it to show 60s", rate, err)
		}
	}
}

func TestParseWait(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "250": 250, "250ms": 250, "2s": 2000, "1m": 60_000, "1h": 3_600_000, "1d": MaxMaxWait} {
		if got, err := ParseWait("MAXWAIT", []byte(text), MaxMaxWait); got != want || err != nil {
			t.Errorf("ParseWait(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
}

// badNumbers is wrong for every argument that takes a number.
var badNumbers = []string{
	"", " ", "x", "-", "+", "-1", "+1", " 1", "1 ", "1\n", "0x10", "1e3", "1E3", "NaN", "Inf", "-Inf", "1_000", "1,5", "٣", "½", "007", "00",
	"1000000000000000000000000000000", "-1000000000000000000000000000000", "9223372036854775808", "18446744073709551617",
	"\x00", "1\x00", "\xff\xfe", "1/", "/1s", "/", ".", "1.", ".5", "1.5.5", "1..5", "1/1/1s", "1:", ":1", ":", "1.0000000000",
	strings.Repeat("1", 64<<10), strings.Repeat("0", 64<<10), strings.Repeat("x", 64<<10), strings.Repeat("\r\n", 32<<10),
	"0." + strings.Repeat("0", 64<<10), "1/" + strings.Repeat("1", 64<<10) + "s", "1/1" + strings.Repeat("s", 64<<10),
}

// TestBadArguments gives every parser what it must refuse, by a name and in one short line of ASCII.
func TestBadArguments(t *testing.T) {
	parsers := []struct {
		name  string
		parse func(b []byte) error
		also  []string // wrong here, if not everywhere
	}{
		{"rate", func(b []byte) error { _, err := ParseLimit(b, []byte("1")); return err },
			[]string{"0", "0.0", "0.000000000", "0/1s", "1/0s", "1/s5", "1/-1s", "1/1", "1/1.5s", "1.5/1s", "1/1 s", "1/1S", "1/1us", "1/1w", "1/99999999999999999999s", "1/9223372036854775807d"}},
		{"burst", func(b []byte) error { _, err := ParseLimit([]byte("1"), b); return err }, []string{"0", "1.5", "1s", "9205357638345294"}},
		{"expression", func(b []byte) error { _, err := ParseExpression(b); return err }, []string{
			"10", "10:20:30", "@name", "@a:b:c", "fixed", "fixed:", "fixed:/", "fixed:5", "fixed:5/", "fixed:/1m", "fixed:5/1m/1m", "fixed:5:1m", "Fixe:5/1m", "fixed :5/1m", "FIXED-:5/1m", "FIXED\r\n:5/1m", "fi\xf8ed:5/1m", "f)xed:5/1m", "FIXED:5/1M",
			"bucket:10:20", "bucket:5/1m", "fixed-aligned:5", "sliding-aligned:5/1m", "log-aligned:5/1m", "log:4097/1m", "log:5/60", "log:5/0s", "log:-5/1m", "log:05/1m", "a:5/1m",
		}},
		{"limit", func(b []byte) error { _, err := ParseWindow(Log, b, []byte("1m")); return err }, []string{"0", "4097", "1.5", "5/1m"}},
		{"window", func(b []byte) error { _, err := ParseWindow(Fixed, []byte("1"), b); return err },
			[]string{"0s", "60", "1", "s5", "-1s", "1.5s", "1 s", "1S", "1us", "1w", "11575d", "1000000000001ms", "99999999999999999999s", "9223372036854775807d"}},
		{"now", func(b []byte) error { _, err := ParseNow(b); return err }, []string{"*", "1.5", "9007199254740992", "1s"}},
		{"COST", func(b []byte) error { _, err := ParseCost(b); return err }, []string{"1.5", "1s"}},
		{"tokens", func(b []byte) error { _, err := ParseTokens("tokens", b); return err }, []string{"1.5", "1s"}},
		{"MAXWAIT", func(b []byte) error { _, err := ParseWait("MAXWAIT", b, MaxMaxWait); return err },
			[]string{"86400001", "2d", "25h", "1.5s", "s", "1S", "1us", "9223372036854775807d"}},
		{"caller-clock", func(b []byte) error { _, err := ParseClockMode(string(b)); return err }, []string{"0", "Bounded", "bounded "}},
	}
	for _, p := range parsers {
		for _, text := range append(p.also, badNumbers...) {
			err := p.parse([]byte(text))
			if err == nil {
				t.Errorf("%s accepts %.70q", p.name, text)
				continue
			}
			checkArgumentError(t, p.name, text, err)
		}
	}
}

func checkArgumentError(t *testing.T, name, text string, err error) {
	t.Helper()
	var a *ArgumentError
	if !errors.As(err, &a) {
		t.Errorf("%s %.70q: %T, want *ArgumentError", name, text, err)
		return
	}
	// An expression is refused as a whole or by the part that is wrong.
	if a.Argument != name && !(name == "expression" && strings.Contains("limit window rate burst", a.Argument)) {
		t.Errorf("%s %.70q: names %s", name, text, a.Argument)
	}
	if shown := text[:min(len(text), 64)]; name != "expression" && !strings.Contains(err.Error(), strconv.QuoteToASCII(shown)) {
		t.Errorf("%s %.70q: does not show what came: %v", name, text, err)
	}
	if !strings.Contains(err.Error(), "expected ") || len(err.Error()) > 600 {
		t.Errorf("%s %.70q: %d bytes, or no word of what was expected: %.100s", name, text, len(err.Error()), err)
	}
	for _, c := range err.Error() {
		if c < ' ' || c > '~' {
			t.Errorf("%s %.70q: %q in the error", name, text, c)
		}
	}
}

// TestParseDoesNotAllocate covers what runs on each call.
func TestParseDoesNotAllocate(t *testing.T) {
	rate, burst, expr, now := []byte("5/1m"), []byte("10"), []byte("0.25:10"), []byte("1700000000000")
	window, period := []byte("fixed-aligned:100/1m"), []byte("15m")
	if n := testing.AllocsPerRun(100, func() {
		_, err6 := ParseExpression(window)
		_, err7 := ParseWindow(Log, burst, period)
		_, err1 := ParseLimit(rate, burst)
		_, err2 := ParseExpression(expr)
		_, err3 := ParseNow(now)
		_, err4 := ParseCost(burst)
		_, err5 := ParseWait("MAXWAIT", rate[2:], MaxMaxWait)
		if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzParseExpression: no text panics, and what is accepted reads back to the same limit.
func FuzzParseExpression(f *testing.F) {
	for _, seed := range []string{"10:20", "5/1m:10", "0.000000001:9205357", "1/7ms:1", "9223372036854775807/ms:1", ":", "1/:1", "1.:1", "fixed:5/1m", "fixed-aligned:5/1m", "sliding:5/h", "log:4096/11574d", "log:4097/1m"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, expr []byte) {
		l, err := ParseExpression(expr)
		if err != nil {
			return
		}
		if !l.ok() || l.Algorithm == Bucket && !bucketReduced(&l) {
			t.Fatalf("%q is %+v", expr, l)
		}
		if again, err := ParseExpression([]byte(l.String())); again != l {
			t.Fatalf("%q is %+v and reads %s, which is %+v, %v", expr, l, l, again, err)
		}
	})
}
