//go:build linux

package main

import (
	"context"
	"io"
	"math"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestPlanIsSeededAndExponential(t *testing.T) {
	times := func(seed uint64) (at []float64) {
		for p := newPlan(schedule{rate: 1000, seed: seed}); len(at) < 10_000; p.step() {
			at = append(at, p.next)
		}
		return at
	}
	a, again, other := times(1), times(1), times(2)
	if a[9999] != again[9999] || a[9999] == other[9999] {
		t.Error("the seed does not decide")
	}
	// The mean of n gaps of mean m has a standard deviation of m/sqrt(n), the share above m is 1/e, give or take 0.005.
	if mean := a[9999] / 10_000; math.Abs(mean-1e6) > 4*1e6/100 {
		t.Errorf("a gap is %v ns on average, want 1000000", mean)
	}
	long := 0
	for i, at := range a[1:] {
		if at-a[i] > 1e6 {
			long++
		}
	}
	if part := float64(long) / 9999; math.Abs(part-1/math.E) > 4*0.005 {
		t.Errorf("a share of %.3f of the gaps is longer than their mean, want about %.3f", part, 1/math.E)
	}
}

func TestOpenLoopKeepsItsRate(t *testing.T) {
	g, err := dial(fakeServer(t), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	s := schedule{frame: newFrame("RL.ACQUIRE", "user:%key", "10", "20"), pick: func() int { return 1 }, rate: 2000, limit: 200 * time.Millisecond, seed: 1}
	planned := int64(0)
	for p := newPlan(s); p.next < float64(s.limit); p.step() {
		planned++
	}
	out, err := g.pace(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	if out.calls != planned || out.allowed+out.denied != planned || out.latency.TotalCount() != planned || out.denied < planned/3 {
		t.Errorf("%+v, want %d calls", out, planned)
	}
	if out.elapsed < s.limit*3/4 {
		t.Errorf("%d calls took %v", planned, out.elapsed)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := g.pace(ctx, s); err != context.Canceled {
		t.Errorf("an interrupted run ends with %v", err)
	}
}

// stallingServer answers PING, and everything else only after a pause, once.
func stallingServer(t *testing.T, call frame, pause time.Duration) (port int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.ReadFull(c, make([]byte, len(newFrame("PING").data)))
		io.WriteString(c, "+PONG\r\n")
		in := make([]byte, len(call.data))
		for n := 0; ; n++ {
			if _, err := io.ReadFull(c, in); err != nil {
				return
			}
			if n == 0 {
				time.Sleep(pause)
			}
			io.WriteString(c, ":1\r\n")
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// TestOpenLoopDoesNotHideAStall: all who would have called while the server stalled count as late, not one.
func TestOpenLoopDoesNotHideAStall(t *testing.T) {
	const pause = 100 * time.Millisecond
	s := schedule{frame: newFrame("ACQUIRE", "%key"), pick: func() int { return 1 }, rate: 1000, limit: 2 * pause, seed: 3}
	g, err := dial(stallingServer(t, s.frame, pause), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	out, err := g.pace(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	// About 50 calls come in the first half of the stall; the first one of all waits for the whole.
	late := int64(0)
	for _, bar := range out.latency.Distribution() {
		if bar.From >= int64(pause/2) {
			late += bar.Count
		}
	}
	if late < 25 || time.Duration(out.latency.Max()) < pause {
		t.Errorf("%d calls were late by half the stall, the longest by %v", late, time.Duration(out.latency.Max()))
	}
}

func TestOpenLoopFailsOnAnError(t *testing.T) {
	s := schedule{frame: newFrame("PING"), pick: func() int { return 1 }, rate: 100, limit: 50 * time.Millisecond}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			for _, answer := range []string{"+PONG\r\n", "-ERR no\r\n"} {
				io.ReadFull(c, make([]byte, len(s.frame.data)))
				io.WriteString(c, answer)
			}
			io.Copy(io.Discard, c)
		}
	}()
	g, err := dial(l.Addr().(*net.TCPAddr).Port, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	if _, err := g.pace(context.Background(), s); err == nil || !strings.Contains(err.Error(), "ERR no") {
		t.Errorf("error %v", err)
	}
}

func TestSizeReport(t *testing.T) {
	z := &sized{keys: 1000, rate: 500, capacity: []float64{1000, 2000}, filled: footprint{empty: 10 << 20, loaded: 10<<20 + 80_000, peak: 11 << 20},
		startups: []startup{{after: "a kill", keys: 1000, took: time.Millisecond, cpu: time.Millisecond, resident: 10<<20 + 100_000, peak: 20 << 20}},
		few:      paced{keys: 100, rounds: []float64{1}, latency: newLatency()}, many: paced{keys: 1000, rounds: []float64{3}, latency: newLatency()}}
	z.few.latency.RecordValue(1e6)
	z.many.latency.RecordValue(3e6)
	var b strings.Builder
	z.write(&b)
	text := regexp.MustCompile(` +`).ReplaceAllString(b.String(), " ")
	for _, want := range []string{
		"| a kill | 0.00 | 1000000 | ≥ 1500000 | missed | 1.00 |",
		"| calls | 10.0 | 10.1 | 80.0 | ≤ 90 | met | 11.0 | 1.09× | ≤ 1.3× | met |",
		"| a start after a kill | 10.0 | 10.1 | 100.0 | ≤ 90 | missed | 20.0 | 1.98× | ≤ 1.3× | missed |",
		"is 3.00 of that with 100 (target ≤ 2.0: missed), by the median of the rounds 3.00",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
