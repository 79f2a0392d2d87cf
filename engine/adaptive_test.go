package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestParseAdaptive(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"adaptive:5..200:20", ""},
		{"adaptive:0.5..200.25:1", ""},
		{"Adaptive:5..200:20", "adaptive:5..200:20"},
		{"adaptive:5/1m..100/1m:10", ""},
		{"adaptive:60/1m..100/s:10", "adaptive:1..100:10"},
		{"adaptive:7..7:1", ""},
		{"adaptive:5..200:20:30s", ""},
		{"adaptive:5..200:20:50%", ""},
		{"adaptive:5..200:20:12.5%", "adaptive:5..200:20"},
		{"adaptive:5..200:20:10s:12.5%", "adaptive:5..200:20"},
		{"adaptive:5..200:20:10s:12%", "adaptive:5..200:20:12%"},
		{"adaptive:5..200:20:1h:1%", ""},
		{"adaptive:5..200:20:60m:12.0%", "adaptive:5..200:20:1h:12%"},
		{"adaptive:0.000001..1000000000:9205357", "adaptive:0.000001..1000000000:9205357"},
		{"adaptive:1/11d..1000000000:1", ""},
	} {
		a, err := ParseAdaptive([]byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if c.want == "" {
			c.want = c.in
		}
		if got := a.String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.in, got, c.want)
		}
		if again, err := ParseAdaptive([]byte(a.String())); err != nil || again != a {
			t.Errorf("%s does not read back: %v %v", a, again, err)
		}
	}
}

func TestParseAdaptiveErrors(t *testing.T) {
	for _, c := range []struct{ in, argument string }{
		{"", "limit"},
		{"10:20", "limit"},
		{"adaptive:", "limit"},
		{"adaptive:5..200", "limit"},
		{"adaptive:5-200:20", "limit"},
		{"adaptive:..200:20", "min"},
		{"adaptive:0..200:20", "min"},
		{"adaptive:5..:20", "max"},
		{"adaptive:5...200:20", "max"},
		{"adaptive:5..4:20", "max"},
		{"adaptive:5/m..4.999999999/60s:20", "max"},
		{"adaptive:5/60..200:20", "min"},
		{"adaptive:1/12d..200:20", "min"},
		{"adaptive:1..1000000001:20", "max"},
		{"adaptive:5..200:0", "burst"},
		{"adaptive:5..200:9205358", "burst"},
		{"adaptive:5..200:20:", "increase"},
		{"adaptive:5..200:20:10", "increase"},
		{"adaptive:5..200:20:999ms", "increase"},
		{"adaptive:5..200:20:61m", "increase"},
		{"adaptive:5..200:20:10s:", "decrease"},
		{"adaptive:5..200:20:0%", "decrease"},
		{"adaptive:5..200:20:50.1%", "decrease"},
		{"adaptive:5..200:20:.5%", "decrease"},
		{"adaptive:5..200:20:5.%", "decrease"},
		{"adaptive:5..200:20:5.25%", "decrease"},
		{"adaptive:5..200:20:%", "decrease"},
		{"adaptive:5..200:20:10s:20", "decrease"},
		{"adaptive:5..200:20:20%:10s", "limit"},
		{"adaptive:5..200:20:10s:20%:1", "limit"},
	} {
		a, err := ParseAdaptive([]byte(c.in))
		bad, ok := err.(*ArgumentError)
		if !ok || bad.Argument != c.argument {
			t.Errorf("%q: %v %v, want an error that names %s", c.in, a, err, c.argument)
		}
	}
}

// TestAdaptiveRows runs testdata/adaptive/law.txt, which says what a row is.
func TestAdaptiveRows(t *testing.T) {
	const path = "testdata/adaptive/law.txt"
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r adaptiveRows
	var out bytes.Buffer
	for i, line := range strings.Split(strings.TrimSuffix(string(file), "\n"), "\n") {
		got, err := r.line(line)
		if err != nil {
			t.Errorf("%s:%d: %s\n%v", path, i+1, line, err)
		} else if got != line && !*update {
			t.Errorf("%s:%d:\nwant %s\n got %s", path, i+1, line, got)
		}
		out.WriteString(got + "\n")
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// adaptiveRows is one state and the limit in force.
type adaptiveRows struct {
	a     Adaptive
	state []byte
}

// line returns the line as it should read.
func (r *adaptiveRows) line(line string) (string, error) {
	switch {
	case strings.HasPrefix(line, "=="):
		*r = adaptiveRows{}
		return line, nil
	case line == "" || line[0] == '#':
		return line, nil
	}
	if expr, ok := strings.CutPrefix(line, "limit "); ok {
		a, err := ParseAdaptive([]byte(expr))
		r.a = a
		return line, err
	}
	call, _, _ := strings.Cut(line, " -> ")
	before := string(r.state)
	answer, err := r.run(strings.TrimPrefix(call, "! "))
	if strings.HasPrefix(call, "! ") {
		if err == nil || before != string(r.state) {
			return line, fmt.Errorf("no error, or one that changed the state: %v, %s", err, answer)
		}
		return call, nil
	}
	return call + " -> " + answer, err
}

// run makes the reports of a row.
func (r *adaptiveRows) run(call string) (string, error) {
	at, what, _ := strings.Cut(call, ", ")
	first, last, many := strings.Cut(at, "..")
	words := strings.Fields(what)
	from, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return "", err
	}
	to, n := from, int64(1)
	if many {
		if to, err = strconv.ParseInt(last, 10, 64); err != nil {
			return "", err
		}
		if n, err = strconv.ParseInt(words[0], 10, 64); err != nil {
			return "", err
		}
		words = words[1:]
	}
	var wait int64
	if len(words) > 1 {
		if wait, err = ParseWait("wait", []byte(words[1]), 1<<60); err != nil {
			return "", err
		}
	}
	for i := int64(1); i <= n; i++ {
		out, _, _, err := Feedback(nil, &r.a, r.state, words[0] == "OK", wait, rowsEpoch+from+(to-from)*i/n)
		if err != nil {
			return "", err
		}
		r.state = out
	}
	lim, until, err := Current(&r.a, r.state)
	text := RateText(lim)
	if until != 0 {
		text += fmt.Sprintf(" %d", until-rowsEpoch)
	}
	return text, err
}

// TestAdaptiveLaws holds random reports to what must be so of any search.
func TestAdaptiveLaws(t *testing.T) {
	seeds := uint64(2000)
	if testing.Short() {
		seeds = 200
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 7))
		a := randomAdaptive(random)
		now := rowsEpoch
		var state []byte
		lim, paused := a.Min, int64(0)
		for range 300 {
			now += random.Int64N(1 << random.IntN(16))
			if random.IntN(20) == 0 {
				now -= random.Int64N(5000)
			}
			ok, wait := random.IntN(100) < 100-int(seed%60), int64(0)
			if random.IntN(30) == 0 {
				wait = random.Int64N(10_000)
			}
			if random.IntN(100) == 0 {
				a = randomAdaptive(random)
				lim, paused, _ = Current(&a, state)
			}
			out, next, until, err := Feedback(nil, &a, state, ok, wait, now)
			if err != nil {
				t.Fatal(seed, err)
			}
			var s search
			if err := s.read(out); err != nil || !bytes.Equal(s.append(nil), out) || len(out) > adaptiveRoom {
				t.Fatal(seed, "not read back", err, out)
			}
			if current, pausedUntil, err := Current(&a, out); err != nil || current != next || pausedUntil != until {
				t.Fatal(seed, "Current says", current, pausedUntil, err, "Feedback said", next, until)
			}
			switch {
			case !next.ok() || commonDivisor(next.P, next.Q) != 1:
				t.Fatal(seed, "no limit:", next)
			case compareRates(&next, &a.Min) < 0 || compareRates(&next, &a.Max) > 0:
				t.Fatal(seed, next, "is outside", a)
			case !ok && compareRates(&next, &lim) > 0:
				t.Fatal(seed, "THROTTLED raised", lim, "to", next)
			case until < paused && until != 0:
				t.Fatal(seed, "a pause was shortened")
			case !ok && wait > 0 && until < s.ts+wait:
				t.Fatal(seed, "a wait was not kept")
			}
			state, lim, paused = out, next, until
		}
	}
}

func randomAdaptive(random *rand.Rand) Adaptive {
	low := minAdaptiveRate << random.IntN(40)
	high := min(low<<random.IntN(10)+random.Int64N(1000), maxAdaptiveRate)
	rate := func(n int64) string { return decimal(n, maxFraction) }
	expr := fmt.Sprintf("adaptive:%s..%s:%d:%dms:%d%%", rate(low), rate(high), 1+random.IntN(100), 1000+random.IntN(20_000), 1+random.IntN(50))
	a, err := ParseAdaptive([]byte(expr))
	if err != nil {
		panic(err)
	}
	return a
}

// TestAdaptiveBytes: bytes that are no state are refused, by all who read them, and no bytes make them panic.
func TestAdaptiveBytes(t *testing.T) {
	a, err := ParseAdaptive([]byte("adaptive:5..200:20"))
	if err != nil {
		t.Fatal(err)
	}
	good, _, _, err := Feedback(nil, &a, nil, false, 1000, rowsEpoch)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		b := bytes.Clone(good)
		for range 1 + random.IntN(3) {
			b[random.IntN(len(b))] ^= 1 << random.IntN(8)
		}
		b = b[:len(b)-random.IntN(2)]
		var s search
		known := s.read(b) == nil
		if known && !bytes.Equal(s.append(nil), b) {
			t.Fatalf("% x is read as % x", b, s.append(nil))
		}
		_, _, err := Current(&a, b)
		_, _, _, err2 := Feedback(nil, &a, b, random.IntN(2) == 0, 0, random.Int64N(MaxNow))
		_, err3 := RebaseAdaptive(nil, b, rowsEpoch)
		if known != (err == nil) && len(b) > 0 || known != (err2 == nil) || known != (err3 == nil) {
			t.Fatalf("% x: %v %v %v", b, err, err2, err3)
		}
	}
}

func TestRebaseAdaptive(t *testing.T) {
	a, err := ParseAdaptive([]byte("adaptive:5..200:20"))
	if err != nil {
		t.Fatal(err)
	}
	state, _, _, err := Feedback(nil, &a, nil, false, 60_000, rowsEpoch)
	if err != nil {
		t.Fatal(err)
	}
	same, err := RebaseAdaptive(nil, state, rowsEpoch)
	if err != nil || !bytes.Equal(same, state) {
		t.Fatal("a state that is not ahead was changed", err)
	}
	moved, err := RebaseAdaptive(nil, state, rowsEpoch-1000)
	if err != nil {
		t.Fatal(err)
	}
	if _, until, err := Current(&a, moved); err != nil || until != rowsEpoch+59_000 {
		t.Fatal(until-rowsEpoch, err)
	}
	if _, _, _, err := Feedback(nil, &a, state, true, 0, MaxNow+1); err == nil {
		t.Fatal("a time out of range was accepted")
	}
	if _, _, _, err := Feedback(nil, &a, state, true, -1, 0); err == nil {
		t.Fatal("a wait below 0 was accepted")
	}
}

func TestAdaptiveAllocates(t *testing.T) {
	a, err := ParseAdaptive([]byte("adaptive:5/1m..2000:20"))
	if err != nil {
		t.Fatal(err)
	}
	var rooms [2][adaptiveRoom]byte
	state := rooms[0][:0]
	now, i := rowsEpoch, 0
	if n := testing.AllocsPerRun(1000, func() {
		i, now = i+1, now+100
		out, _, _, err := Feedback(rooms[i&1][:0], &a, state, i%50 != 0, 0, now)
		if err != nil {
			t.Fatal(err)
		}
		state = out
		if _, _, err := Current(&a, state); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkFeedback(b *testing.B) {
	a, err := ParseAdaptive([]byte("adaptive:5..2000:20"))
	if err != nil {
		b.Fatal(err)
	}
	var rooms [2][adaptiveRoom]byte
	state := rooms[0][:0]
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		out, _, _, err := Feedback(rooms[i&1][:0], &a, state, i%50 != 0, 0, rowsEpoch+int64(i))
		if err != nil {
			b.Fatal(err)
		}
		state = out
	}
}
