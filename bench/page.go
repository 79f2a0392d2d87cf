//go:build linux

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func (c *comparison) markdown(picture string) string {
	var b strings.Builder
	b.WriteString("# The algorithms in numbers\n\nMade by `make compare`; do not edit.\n\n")
	for _, line := range c.machine {
		fmt.Fprintf(&b, "* %s\n", line)
	}
	fmt.Fprintf(&b, "* run: %.0f s in all, load at the end %s\n", c.took.Seconds(), c.loadAtEnd)
	c.writeAdmitted(&b, picture)
	c.writeCosts(&b)
	c.writeContests(&b)
	c.writeMethod(&b)
	return b.String()
}

func (c *comparison) writeAdmitted(b *strings.Builder, picture string) {
	fmt.Fprintf(b, `
## What is admitted

The same calls on one key under the same limit, %d in %d s, decided by each algorithm. The calls carry their own time, so what is
admitted is the same in every run and on every machine.

![Calls admitted at worst within a window, by algorithm and traffic](%s)

`, limitCalls, limitWindow/1000, picture)
	for _, t := range c.traffics {
		fmt.Fprintf(b, "* **%s**: %s\n", t.name, t.what)
	}
	b.WriteString("\n")
	rows := [][]string{{"traffic", "algorithm", "limit", "calls", "admitted", fmt.Sprintf("at worst in any %d s", limitWindow/1000), "of the limit", "decided other than LOG"}}
	for i, t := range c.traffics {
		for j, a := range algorithms() {
			r := c.replayed[i][j]
			rows = append(rows, []string{t.name, a.title, "`" + a.expr + "`", strconv.Itoa(len(t.at)), strconv.Itoa(len(r.granted)),
				strconv.Itoa(r.worst), share(r.worst), fmt.Sprintf("%.1f %%", 100*float64(r.otherwise)/float64(len(t.at)))})
		}
	}
	table(b, rows)
	b.WriteString(`
"Any" is every stretch (t - window, t], wherever it begins. LOG is exact, so it is what the others are held against; a call decided
otherwise may be one too many or one too few. A bucket keeps another promise: what it holds at once, and its rate in the long run. What it can
hold and what it gains in a window are together the most that it admits in one, so with a burst as large as the limit that is twice the
limit, and with both together as large as the limit it is never more.
`)
}

// share says how often the limit fits into n.
func share(n int) string { return fmt.Sprintf("%.2f×", float64(n)/limitCalls) }

func (c *comparison) writeCosts(b *strings.Builder) {
	b.WriteString("\n## What it costs\n\n")
	rows := [][]string{{"algorithm", "limit", "bytes/key after one call", "bytes/key in the steady state", "server CPU ns/call", "(min to max)", "allowed"}}
	for i, cost := range c.costs {
		cpu := []string{fmt.Sprintf("%.0f", median(cost.cpu)), fmt.Sprintf("%.0f to %.0f", slices.Min(cost.cpu), slices.Max(cost.cpu))}
		row := append([]string{"nothing is decided", "`PING`", "-", "-"}, append(cpu, "-")...)
		if i < len(algorithms()) {
			a := algorithms()[i]
			row = append([]string{a.title, "`" + a.expr + "`", fmt.Sprintf("%.0f", cost.first), fmt.Sprintf("%.0f", cost.full)},
				append(cpu, fmt.Sprintf("%.1f %%", 100*float64(cost.allowed)/float64(cost.calls)))...)
		}
		rows = append(rows, row)
	}
	table(b, rows)
	fmt.Fprintf(b, `
%d keys of 16 bytes for each algorithm, called in turn, each once in %d ms of the calls' own time; the steady state is what %d calls lead to.
Bytes are the slots in use (`+"`rl_keyspace_used_bytes`"+` of INFO), key and all; the index and room not in use come on top. CPU is that of the server's
process for a whole call, pipelined ×%d on %d connections: reading, deciding, writing to disk and answering. It is the median of %d rounds of
%d calls. It moves with what else the machine does (the load is above): a difference smaller than (min to max) says nothing.
`, c.options.keys, costEvery, costFill+1, batch, c.options.connections, c.options.rounds, costCalls*c.options.keys)
}

func (c *comparison) writeContests(b *strings.Builder) {
	b.WriteString("\n## The race for a token\n\n")
	rows := [][]string{{"limiter", "server", "connections", "calls", "burst", "allowed in all", "admitted in all", "over-admitted", "at worst on one key"}}
	for _, contest := range c.contests {
		all, most := contest.over()
		keys := len(contest.admitted)
		rows = append(rows, []string{contest.title, contest.server, strconv.Itoa(contest.connections), strconv.Itoa(keys * contendedCalls), strconv.Itoa(contendedBurst),
			strconv.Itoa(keys * contendedBurst), strconv.Itoa(keys*contendedBurst + all), strconv.Itoa(all), strconv.Itoa(most)})
	}
	table(b, rows)
	fmt.Fprintf(b, `
A limiter that reads a bucket, computes and writes it back is right when it is alone. With others, between its GET and its SET, they read the
same tokens, and each spends them. All connections call one key after another, %d keys, each a bucket of %d that refills by one in 30 days, in
a closed loop and in real time. How much too much gets through differs from run to run; a script on Redis, and RL.ACQUIRE, admit the burst exactly.
`, contendedKeys, contendedBurst)
}

func (c *comparison) writeMethod(b *strings.Builder) {
	b.WriteString(`
## How it is measured

* All figures are of this one run, of real servers over their sockets: rlserver with ` + "`--caller-clock trusted --durability interval`" + `, Redis without persistence.
* The run fails unless at a window's edge aligned FIXED admits twice the limit, FIXED from the first call twice the limit less the call that opened the window, and LOG the limit;
  unless LOG and the second bucket never exceed the limit, and the others never twice the limit; and unless the race ends as above: exactly the
  burst by the script and by RL.ACQUIRE, more than the burst by GET and SET.
`)
	fmt.Fprintf(b, "* The random traffic is made from a fixed seed, %d.\n", poissonSeed)
}
