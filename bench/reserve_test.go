//go:build linux

package main

import (
	"strings"
	"testing"
)

// Each mode is set beside interval of its own depth, and reserve is judged.
func TestHotReport(t *testing.T) {
	cell := func(server string, depth int, perSecond ...float64) *measured {
		m := &measured{latency: newLatency()}
		m.server, m.depth = server, depth
		for _, n := range perSecond {
			m.samples = append(m.samples, sample{perSecond: n, denied: 0.25})
		}
		return m
	}
	var b strings.Builder
	writeHot(&b, []*measured{
		cell("interval", 16, 1000, 100), cell("reserve", 16, 600, 50), cell("always", 16, 200, 10),
		cell("interval", 1, 100), cell("reserve", 1, 70), cell("always", 1, 30),
	})
	for _, want := range []string{"  0.55 |", "0.50 to 0.60 | ≥ 0.7  | missed", "  0.15 |", "  0.70 |", "0.70 to 0.70 | ≥ 0.7  | met", "  0.30 |", "25 %"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}

// TestHotKinds: the servers differ in their durability alone.
func TestHotKinds(t *testing.T) {
	for _, mode := range hotModes {
		if k := kinds(options{})[0].in(mode, mode); !strings.Contains(strings.Join(k.args, " "), "--durability "+mode) || k.title != mode {
			t.Errorf("%s is started with %q", k.title, k.args)
		}
	}
}
