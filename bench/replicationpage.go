//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
)

// write writes the section.
func (r *replicated) write(b *strings.Builder) {
	if r == nil || r.cells == nil && r.lags == nil {
		return
	}
	b.WriteString("\n## Replication\n")
	if r.cells != nil {
		writeReplicas(b, r.cells)
	}
	if r.lags != nil {
		writeLags(b, r.lags)
	}
}

func writeReplicas(b *strings.Builder, all []*measured) {
	rows := [][]string{{"server", "command", "calls/s", "p50 ms", "p99 ms", "primary's CPU µs/call", "by that without a replica", "(min to max)", "target", "verdict"}}
	perSecond := func(s sample) float64 { return s.perSecond }
	cpu := func(s sample) float64 { return microseconds(s.cpu) }
	for i, m := range all {
		row := []string{m.server, m.command, fmt.Sprintf("%.0f", median(m.each(perSecond)))}
		for _, q := range []float64{50, 99} {
			row = append(row, fmt.Sprintf("%.3f", milliseconds(m.latency.ValueAtPercentile(q))))
		}
		row = append(row, fmt.Sprintf("%.2f", median(m.each(cpu))))
		switch alone := i / 3 * 3; {
		case i == alone:
			row = append(row, "", "", "", "")
		default:
			ratio := pair(m, all[alone], cpu)
			row = append(row, fmt.Sprintf("%.2f", median(ratio)), fmt.Sprintf("%.2f to %.2f", slices.Min(ratio), slices.Max(ratio)))
			switch i {
			case 1:
				row = append(row, fmt.Sprintf("≤ %.1f", targetReplica), verdict(median(ratio) <= targetReplica))
			case 2:
				row = append(row, fmt.Sprintf("≥ %d calls/s", targetReplAck1), verdict(median(m.each(perSecond)) >= targetReplAck1))
			default:
				row = append(row, "", "")
			}
		}
		rows = append(rows, row)
	}
	fmt.Fprintf(b, "\nA primary with one replica beside one with none, pipelined ×%d; the replica runs on the same machine and competes for it. With `repl-ack 1` a reply that changed something leaves when the replica has the change; Redis has no such mode, only a command WAIT.\n\n", batch)
	table(b, rows)
}

func writeLags(b *strings.Builder, all []*lagged) {
	rows := [][]string{{"server", "load", "calls/s", "lag p50 ms", "p99 ms", "of each round", "p99.9 ms", "longest ms", "target p99", "verdict"}}
	for i, l := range all {
		var rounds []string
		for _, ms := range l.p99 {
			rounds = append(rounds, fmt.Sprintf("%.2f", ms))
		}
		row := []string{l.server, l.command, fmt.Sprintf("%.0f", median(l.rates)), fmt.Sprintf("%.3f", milliseconds(l.latency.ValueAtPercentile(50))),
			fmt.Sprintf("%.3f", milliseconds(l.latency.ValueAtPercentile(99))), strings.Join(rounds, " "),
			fmt.Sprintf("%.3f", milliseconds(l.latency.ValueAtPercentile(99.9))), fmt.Sprintf("%.1f", milliseconds(l.latency.Max()))}
		if i == 0 {
			row = append(row, fmt.Sprintf("≤ %.0f ms", targetLag), verdict(median(l.p99) <= targetLag))
		} else {
			row = append(row, "", "")
		}
		rows = append(rows, row)
	}
	fmt.Fprintf(b, "\nLag: from the primary's answer to a call until the replica shows what it changed, asked again and again from another connection, under a load of %d calls/s in batches, one each %v, on random keys. The round trip of the question is in it. The verdict is on the median of the rounds.\n\n", lagRate, tickTime)
	table(b, rows)
}
