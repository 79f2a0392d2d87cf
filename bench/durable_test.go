//go:build linux

package main

import (
	"bufio"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func TestAlwaysKinds(t *testing.T) {
	all := alwaysKinds(options{})
	for i, want := range []string{"--durability always", "--appendfsync always"} {
		if args := strings.Join(all[i].args, " "); !strings.Contains(args, want) || strings.Contains(args, "interval") || strings.Contains(args, "everysec") {
			t.Errorf("%s is started with %s", all[i].title, args)
		}
	}
	for _, k := range kinds(options{}) { // they share no arguments with these
		if slices.Contains(k.args, "always") {
			t.Errorf("%s is started with %q", k.title, k.args)
		}
	}
}

// Keys beside the open loop are changed at the rate asked for, also when the server was late.
func TestDirtyKeepsItsRate(t *testing.T) {
	const perSecond, lasts = 1000, 300 * time.Millisecond // few enough for a busy machine
	s, calls := lateServer(t, perSecond/20, lasts/3)
	stop := make(chan struct{})
	time.AfterFunc(lasts, func() { close(stop) })
	began := time.Now()
	if err := s.dirty(1000, perSecond, 1, stop); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began).Seconds()
	if n := float64(<-calls); n > perSecond*took+1 || n < perSecond*took/2 {
		t.Errorf("%.0f calls in %.2f s", n, took)
	}
}

func TestDurableReport(t *testing.T) {
	of := func(ms ...int64) *hdrhistogram.Histogram {
		h := newLatency()
		for _, n := range ms {
			h.RecordValue(n * 1e6)
		}
		return h
	}
	cell := func(server string, depth int, perSecond ...float64) *measured {
		m := &measured{latency: of(1)}
		m.server, m.depth = server, depth
		for _, n := range perSecond {
			m.samples = append(m.samples, sample{perSecond: n})
		}
		return m
	}
	d := &durable{
		always: []*measured{cell("ours", alwaysDepth, 290, 300, 310), cell("theirs", alwaysDepth, 100, 100, 100), cell("ours", 1, 140, 150, 100), cell("theirs", 1, 100, 100, 100)},
		flush: &flushed{keys: 1000, rate: 100, beside: 50, last: 49, servers: [2]flusher{
			{durability: "shutdown", rounds: []float64{10, 10, 10}, latency: of(10)}, {durability: "interval", rounds: []float64{11, 13, 12}, latency: of(13)}}},
	}
	var b strings.Builder
	d.write(&b)
	for _, want := range []string{"  3.00 |", "2.90 to 3.10", "| ≥ 3.0", "  1.40 |", "1.00 to 1.50", "11.00 13.00 12.00", "is 1.20 of that without in the same round (median of the rounds, 1.10 to 1.30; target ≤ 1.2: met)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if met, missed := strings.Count(b.String(), " met "), strings.Count(b.String(), " missed "); met != 1 || missed != 1 {
		t.Errorf("%d targets met and %d missed of those beside Redis, want one each", met, missed)
	}
	b.Reset()
	if (*durable)(nil).write(&b); b.Len() > 0 {
		t.Errorf("what was not measured is told: %s", b.String())
	}
}

// lateServer is a server that answers each call, but after so many is late for a while. The channel tells how many calls it got.
func lateServer(t *testing.T, after int, late time.Duration) (*server, <-chan int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	calls := make(chan int, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		n, in := 0, bufio.NewReader(conn)
		for {
			if _, err := readReply(in); err != nil { // a command is an array as a reply is
				break
			}
			if n++; n == after {
				time.Sleep(late)
			}
			io.WriteString(conn, "*1\r\n:1\r\n")
		}
		calls <- n
	}()
	return &server{kind: kinds(options{})[0], port: l.Addr().(*net.TCPAddr).Port}, calls
}
