//go:build linux

package main

import (
	"context"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// TestReplicationKinds: those that are set against one another differ in the replica and in repl-ack alone.
func TestReplicationKinds(t *testing.T) {
	all := replicationKinds(options{})
	for i, k := range all {
		args := strings.Join(k.args, " ")
		if got := strings.Contains(args, "--repl-ack 1"); got != (i == 2) {
			t.Errorf("%s is started with %s", k.title, args)
		}
		if strings.Contains(args, "replicaof") {
			t.Errorf("%s follows: %s", k.title, args)
		}
		want := "--replicaof 127.0.0.1 7"
		if got := strings.Join(k.following(7).args, " "); !strings.HasSuffix(got, want) {
			t.Errorf("the replica of %s is started with %s", k.title, got)
		}
	}
	if n := len(all[0].following(7).args); n != len(all[3].following(7).args)-1+len(all[0].args)-len(all[3].args) {
		t.Errorf("rlserver takes host and port as one word: %q", all[0].following(7).args)
	}
	for _, k := range kinds(options{}) { // they share no arguments with these
		if strings.Contains(strings.Join(k.args, " "), "repl") {
			t.Errorf("%s is started with %q", k.title, k.args)
		}
	}
}

// TestStreamKeepsItsRate, also when the server was late.
func TestStreamKeepsItsRate(t *testing.T) {
	const perSecond, lasts = 1000, 300 * time.Millisecond // few enough for a busy machine
	s, calls := lateServer(t, perSecond/20, lasts/3)
	stop := make(chan struct{})
	time.AfterFunc(lasts, func() { close(stop) })
	began := time.Now()
	rate, err := s.stream(newFrame("RL.ACQUIRE", "user:%key", "10", "20"), 1000, perSecond, 1, stop)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began).Seconds()
	if n := float64(<-calls); n > perSecond*took+1 || n < perSecond*took/2 || rate > 1.1*n/lasts.Seconds() || rate < 0.9*n/took {
		t.Errorf("%.0f calls in %.2f s, and it says %.0f a second", n, took, rate)
	}
}

// Each server is set beside its own kind without a replica, and rlserver is judged.
func TestReplicationReport(t *testing.T) {
	cell := func(server string, perSecond float64, cpu ...time.Duration) *measured {
		m := &measured{latency: newLatency()}
		m.server = server
		for _, d := range cpu {
			m.samples = append(m.samples, sample{perSecond: perSecond, cpu: d})
		}
		return m
	}
	of := func(ms ...int64) *hdrhistogram.Histogram {
		h := newLatency()
		for _, n := range ms {
			h.RecordValue(n * 1e6)
		}
		return h
	}
	r := &replicated{
		cells: []*measured{cell("rlserver", 600_000, 1000, 2000), cell("rlserver, a replica", 500_000, 1100, 2400),
			cell("rlserver, repl-ack 1", 99_000, 1500, 3000), cell("Redis", 70_000, 8000, 8000), cell("Redis, a replica", 60_000, 10_000, 12_000)},
		lags: []*lagged{{server: "rlserver", rates: []float64{100_000}, p99: []float64{4, 6, 5}, latency: of(1, 4)},
			{server: "Redis", rates: []float64{90_000}, p99: []float64{9}, latency: of(9)}},
	}
	var b strings.Builder
	r.write(&b)
	for _, want := range []string{"  1.15 |", "1.10 to 1.20 | ≤ 1.2            | met ", "  1.50 |", "| ≥ 100000 calls/s | missed ", "  1.38 |", "4.00 6.00 5.00", "| ≤ 5 ms     | met "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	if (*replicated)(nil).write(&b); b.Len() > 0 {
		t.Errorf("what was not measured is told: %s", b.String())
	}
}

// TestReplicationSmoke measures all of it once, for a moment: that the servers can be started so and the loads are answered.
func TestReplicationSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("starts eleven servers")
	}
	runtime.LockOSThread() // they end with this thread, however it ends
	o := options{rounds: 1, seconds: 0.1, connections: 8, keys: 1000, only: regexp.MustCompile("replication"), redis: "redis-server", root: ".."}
	b := &bench{options: o, dir: t.TempDir()}
	ctx := context.Background()
	if err := b.findServers(ctx); err != nil {
		t.Fatal(err)
	}
	r, err := b.measureReplication(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.cells {
		if len(m.samples) != closeRounds || m.samples[0].perSecond <= 0 || m.samples[0].cpu <= 0 {
			t.Errorf("%s: %+v", m.server, m.samples)
		}
	}
	for _, l := range r.lags {
		if l.latency.TotalCount() == 0 || l.rates[0] <= 0 {
			t.Errorf("%s: looked at the replica %d times, under %v calls/s", l.server, l.latency.TotalCount(), l.rates)
		}
	}
	if len(r.cells) != 5 || len(r.lags) != 2 {
		t.Errorf("%d cells and %d lags", len(r.cells), len(r.lags))
	}
}
