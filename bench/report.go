//go:build linux

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// What rlserver must reach: server CPU per call as a part of the script's on a Redis without persistence, and bytes a key.
type target struct{ now, end float64 }

var (
	targetCPU   = map[int]target{batch: {1.0 / 6, 1.0 / 10}, 1: {1, 0.6}} // by depth
	targetBytes = target{100, 80}
)

// results is all a report is made of: nothing in it comes from an earlier run.
type results struct {
	options    options
	machine    []string // lines "what: value"
	kinds      []kind
	cells      []*measured
	memory     []footprint
	admission  []admission
	durable    *durable
	replicated *replicated
	size       *sized
	took       time.Duration
	loadAtEnd  string // load average; the run itself adds about 2
}

func (r *results) markdown() string {
	var b strings.Builder
	b.WriteString("# Benchmark results\n\nMade by `make bench`; do not edit.\n\n")
	for _, line := range r.machine {
		fmt.Fprintf(&b, "* %s\n", line)
	}
	o := r.options
	fmt.Fprintf(&b, "* run: %d rounds of %v s a cell (%d where it is near its target: durability, replication), %d connections, %d keys, %.0f s in all, load at the end %s\n",
		o.rounds, o.seconds, o.rounds*closeRounds, o.connections, o.keys, r.took.Seconds(), r.loadAtEnd)
	if o.only.String() != "" {
		fmt.Fprintf(&b, "* partial: only what matches `%s`\n", o.only)
	}
	for _, depth := range []int{batch, 1} {
		r.writeCells(&b, depth)
	}
	r.writeRatios(&b)
	r.writeMemory(&b)
	r.writeAdmission(&b)
	r.durable.write(&b)
	r.replicated.write(&b)
	r.size.write(&b)
	r.writeMethod(&b)
	return b.String()
}

func (r *results) writeCells(b *strings.Builder, depth int) {
	rows := [][]string{{"server", "command", "calls/s", "p50 ms", "p99 ms", "p99.9 ms", "server CPU µs/call", "(min to max)", "generator CPU µs/call", "denied"}}
	for _, m := range r.cells {
		if m.depth != depth {
			continue
		}
		cpu := m.each(func(s sample) float64 { return microseconds(s.cpu) })
		row := []string{r.title(m.server), m.command, fmt.Sprintf("%.0f", median(m.each(func(s sample) float64 { return s.perSecond })))}
		for _, q := range []float64{50, 99, 99.9} {
			row = append(row, fmt.Sprintf("%.3f", time.Duration(m.latency.ValueAtPercentile(q)).Seconds()*1000))
		}
		denied := "-"
		if m.spent != nil {
			denied = fmt.Sprintf("%.1f %%", 100*median(m.each(func(s sample) float64 { return s.denied })))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.2f", median(cpu)), fmt.Sprintf("%.2f to %.2f", slices.Min(cpu), slices.Max(cpu)),
			fmt.Sprintf("%.2f", median(m.each(func(s sample) float64 { return microseconds(s.generatorCPU) }))), denied))
	}
	if len(rows) == 1 {
		return
	}
	if depth == 1 {
		b.WriteString("\n## One call at a time\n\nEach connection sends a call and waits for its reply: latency is that of a call.\n\n")
	} else {
		fmt.Fprintf(b, "\n## Pipelined ×%d\n\nEach connection sends %d calls at once and waits for all replies: latency is that of the whole batch.\n\n", depth, depth)
	}
	table(b, rows)
}

func (r *results) writeRatios(b *strings.Builder) {
	rows := [][]string{{"depth", "rlserver", "beside", "server CPU ratio", "(min to max)", "calls/s ratio", "target now", "in the end", "verdict"}}
	for _, depth := range []int{batch, 1} {
		for _, name := range []string{"acquire", "acquire-now", "ping"} {
			for _, rival := range []string{"redis/lua", "redis-aof/lua", "redis/incr", "redis/ping"} {
				ours, theirs := r.find(fmt.Sprintf("rlserver/%s/x%d", name, depth)), r.find(fmt.Sprintf("%s/x%d", rival, depth))
				if ours == nil || theirs == nil || (name == "ping") != (rival == "redis/ping") {
					continue
				}
				cpu := pair(ours, theirs, func(s sample) float64 { return float64(s.cpu) })
				speed := pair(ours, theirs, func(s sample) float64 { return s.perSecond })
				row := []string{fmt.Sprintf("×%d", depth), ours.command, r.title(theirs.server) + ": " + strings.Fields(theirs.command)[0],
					fmt.Sprintf("%.3f", median(cpu)), fmt.Sprintf("%.3f to %.3f", slices.Min(cpu), slices.Max(cpu)), fmt.Sprintf("%.2f", median(speed))}
				if rival == "redis/lua" {
					row = append(row, targetCPU[depth].columns("%.3f", median(cpu))...)
				} else {
					row = append(row, "", "", "")
				}
				rows = append(rows, row)
			}
		}
	}
	if len(rows) > 1 {
		b.WriteString("\n## Ratios\n\nrlserver's figure divided by the rival's of the same round, median of the rounds; below 1 rlserver spends less CPU, and the script on a Redis without persistence is what the targets are set against.\n\n")
		table(b, rows)
	}
}

func (r *results) writeMemory(b *strings.Builder) {
	if len(r.memory) == 0 {
		return
	}
	rows := [][]string{{"server", "RSS empty MiB", "RSS loaded MiB", "highest MiB", "bytes/key", "target now", "in the end", "verdict"}}
	for _, f := range r.memory {
		row := []string{f.server, mebibytes(f.empty), mebibytes(f.loaded), mebibytes(f.peak), fmt.Sprintf("%.1f", f.perKey())}
		if f.server == r.title("rlserver") {
			row = append(row, targetBytes.columns("%.0f", f.perKey())...)
		} else {
			row = append(row, "", "", "")
		}
		rows = append(rows, row)
	}
	fmt.Fprintf(b, "\n## Memory\n\nResident memory of a fresh server, empty and after one call to each of %d keys of 16 bytes (buckets of %d that refill by one in 30 days), divided by the keys.\n\n", r.options.memoryKeys, memoryBurst)
	table(b, rows)
}

func (r *results) writeAdmission(b *strings.Builder) {
	if len(r.admission) == 0 {
		return
	}
	rows := [][]string{{"server", "keys", "admitted exactly the burst", "admitted in all", "allowed in all"}}
	for _, a := range r.admission {
		rows = append(rows, []string{a.server, strconv.Itoa(a.keys), strconv.Itoa(a.exact), strconv.Itoa(a.admitted), strconv.Itoa(a.keys * racedBurst)})
	}
	fmt.Fprintf(b, "\n## Over-admission\n\nAll connections race for one bucket after another, %d calls for a burst of %d that refills by one in 30 days: exactly the burst must be admitted.\n\n", racedCalls, racedBurst)
	table(b, rows)
}

func (r *results) writeMethod(b *strings.Builder) {
	b.WriteString("\n## How it is measured\n\n")
	for _, k := range r.kinds {
		var quoted []string
		for _, arg := range k.args {
			if arg == "" {
				arg = `""`
			}
			quoted = append(quoted, arg)
		}
		program := "redis-server"
		if k.name == "rlserver" {
			program = "rlserver"
		}
		fmt.Fprintf(b, "* %s: `%s --port N --bind 127.0.0.1 --dir TMP %s`\n", k.title, program, strings.Join(quoted, " "))
	}
	fmt.Fprintf(b, `* The rival's script is `+"`tokenbucket.lua`"+`: a hash {t, ts}, HMGET, HSET and PEXPIRE, time given by the caller, nothing written on a denial.
* All servers run at once; a round takes every cell once, one after another, so that a disturbance of the machine meets all; a first, shorter round is thrown away.
* Keys have 16 bytes and are drawn uniformly. Each is a bucket of 20 at 10/s; each %dth is empty and refills in 30 days instead, so that both answers occur and in the same share. Before a measurement, unmeasured, every key is called once: calls/s, latency and CPU do not contain the making of keys.
* Server CPU is the process's CPU-time clock (user and system, all threads) from the first call until the server has come to rest, divided by the calls. rlserver is sent SAVE first, so that all its durability work is in its figure. Redis is set up to have no child processes. Dropping expired keys while a server waits for its turn is in nobody's figure.
* The generator is one thread on the same machine; with few cores it and the server compete, so calls/s and latency say less than CPU per call.
`, spentEvery)
}

func (r *results) title(server string) string {
	for _, k := range r.kinds {
		if k.name == server {
			return k.title
		}
	}
	return server
}

func (r *results) find(name string) *measured {
	for _, m := range r.cells {
		if m.name == name {
			return m
		}
	}
	return nil
}

func (m *measured) each(value func(sample) float64) []float64 {
	var all []float64
	for _, s := range m.samples {
		all = append(all, value(s))
	}
	return all
}

// pair divides a's value by b's, round by round.
func pair(a, b *measured, value func(sample) float64) []float64 {
	ratios := a.each(value)
	for i, v := range b.each(value) {
		ratios[i] /= v
	}
	return ratios
}

// median of at least one value; of an even number the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// columns are the two targets and whether value meets them.
func (t target) columns(format string, value float64) []string {
	verdict := "missed"
	if value <= t.end {
		verdict = "met"
	} else if value <= t.now {
		verdict = "met now"
	}
	return []string{fmt.Sprintf("≤ "+format, t.now), fmt.Sprintf("≤ "+format, t.end), verdict}
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func mebibytes(n int64) string { return fmt.Sprintf("%.1f", float64(n)/(1<<20)) }

// table writes rows as a Markdown table that is aligned in a terminal too. The first row is the header; columns whose
// cells begin with a digit are set to the right.
func table(b *strings.Builder, rows [][]string) {
	widths, right := make([]int, len(rows[0])), make([]bool, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text), 3)
			right[i] = right[i] || text != "" && text[0] >= '0' && text[0] <= '9'
		}
	}
	line := func(cell func(i int) string) {
		for i := range widths {
			b.WriteString("| " + cell(i) + " ")
		}
		b.WriteString("|\n")
	}
	for n, row := range rows {
		line(func(i int) string {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(row[i]))
			if right[i] {
				return space + row[i]
			}
			return row[i] + space
		})
		if n == 0 {
			line(func(i int) string {
				if right[i] {
					return strings.Repeat("-", widths[i]-1) + ":"
				}
				return strings.Repeat("-", widths[i])
			})
		}
	}
}
