//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTraffics(t *testing.T) {
	want := map[string]int{"steady": 1500, atTheEdge: 903, greedyCaller: 15000}
	for _, traffic := range traffics() {
		if !slices.IsSorted(traffic.at) || traffic.at[0] < epoch {
			t.Errorf("%s: times fall, or begin before %d", traffic.name, epoch)
		}
		if n := want[traffic.name]; n > 0 && len(traffic.at) != n {
			t.Errorf("%s: %d calls, want %d", traffic.name, len(traffic.at), n)
		}
	}
	if epoch%limitWindow != 0 {
		t.Error("no window begins at the epoch")
	}
}

func TestPoissonIsSeededAndExponential(t *testing.T) {
	at := poisson(1)
	if !slices.Equal(at, poisson(1)) || slices.Equal(at, poisson(2)) {
		t.Error("the seed does not decide")
	}
	// Of n = 1200 calls the standard deviation is 35; of gaps, the share above the mean is 1/e, give or take 0.014.
	if n := len(at); n < 1200-4*35 || n > 1200+4*35 {
		t.Errorf("%d calls in %d minutes, want about 1200", n, minutes)
	}
	long := 0
	for i, now := range at[1:] {
		if now-at[i] >= poissonMean {
			long++
		}
	}
	if part := float64(long) / float64(len(at)-1); math.Abs(part-1/math.E) > 4*0.014 {
		t.Errorf("a share of %.3f of the gaps is longer than their mean, want about %.3f", part, 1/math.E)
	}
}

// What the traffic must bring out, from models of the algorithms that are short enough to be read.
func TestDoubleBurstIsTheWorstForFixedWindows(t *testing.T) {
	at := doubleBurst()
	fixed := func(aligned bool) []bool {
		var allowed []bool
		start, count := int64(math.MinInt64/2), 0
		for _, now := range at {
			if now >= start+limitWindow {
				start, count = now, 0
				if aligned {
					start -= now % limitWindow
				}
			}
			allowed = append(allowed, count < limitCalls)
			if count < limitCalls {
				count++
			}
		}
		return allowed
	}
	var log []bool
	for i, now := range at {
		log = append(log, within(granted(at[:i], log), now, limitWindow) < limitCalls)
	}
	for name, c := range map[string]struct {
		allowed []bool
		want    int
	}{"aligned": {fixed(true), 2 * limitCalls}, "from the first call": {fixed(false), 2*limitCalls - 1}, "log": {log, limitCalls}} {
		if got := worst(granted(at, c.allowed), limitWindow); got != c.want {
			t.Errorf("%s: %d in a window, want %d", name, got, c.want)
		}
	}
}

func TestWorstLooksAtEveryWindow(t *testing.T) {
	if n := worst([]int64{0, 10}, 10); n != 1 {
		t.Errorf("calls a whole window apart: %d, want 1", n)
	}
	if n := worst([]int64{0, 9, 9}, 10); n != 3 {
		t.Errorf("calls less than a window apart: %d, want 3", n)
	}
	if n := worst(nil, 10); n != 0 {
		t.Errorf("no calls: %d", n)
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		times := make([]int64, random.IntN(40))
		for i := range times {
			times[i] = random.Int64N(100)
		}
		slices.Sort(times)
		window, most := 1+random.Int64N(30), 0
		for end := int64(0); end < 130; end++ {
			n := 0
			for _, at := range times {
				if at > end-window && at <= end {
					n++
				}
			}
			most = max(most, n)
		}
		if got := worst(times, window); got != most {
			t.Fatalf("%v, window %d: %d, want %d", times, window, got, most)
		}
	}
}

func TestOtherwise(t *testing.T) {
	if n := otherwise([]bool{true, true, false}, []bool{true, false, true}); n != 2 {
		t.Errorf("%d, want 2", n)
	}
}

func TestReadReply(t *testing.T) {
	in := bufio.NewReader(strings.NewReader("+OK\r\n:-7\r\n$4\r\na\r\nb\r\n$-1\r\n*2\r\n:1\r\n*1\r\n$0\r\n\r\n-ERR no\r\n*x\r\n"))
	for _, want := range []string{"OK", "-7", "a\r\nb", "<nil>", "[1 []]"} {
		if got, err := readReply(in); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%v, %v, want %q", got, err, want)
		}
	}
	for _, want := range []string{"ERR no", "not RESP", "EOF"} {
		if got, err := readReply(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want error %q", got, err, want)
		}
	}
	if _, err := isAllowed([]any{"1"}); err == nil {
		t.Error("an array of strings is taken for a decision")
	}
}

func TestDecideKeepsTheOrder(t *testing.T) {
	s := &server{port: fakeServer(t)}
	c, err := s.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if _, err := c.ask("PING"); err != nil {
		t.Fatal(err)
	}
	allowed, err := c.decide(context.Background(), newFrame("RL.ACQUIRE", "user:%key", "10", "20"), make([]int64, fullBatch+3))
	if err != nil || len(allowed) != fullBatch+3 {
		t.Fatalf("%d decisions, %v", len(allowed), err)
	}
	for i, a := range allowed {
		if a != (i%2 == 0) {
			t.Fatalf("decision %d is %v", i, a)
		}
	}
}

func TestLoadCallsEachKeyInTurn(t *testing.T) {
	g, err := dial(fakeServer(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	l := &load{frame: newFrame("RL.ACQUIRE", "user:%key", "10", "20"), keys: 3}
	for _, calls := range []int{1, 4} {
		if out, err := l.run(context.Background(), g, 2, calls); err != nil || out.calls != int64(3*calls) {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	if l.turns != 5 {
		t.Errorf("%d turns, want 5", l.turns)
	}
}

func TestInfoFigure(t *testing.T) {
	info := "# Limiter\r\nrl_keys:7\r\nrl_keyspace_used_bytes:4711\r\n"
	if n, err := infoFigure(info, "rl_keyspace_used_bytes"); n != 4711 || err != nil {
		t.Errorf("%v, %v", n, err)
	}
	if _, err := infoFigure(info, "keys"); err == nil {
		t.Error("half a name was found")
	}
}

func TestContestVerdict(t *testing.T) {
	exact, loose := contender{title: "x", exact: true}, contender{title: "x"}
	for _, c := range []struct {
		contest
		good bool
	}{
		{contest{exact, 1, []int{contendedBurst, contendedBurst}}, true},
		{contest{exact, 1, []int{contendedBurst + 1, contendedBurst - 1}}, false},
		{contest{exact, 1, []int{contendedBurst, contendedBurst - 1}}, false},
		{contest{loose, 1, []int{contendedBurst, contendedBurst + 5}}, true},
		{contest{loose, 5, []int{contendedBurst, contendedBurst}}, false},
	} {
		if err := c.verdict(); (err == nil) != c.good {
			t.Errorf("%v admitted: %v", c.admitted, err)
		}
	}
	if all, most := (contest{loose, 1, []int{contendedBurst + 3, contendedBurst + 5}}).over(); all != 8 || most != 5 {
		t.Errorf("over by %d, %d at worst, want 8 and 5", all, most)
	}
}

// promised is a comparison in which everything is as promised, with made-up figures.
func promised() *comparison {
	c := &comparison{traffics: traffics(), took: time.Second, options: options{rounds: 1, connections: 50, keys: 2000}}
	for _, traffic := range c.traffics {
		var row []replayed
		for _, a := range algorithms() {
			r := replayed{allowed: make([]bool, len(traffic.at)), worst: max(a.edge, 1)}
			r.allowed[0] = true
			r.granted = granted(traffic.at, r.allowed)
			row = append(row, r)
		}
		c.replayed = append(c.replayed, row)
	}
	for range len(algorithms()) + 1 {
		c.costs = append(c.costs, cost{first: 44, full: 52, cpu: []float64{987}, calls: 4, allowed: 2})
	}
	for _, contender := range contenders(50) {
		admitted := contendedBurst
		if !contender.exact {
			admitted += 77
		}
		c.contests = append(c.contests, contest{contender, 1, []int{admitted}})
	}
	return c
}

func TestVerdictOfTheComparison(t *testing.T) {
	if err := promised().verdict(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(c *comparison){
		"FIXED admits less at the edge": func(c *comparison) { c.replayed[1][0].worst-- },
		"LOG admits more at the edge":   func(c *comparison) { c.replayed[1][exactly].worst++ },
		"LOG admits more elsewhere":     func(c *comparison) { c.replayed[2][exactly].worst = limitCalls + 1 },
		"the bucket admits too much":    func(c *comparison) { c.replayed[3][5].worst = limitCalls + 1 },
		"the script admits one more":    func(c *comparison) { c.contests[2].admitted[0]++ },
		"the race does not happen":      func(c *comparison) { c.contests[1].admitted[0] = contendedBurst },
	} {
		c := promised()
		spoil(c)
		if c.verdict() == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}

func TestPageHoldsWhatWasMeasured(t *testing.T) {
	text := promised().markdown("picture.svg")
	for _, want := range []string{"](picture.svg)", "| double burst  | FIXED, aligned ", " 2.00× ", "`log:100/1m`", " 987 ", " 50.0 % ", "| RL.ACQUIRE ", " 77 "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "%!") {
		t.Errorf("a figure without a place:\n%s", text)
	}
}

func TestChartIsValidXML(t *testing.T) {
	chart := promised().chart()
	var texts []string
	bars := 0
	for d := xml.NewDecoder(bytes.NewReader(chart)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, chart)
		}
		switch token := token.(type) {
		case xml.CharData:
			texts = append(texts, string(token))
		case xml.StartElement:
			if token.Name.Local == "rect" {
				bars++
			}
		}
	}
	if bars != len(traffics())*len(algorithms()) {
		t.Errorf("%d bars", bars)
	}
	for _, want := range []string{"double burst", "200", "199", "100", "LOG"} {
		if !slices.Contains(texts, want) {
			t.Errorf("no text %q", want)
		}
	}
	if strings.Contains(string(chart), "NaN") || strings.Contains(string(chart), "%!") {
		t.Errorf("a place that is no number:\n%s", chart)
	}
	d := new(drawing)
	d.text(0, 0, "start", ink, "", "a < b & c")
	if !strings.Contains(d.String(), "a &lt; b &amp; c<") {
		t.Errorf("not escaped: %s", d)
	}
}

// Contrast as WCAG 2 defines it; it asks 3 for graphics and large text.
func TestColoursStandOutFromLightAndDark(t *testing.T) {
	luminance := func(colour string) float64 {
		var rgb [3]uint8
		if _, err := fmt.Sscanf(colour, "#%02x%02x%02x", &rgb[0], &rgb[1], &rgb[2]); err != nil {
			t.Fatalf("%s: %v", colour, err)
		}
		sum := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			v := float64(rgb[i]) / 255
			if v <= 0.04045 {
				v /= 12.92
			} else {
				v = math.Pow((v+0.055)/1.055, 2.4)
			}
			sum += weight * v
		}
		return sum
	}
	if len(hues) != len(algorithms()) {
		t.Fatalf("%d colours for %d algorithms", len(hues), len(algorithms()))
	}
	for _, colour := range append([]string{ink}, hues...) {
		for _, page := range []string{"#ffffff", "#0d1117"} {
			a, b := luminance(colour), luminance(page)
			if contrast := (max(a, b) + 0.05) / (min(a, b) + 0.05); contrast < 3.5 {
				t.Errorf("%s on %s: contrast %.2f, want 3.5", colour, page, contrast)
			}
		}
	}
}

func TestCompareOptions(t *testing.T) {
	o, err := parseCompare(nil, io.Discard)
	if err != nil || o.out != "algorithms.md" || o.keys != costKeys || o.rounds != costRounds {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range [][]string{{"-rounds", "0"}, {"-connections", "1"}, {"-connections", "100"}, {"-o", "page.txt"}, {"stray"}} {
		if _, err := parseCompare(bad, io.Discard); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
