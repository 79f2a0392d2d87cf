//go:build linux

package main

import (
	"fmt"
	"strconv"
	"strings"
)

// What a server of many keys must reach.
const (
	targetStart = 1.5e6 // keys a second from the start of the process until it serves
	targetFull  = 90.0  // bytes a key
	targetPeak  = 1.3   // highest memory, of that at rest
	targetTail  = 2.0   // p99.9 with many keys, of that with few
)

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}

// write writes the section, if it was measured.
func (z *sized) write(b *strings.Builder) {
	if z == nil {
		return
	}
	fmt.Fprintf(b, "\n## %d keys\n\nrlserver again, with buckets as in the section on memory.\n\n", z.keys)
	z.writeStartups(b)
	z.writeMemory(b)
	z.writeTails(b)
}

func (z *sized) writeStartups(b *strings.Builder) {
	rows := [][]string{{"start after", "s to ready", "keys/s", "target", "verdict", "CPU s per million keys"}}
	for _, up := range z.startups {
		rows = append(rows, []string{up.after, fmt.Sprintf("%.2f", up.took.Seconds()), fmt.Sprintf("%.0f", up.perSecond()),
			fmt.Sprintf("≥ %.0f", targetStart), verdict(up.perSecond() >= targetStart), fmt.Sprintf("%.2f", up.million())})
	}
	table(b, rows)
	fmt.Fprintf(b, "\nFrom before the process exists until PING is answered with PONG; CPU is all that the process took by then. "+
		"The server that was killed had been called at full speed for %v without a SAVE.\n\n", dirtyFor)
}

func (z *sized) writeMemory(b *strings.Builder) {
	rows := [][]string{{"keys came by", "RSS empty MiB", "RSS at rest MiB", "bytes/key", "target", "verdict", "highest MiB", "of that at rest", "target", "verdict"}}
	row := func(how string, resident, peak int64) {
		perKey, over := float64(resident-z.filled.empty)/float64(z.keys), float64(peak)/float64(resident)
		rows = append(rows, []string{how, mebibytes(z.filled.empty), mebibytes(resident), fmt.Sprintf("%.1f", perKey), fmt.Sprintf("≤ %.0f", targetFull),
			verdict(perKey <= targetFull), mebibytes(peak), fmt.Sprintf("%.2f×", over), fmt.Sprintf("≤ %.1f×", targetPeak), verdict(over <= targetPeak)})
	}
	row("calls", z.filled.loaded, z.filled.peak)
	for _, up := range z.startups {
		row("a start after "+up.after, up.resident, up.peak)
	}
	table(b, rows)
}

func (z *sized) writeTails(b *strings.Builder) {
	rows := [][]string{{"keys", "capacity calls/s", "open loop calls/s", "p50 ms", "p99 ms", "p99.9 ms", "of each round", "longest ms", "server CPU µs/call"}}
	for i, p := range []paced{z.few, z.many} {
		var rounds []string
		for _, ms := range p.rounds {
			rounds = append(rounds, fmt.Sprintf("%.2f", ms))
		}
		row := []string{strconv.Itoa(p.keys), fmt.Sprintf("%.0f", z.capacity[i]), fmt.Sprintf("%.0f", z.rate)}
		for _, q := range []float64{50, 99, 99.9} {
			row = append(row, fmt.Sprintf("%.3f", milliseconds(p.latency.ValueAtPercentile(q))))
		}
		rows = append(rows, append(row, strings.Join(rounds, " "), fmt.Sprintf("%.1f", milliseconds(p.latency.Max())), fmt.Sprintf("%.2f", microseconds(p.cpu)/float64(max(p.latency.TotalCount(), 1)))))
	}
	b.WriteString("\n")
	table(b, rows)
	ratio := z.tailRatio()
	fmt.Fprintf(b, "\np99.9 with %d keys is %.2f of that with %d (target ≤ %.1f: %s), by the median of the rounds %.2f.\n\n", z.many.keys, ratio, z.few.keys,
		targetTail, verdict(ratio <= targetTail), median(z.many.rounds)/median(z.few.rounds))
	fmt.Fprintf(b, "RL.ACQUIRE, one token of a random key, in an open loop: calls go out at random times that were drawn beforehand, at %.0f %% of the smaller capacity, "+
		"and latency counts from the time at which a call was to be sent. So a stall of the server is as long as it is for all who come meanwhile. "+
		"Rounds, merges, compactions and garbage collection of the server go on; while one server is measured the other is stopped.\n", 100*openShare)
}

// tailRatio is p99.9 over all rounds, with many keys by that with few.
func (z *sized) tailRatio() float64 {
	return float64(z.many.latency.ValueAtPercentile(99.9)) / float64(max(z.few.latency.ValueAtPercentile(99.9), 1))
}
