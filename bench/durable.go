//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// What durability costs: a reply that waits for the disk, beside Redis that syncs its AOF before each; and a flush each
// second that nobody waits for, beside a server that writes nothing.

const (
	alwaysConnections = 64
	alwaysDepth       = 16

	dirtyPerSecond = 50_000               // keys changed
	dirtyEvery     = 2 * time.Millisecond // from one batch of those that nobody measures to the next
)

// closeRounds is how many rounds there are of what is measured in pairs and comes out near its target, for one of the others: with 5 on
// 2 cores the median of such ratios differed by a tenth from run to run, whoever else the machine served.
const closeRounds = 3

// What it must reach.
var (
	targetAlways = map[int]float64{1: 1.5, alwaysDepth: 3} // calls/s, of Redis's, by depth
	targetHidden = 1.2                                     // p99, of that without flushes
)

// A durable is what was measured of durability.
type durable struct {
	always []*measured // ours and theirs in turn, by depth
	flush  *flushed
	hot    []*measured // all modes in turn, by depth
}

// A flushed is a server that flushes each second and one that does not.
type flushed struct {
	keys     int
	capacity float64    // calls a second in a closed loop, of the one that flushes
	rate     float64    // of the open loop
	beside   float64    // more keys changed a second, by batches
	last     float64    // entries in the last round of the one that flushes, as it tells
	servers  [2]flusher // shutdown, interval
}

// A flusher is one of the two.
type flusher struct {
	durability string
	rounds     []float64 // p99 of each, ms
	latency    *hdrhistogram.Histogram
}

// in returns a server with another durability.
func (k kind) in(title, durability string) kind {
	k.title, k.args = title, slices.Clone(k.args)
	k.args[slices.Index(k.args, "--durability")+1] = durability
	return k
}

// alwaysKinds are set against one another where replies wait for the disk.
func alwaysKinds(o options) []kind {
	all := kinds(o)
	ours, theirs := all[0].in("rlserver, always", "always"), all[2]
	theirs.name, theirs.title, theirs.args = "redis", "Redis, AOF always", slices.Clone(theirs.args)
	theirs.args[slices.Index(theirs.args, "--appendfsync")+1] = "always"
	return []kind{ours, theirs}
}

func (b *bench) measureDurability(ctx context.Context) (*durable, error) {
	d := &durable{}
	var err error
	if b.options.only.MatchString("durability/always") {
		if d.always, err = b.measureAlways(ctx); err != nil {
			return nil, fmt.Errorf("durability always: %w", err)
		}
	}
	if b.options.only.MatchString("durability/interval") {
		if d.flush, err = b.measureFlushes(ctx); err != nil {
			return nil, fmt.Errorf("durability interval: %w", err)
		}
	}
	if b.options.only.MatchString("durability/reserve") {
		if d.hot, err = b.measureHot(ctx); err != nil {
			return nil, fmt.Errorf("durability reserve: %w", err)
		}
	}
	return d, nil
}

// startFound starts a server whose program was looked for already, perhaps for another kind.
func (b *bench) startFound(ctx context.Context, k kind) (*server, error) {
	if i := slices.IndexFunc(b.kinds, func(known kind) bool { return known.name == k.name }); i >= 0 {
		k.program = b.kinds[i].program
	} else if err := b.find(ctx, &k); err != nil {
		return nil, err
	}
	return b.start(ctx, k)
}

// measureAlways takes both servers at both depths in each round.
func (b *bench) measureAlways(ctx context.Context) (all []*measured, err error) {
	o := *b
	o.options.connections = alwaysConnections
	o.options.rounds *= closeRounds
	var servers []*server
	for _, k := range alwaysKinds(b.options) {
		s, err := b.startFound(ctx, k)
		if err != nil {
			return nil, err
		}
		defer s.stop()
		servers = append(servers, s)
	}
	for _, depth := range []int{alwaysDepth, 1} {
		for _, s := range servers {
			c := commands(s.name)[0]
			spent := newFrame(c.spent...)
			all = append(all, &measured{latency: newLatency(), cell: cell{server: s.title, command: c.title, depth: depth, frame: newFrame(c.args...), spent: &spent}})
		}
	}
	return all, o.byTurns(ctx, "durability always, ", all, func(i int) *server { return servers[i%len(servers)] })
}

// measureFlushes sets the slowest answers of a server that flushes each second beside those of one that does not, by turns.
// The other one is stopped meanwhile.
func (b *bench) measureFlushes(ctx context.Context) (*flushed, error) {
	f := &flushed{keys: b.options.sizeKeys}
	var servers []*server
	for i, mode := range []string{"shutdown", "interval"} {
		k := kinds(b.options)[0].in("rlserver, "+mode, mode)
		s, err := b.startFound(ctx, k)
		if err != nil {
			return nil, err
		}
		defer s.stop()
		defer unix.Kill(s.pid, unix.SIGCONT)
		if _, err := b.fill(ctx, s, f.keys); err != nil {
			return nil, err
		}
		f.servers[i] = flusher{durability: mode, latency: newLatency()}
		servers = append(servers, s)
		if err := alone(s, servers); err != nil {
			return nil, err
		}
	}
	var err error
	if f.capacity, err = b.capacity(ctx, servers[1], f.keys); err != nil {
		return nil, err
	}
	f.rate = openShare * f.capacity
	f.beside = max(0, dirtyPerSecond-f.rate)
	rounds := b.options.sizeRounds * closeRounds
	for round := range rounds {
		fmt.Fprintf(os.Stderr, "durability interval, round %d of %d\n", round+1, rounds)
		for i, s := range servers {
			if err := alone(s, servers); err != nil {
				return nil, err
			}
			if err := b.paceDirty(ctx, s, f, &f.servers[i], uint64(round)); err != nil {
				return nil, err
			}
		}
		info, err := servers[1].ask("INFO", "persistence")
		if err != nil {
			return nil, err
		}
		if f.last, err = infoFigure(info, "rl_last_round_entries"); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// paceDirty adds a round of the open loop, with more keys changed beside it.
func (b *bench) paceDirty(ctx context.Context, s *server, f *flushed, to *flusher, round uint64) error {
	stop := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- s.dirty(f.keys, f.beside, round, stop) }()
	p := paced{keys: f.keys, latency: newLatency()}
	err := b.pace(ctx, s, &p, f.rate, round)
	close(stop)
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	to.rounds = append(to.rounds, milliseconds(p.latency.ValueAtPercentile(99)))
	to.latency.Merge(p.latency)
	return nil
}

// dirty changes so many random keys a second, in batches on a connection of its own, until it is stopped.
func (s *server) dirty(keys int, perSecond float64, seed uint64, stop <-chan struct{}) error {
	c, err := s.connect()
	if err != nil {
		return err
	}
	defer c.close()
	pick, call := random(keys, 100+seed), slowBucket(s.kind, memoryBurst)
	var out []byte
	sent, start := 0.0, time.Now()
	for {
		select {
		case <-stop:
			return nil
		case <-time.After(dirtyEvery):
		}
		out = out[:0]
		n := 0
		for due := perSecond * time.Since(start).Seconds(); sent < due && n < fullBatch; sent++ {
			key, _ := pick()
			out = call.appendTo(out, key, 0)
			n++
		}
		if n == 0 {
			continue
		}
		if err := c.send(out); err != nil {
			return err
		}
		for range n {
			if _, err := c.allowed(); err != nil {
				return err
			}
		}
	}
}

// write writes the section.
func (d *durable) write(b *strings.Builder) {
	if d == nil || d.always == nil && d.flush == nil && d.hot == nil {
		return
	}
	b.WriteString("\n## Durability\n")
	if d.always != nil {
		d.writeAlways(b)
	}
	if d.flush != nil {
		d.flush.write(b)
	}
	if d.hot != nil {
		writeHot(b, d.hot)
	}
}

func (d *durable) writeAlways(b *strings.Builder) {
	rows := [][]string{{"depth", "server", "calls/s", "p50 ms", "p99 ms", "p99.9 ms", "server CPU µs/call", "generator CPU µs/call", "calls/s by Redis's", "(min to max)", "target", "verdict"}}
	for i, m := range d.always {
		row := []string{fmt.Sprintf("×%d", m.depth), m.server, fmt.Sprintf("%.0f", median(m.each(func(s sample) float64 { return s.perSecond })))}
		for _, q := range []float64{50, 99, 99.9} {
			row = append(row, fmt.Sprintf("%.3f", milliseconds(m.latency.ValueAtPercentile(q))))
		}
		row = append(row, fmt.Sprintf("%.2f", median(m.each(func(s sample) float64 { return microseconds(s.cpu) }))),
			fmt.Sprintf("%.2f", median(m.each(func(s sample) float64 { return microseconds(s.generatorCPU) }))))
		if i%2 == 0 {
			ratio, target := pair(m, d.always[i+1], func(s sample) float64 { return s.perSecond }), targetAlways[m.depth]
			row = append(row, fmt.Sprintf("%.2f", median(ratio)), fmt.Sprintf("%.2f to %.2f", slices.Min(ratio), slices.Max(ratio)),
				fmt.Sprintf("≥ %.1f", target), verdict(median(ratio) >= target))
		} else {
			row = append(row, "", "", "", "")
		}
		rows = append(rows, row)
	}
	fmt.Fprintf(b, "\nEvery reply to a call that was allowed waits until what it changed is synced: `durability always`, beside `appendfsync always` with the script. %d connections, the rest as above.\n\n", alwaysConnections)
	table(b, rows)
}

func (f *flushed) write(b *strings.Builder) {
	rows := [][]string{{"durability", "p50 ms", "p99 ms", "of each round", "p99.9 ms", "longest ms"}}
	for _, s := range f.servers {
		var rounds []string
		for _, ms := range s.rounds {
			rounds = append(rounds, fmt.Sprintf("%.2f", ms))
		}
		rows = append(rows, []string{s.durability, fmt.Sprintf("%.3f", milliseconds(s.latency.ValueAtPercentile(50))), fmt.Sprintf("%.3f", milliseconds(s.latency.ValueAtPercentile(99))),
			strings.Join(rounds, " "), fmt.Sprintf("%.3f", milliseconds(s.latency.ValueAtPercentile(99.9))), fmt.Sprintf("%.1f", milliseconds(s.latency.Max()))})
	}
	fmt.Fprintf(b, "\nA flush each second beside none: RL.ACQUIRE in an open loop at %.0f calls/s, %.0f %% of the capacity, on %d keys at random; %.0f more are changed each second by batches on another connection. "+
		"The last round had %.0f entries.\n\n", f.rate, 100*openShare, f.keys, f.beside, f.last)
	table(b, rows)
	ratios := f.ratios()
	fmt.Fprintf(b, "\np99 with flushes is %.2f of that without in the same round (median of the rounds, %.2f to %.2f; target ≤ %.1f: %s).\n",
		median(ratios), slices.Min(ratios), slices.Max(ratios), targetHidden, verdict(median(ratios) <= targetHidden))
}

// ratios are p99 with flushes by that without, round by round.
func (f *flushed) ratios() (all []float64) {
	for i, without := range f.servers[0].rounds {
		all = append(all, f.servers[1].rounds[i]/without)
	}
	return all
}
