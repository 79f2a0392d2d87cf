//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// What replies cost that wait for a block ahead, beside those that wait for nothing and those that wait each for their
// own change, on few keys that are called often.

const (
	hotKeys = 100
	hotRate = "10000" // calls a second of each key that are allowed, and its burst: more than come
)

// targetReserve is what it must reach, in calls a second, of interval's.
const targetReserve = 0.7

// hotModes are set against one another; the first is what the others are measured by.
var hotModes = []string{"interval", "reserve", "always"}

// measureHot takes all modes at both depths in each round.
func (b *bench) measureHot(ctx context.Context) (all []*measured, err error) {
	o := *b
	o.options.connections, o.options.keys = alwaysConnections, hotKeys
	var servers []*server
	for _, mode := range hotModes {
		s, err := b.startFound(ctx, kinds(b.options)[0].in(mode, mode))
		if err != nil {
			return nil, err
		}
		defer s.stop()
		servers = append(servers, s)
	}
	for _, depth := range []int{alwaysDepth, 1} {
		for _, s := range servers {
			all = append(all, &measured{latency: newLatency(), cell: cell{server: s.title, depth: depth, frame: newFrame("RL.ACQUIRE", "user:%key", hotRate, hotRate)}})
		}
	}
	return all, o.byTurns(ctx, "durability reserve, ", all, func(i int) *server { return servers[i%len(servers)] })
}

// writeHot writes what was measured of hot keys.
func writeHot(b *strings.Builder, all []*measured) {
	rows := [][]string{{"depth", "durability", "calls/s", "p50 ms", "p99 ms", "p99.9 ms", "denied", "server CPU µs/call", "calls/s by interval's", "(min to max)", "target", "verdict"}}
	perSecond := func(s sample) float64 { return s.perSecond }
	for i, m := range all {
		row := []string{fmt.Sprintf("×%d", m.depth), m.server, fmt.Sprintf("%.0f", median(m.each(perSecond)))}
		for _, q := range []float64{50, 99, 99.9} {
			row = append(row, fmt.Sprintf("%.3f", milliseconds(m.latency.ValueAtPercentile(q))))
		}
		row = append(row, fmt.Sprintf("%.0f %%", 100*median(m.each(func(s sample) float64 { return s.denied }))),
			fmt.Sprintf("%.2f", median(m.each(func(s sample) float64 { return microseconds(s.cpu) }))))
		if at := i % len(hotModes); at == 0 {
			row = append(row, "", "", "", "")
		} else {
			ratio := pair(m, all[i-at], perSecond)
			row = append(row, fmt.Sprintf("%.2f", median(ratio)), fmt.Sprintf("%.2f to %.2f", slices.Min(ratio), slices.Max(ratio)))
			if m.server == "reserve" {
				row = append(row, fmt.Sprintf("≥ %.1f", targetReserve), verdict(median(ratio) >= targetReserve))
			} else {
				row = append(row, "", "")
			}
		}
		rows = append(rows, row)
	}
	fmt.Fprintf(b, "\nHot keys: `RL.ACQUIRE key %s %s` on %d keys at random. Under `reserve` a reply waits only where a block ahead on disk is used up. %d connections, the rest as above.\n\n",
		hotRate, hotRate, hotKeys, alwaysConnections)
	table(b, rows)
}
