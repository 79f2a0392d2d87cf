package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A skewedClock is a machine's clock that is wrong.
type skewedClock time.Duration

func (c skewedClock) NowNs() int64 { return time.Now().UnixNano() + int64(c) }

// TestSkewedClocks has nodes whose clocks are an hour ahead and an hour behind lead
// one after the other: time goes on for callers as it did, so that nothing is granted
// twice and nobody is kept waiting for longer than the limits have it.
func TestSkewedClocks(t *testing.T) {
	var nodes []*testServer
	for i, by := range []time.Duration{0, time.Hour, -time.Hour} {
		var args []string
		if i > 0 {
			args = []string{"--replicaof", strings.Join(nodes[0].hostWords(), " ")}
		}
		nodes = append(nodes, startWith(t, skewedClock(by), args))
	}
	in := func(n *testServer) func() bool {
		return func() bool { return dial(t, n.addr).section("replication")["master_link_status"] == "up" }
	}
	until(t, "one replica is in step", in(nodes[1]))
	until(t, "the other is", in(nodes[2]))
	calls := [][]string{{"RL.ACQUIRE", "bucket", "1/m", "10"}, {"RL.FIXED", "window", "10", "1h"}, {"RL.SLIDING", "sliding", "10", "1h"}, {"RL.LOG", "log", "10", "1h"}}
	granted := map[string]int{}
	was := int64(0)
	for turn, n := range nodes {
		c := dial(t, n.addr)
		if turn > 0 {
			if got := c.do("REPLICAOF", "NO", "ONE"); got.text != "OK" {
				t.Fatal(got)
			}
			until(t, "it leads", func() bool { return c.do("DEL", "nothing").mark == ':' })
			for _, other := range nodes[turn+1:] {
				dial(t, other.addr).do(append([]string{"REPLICAOF"}, n.hostWords()...)...)
				until(t, "the last one follows it", in(other))
			}
		}
		for _, call := range calls {
			for range 7 {
				d := c.do(call...)
				if len(d.items) != 5 {
					t.Fatalf("node %d: %s: %q", turn, call, d.lines())
				}
				granted[call[1]] += int(d.ints()[0])
				if wait := d.ints()[1]; wait < 0 || wait > 2*time.Hour.Milliseconds() { // a sliding window's is longer than the window
					t.Errorf("node %d: %s: to wait for %d ms", turn, call, wait)
				}
			}
		}
		var now int64
		if _, err := fmt.Sscan(c.do("TIME").items[0].text, &now); err != nil {
			t.Fatal(err)
		}
		if d := now - was; was != 0 && (d < -1 || d > 60) {
			t.Errorf("node %d: the clock has jumped by %d s", turn, d)
		}
		was = now
	}
	for _, call := range calls {
		if n := granted[call[1]]; n != 10 {
			t.Errorf("%s: %d granted by three nodes, the limit is 10", call, n)
		}
	}
}
