//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
)

const (
	costEvery = 300                             // ms of made-up time between the calls on a key: twice the limit
	costFill  = 5 * limitWindow / 4 / costEvery // calls on a key until it is in its steady state
	costCalls = limitWindow / costEvery         // calls on a key in one measurement: a whole window, with all that happens in one
)

// A cost is what an algorithm takes of the server.
type cost struct {
	first, full    float64   // bytes of the slots in use by key: after one call, and in the steady state
	cpu            []float64 // server CPU in ns for one call, by round
	calls, allowed int64     // measured, in all rounds
}

// measureCosts calls each algorithm's keys in turn, pipelined. The rounds take every algorithm once, so that a
// disturbance of the machine meets all. The last cost is that of PING, which decides nothing.
func (b *bench) measureCosts(ctx context.Context) ([]cost, error) {
	s, err := b.start(ctx, b.kinds[0])
	if err != nil {
		return nil, err
	}
	defer s.stop()
	g, err := dial(s.port, b.options.connections)
	if err != nil {
		return nil, err
	}
	defer g.close()
	ordered, err := dial(s.port, 1)
	if err != nil {
		return nil, err
	}
	defer ordered.close()
	var loads []*load
	var costs []cost
	for i, a := range algorithms() {
		fmt.Fprintf(os.Stderr, "bytes a key of %s\n", a.title)
		l := &load{frame: newFrame("RL.ACQUIRE", fmt.Sprintf("cst%d:%s", i, keyHole), a.expr, nowHole), keys: b.options.keys}
		c, err := l.fill(ctx, s, ordered)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.title, err)
		}
		loads, costs = append(loads, l), append(costs, c)
	}
	loads, costs = append(loads, &load{frame: newFrame("PING"), keys: b.options.keys}), append(costs, cost{})
	for round := range b.options.rounds {
		fmt.Fprintf(os.Stderr, "CPU time, round %d of %d\n", round+1, b.options.rounds)
		for i, l := range loads {
			if err := costs[i].measure(ctx, s, g, l); err != nil {
				return nil, err
			}
		}
	}
	return costs, nil
}

// A load calls keys in turn. The time that is made up goes on by costEvery from one turn to the next.
type load struct {
	frame frame
	keys  int
	turns int // made so far
}

// run makes calls on each key. There are at least as many keys as calls in flight, so the calls on one key keep their
// order on one connection, and about their order on several.
func (l *load) run(ctx context.Context, g *generator, depth, calls int) (outcome, error) {
	next, first := -1, l.turns
	l.turns += calls
	return g.run(ctx, job{frame: l.frame, depth: depth,
		pick:  func() (int, bool) { next++; return next % l.keys, next < calls*l.keys },
		clock: func() int64 { return epoch + int64(first+next/l.keys)*costEvery },
	})
}

// fill brings new keys to their steady state. It wants a generator of one connection, so that the bytes are the same in
// every run.
func (l *load) fill(ctx context.Context, s *server, g *generator) (cost, error) {
	before, err1 := s.usedBytes()
	_, err2 := l.run(ctx, g, fullBatch, 1)
	first, err3 := s.usedBytes()
	_, err4 := l.run(ctx, g, fullBatch, costFill)
	full, err5 := s.usedBytes()
	keys := float64(l.keys)
	return cost{first: (first - before) / keys, full: (full - before) / keys}, cmp.Or(err1, err2, err3, err4, err5)
}

// measure adds a round. CPU time is taken until the server has come to rest.
func (c *cost) measure(ctx context.Context, s *server, g *generator, l *load) error {
	before, err1 := s.cpu()
	out, err2 := l.run(ctx, g, batch, costCalls)
	err3 := s.settle()
	after, err4 := s.cpu()
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return err
	}
	c.cpu = append(c.cpu, float64(after-before)/float64(out.calls))
	c.calls += out.calls
	c.allowed += out.allowed
	return nil
}

// usedBytes is the memory of the slots in use. A slot left for a larger one is in use until it has been saved: so that is
// waited for.
func (s *server) usedBytes() (float64, error) {
	if err := s.settle(); err != nil {
		return 0, err
	}
	info, err := s.ask("INFO")
	if err != nil {
		return 0, err
	}
	return infoFigure(info, "rl_keyspace_used_bytes")
}

func infoFigure(info, name string) (float64, error) {
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `:([0-9.]+)\r?$`).FindStringSubmatch(info)
	if line == nil {
		return 0, fmt.Errorf("INFO has no number %s", name)
	}
	return strconv.ParseFloat(line[1], 64)
}
