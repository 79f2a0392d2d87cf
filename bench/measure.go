//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	memoryConnections = 8   // few, as their buffers are not the keys' memory
	memoryBurst       = 100 // of the buckets loaded, in tokens

	racedKeys  = 20   // keys of the admission check
	racedCalls = 5000 // calls to each of them, by all connections at once
	racedBurst = 1000 // of which exactly so many may be admitted
)

// A bench is one run of the program.
type bench struct {
	options options
	dir     string
	kinds   []kind // those needed
}

// needs says whether -only leaves anything to measure on a server.
func (b *bench) needs(k kind) bool {
	for _, c := range cells([]kind{k}) {
		if b.options.only.MatchString(c.name) {
			return true
		}
	}
	if k.name == "rlserver" {
		for _, section := range []string{"size/rlserver", "durability/always", "durability/interval", "durability/reserve", "replication/cpu", "replication/lag"} {
			if b.options.only.MatchString(section) {
				return true
			}
		}
	}
	return b.options.only.MatchString("memory/"+k.name) || b.options.only.MatchString("admission/"+k.name)
}

// A sample is one measurement of a cell.
type sample struct {
	perSecond    float64       // calls
	cpu          time.Duration // of the server for one call
	generatorCPU time.Duration // for one call
	denied       float64       // share of decisions, 0 to 1
}

// A measured cell has one sample a round, in the order of the rounds, so that samples of two cells pair up.
type measured struct {
	cell
	samples []sample
	latency *hdrhistogram.Histogram // of all rounds
}

// start starts a server and makes it know the script if it runs scripts.
func (b *bench) start(ctx context.Context, k kind) (*server, error) {
	s, err := k.start(ctx, b.dir)
	if err != nil || k.name == "rlserver" {
		return s, err
	}
	if _, err := s.ask("SCRIPT", "LOAD", tokenBucket); err != nil {
		s.stop()
		return nil, fmt.Errorf("%s: SCRIPT LOAD: %w", k.name, err)
	}
	return s, nil
}

// measureCells takes every cell once a round, after a shorter round that is thrown away.
func (b *bench) measureCells(ctx context.Context) ([]*measured, error) {
	var chosen []*measured
	for _, c := range cells(b.kinds) {
		if b.options.only.MatchString(c.name) {
			chosen = append(chosen, &measured{cell: c, latency: newLatency()})
		}
	}
	running := map[string]*server{}
	for _, k := range b.kinds {
		if !slices.ContainsFunc(chosen, func(m *measured) bool { return m.server == k.name }) {
			continue
		}
		s, err := b.start(ctx, k)
		if err != nil {
			return nil, err
		}
		defer s.stop()
		running[k.name] = s
	}
	if len(chosen) > 0 {
		err := b.byTurns(ctx, "", chosen, func(i int) *server { return running[chosen[i].server] })
		if err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// byTurns samples all in each round, number i on the server that on(i) is. Round 0 warms up and does not count. what is said of the
// rounds while they go on.
func (b *bench) byTurns(ctx context.Context, what string, all []*measured, on func(i int) *server) error {
	for round := 0; round <= b.options.rounds; round++ {
		fmt.Fprintf(os.Stderr, "%sround %d of %d\n", what, round, b.options.rounds)
		for i, m := range all {
			s, latency, err := b.sample(ctx, on(i), m.cell, round)
			if err != nil {
				return fmt.Errorf("%s: %w", cmp.Or(m.name, m.server), err)
			}
			if round > 0 {
				m.samples = append(m.samples, s)
				m.latency.Merge(latency)
			}
		}
	}
	return nil
}

// sample measures a cell once. Before, unmeasured, every key is called once, so that neither side pays for making keys.
// CPU time is taken until the server has come to rest.
func (b *bench) sample(ctx context.Context, s *server, c cell, round int) (sample, *hdrhistogram.Histogram, error) {
	g, err := dial(s.port, b.options.connections)
	if err != nil {
		return sample{}, nil, err
	}
	defer g.close()
	work := job{frame: c.frame, spent: c.spent, spentEvery: spentEvery}
	if c.frame.key > 0 {
		first := work
		first.depth, first.pick = batch, inOrder(b.options.keys, b.options.keys)
		if _, err := g.run(ctx, first); err != nil {
			return sample{}, nil, err
		}
	}
	if err := s.settle(); err != nil {
		return sample{}, nil, err
	}
	random := rand.New(rand.NewPCG(uint64(round), 1))
	work.depth, work.limit = c.depth, time.Duration(b.options.seconds*float64(time.Second))
	if round == 0 {
		work.limit /= 3
	}
	work.pick = func() (int, bool) { return random.IntN(b.options.keys), true }

	self := &server{pid: os.Getpid()}
	before, err1 := s.cpu()
	selfBefore, err2 := self.cpu()
	out, err3 := g.run(ctx, work)
	selfAfter, err4 := self.cpu()
	err5 := s.settle()
	after, err6 := s.cpu()
	if err := cmp.Or(err1, err2, err3, err4, err5, err6); err != nil {
		return sample{}, nil, err
	}
	made := sample{
		perSecond:    float64(out.calls) / out.elapsed.Seconds(),
		cpu:          (after - before) / time.Duration(out.calls),
		generatorCPU: (selfAfter - selfBefore) / time.Duration(out.calls),
	}
	if out.allowed+out.denied > 0 {
		made.denied = float64(out.denied) / float64(out.allowed+out.denied)
	}
	return made, out.latency, nil
}

// inOrder picks the keys 0 to keys-1 over and over, calls times in all.
func inOrder(keys, calls int) func() (int, bool) {
	next := -1
	return func() (int, bool) {
		next++
		return next % keys, next < calls
	}
}

// A footprint is what a fresh server's resident memory grew by when it was loaded, in bytes.
type footprint struct {
	server              string
	empty, loaded, peak int64
	keys                int
}

func (f footprint) perKey() float64 { return float64(f.loaded-f.empty) / float64(f.keys) }

// measureMemory loads fresh servers with buckets that are not full and will not be for days.
func (b *bench) measureMemory(ctx context.Context) ([]footprint, error) {
	var all []footprint
	for _, k := range b.kinds {
		if k.name == "redis-aof" || !b.options.only.MatchString("memory/"+k.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "memory of %s\n", k.name)
		f, err := b.load(ctx, k)
		if err != nil {
			return nil, fmt.Errorf("memory of %s: %w", k.name, err)
		}
		all = append(all, f)
	}
	return all, nil
}

func (b *bench) load(ctx context.Context, k kind) (footprint, error) {
	f := footprint{}
	s, err := b.start(ctx, k)
	if err != nil {
		return f, err
	}
	defer s.stop()
	f, err = b.fill(ctx, s, b.options.memoryKeys)
	f.server = k.title
	return f, err
}

// fill calls each key of a fresh server once. The buckets are not full then and will not be for days.
func (b *bench) fill(ctx context.Context, s *server, keys int) (footprint, error) {
	f := footprint{keys: keys}
	rest := settleMax
	if keys > fewKeys {
		rest = restMost
	}
	if err := s.settle(); err != nil {
		return f, err
	}
	var err error
	if f.empty, _, err = s.memory(); err != nil {
		return f, err
	}
	g, err := dial(s.port, memoryConnections)
	if err != nil {
		return f, err
	}
	out, err := g.run(ctx, job{frame: slowBucket(s.kind, memoryBurst), depth: batch, pick: inOrder(keys, keys)})
	g.close()
	if err != nil {
		return f, err
	}
	if out.allowed != int64(keys) {
		return f, fmt.Errorf("%d of %d first calls were denied", out.denied, keys)
	}
	if err := s.settleWithin(rest); err != nil {
		return f, err
	}
	f.loaded, f.peak, err = s.memory()
	return f, err
}

// An admission says on how many keys exactly the burst was admitted when all connections raced for it.
type admission struct {
	server                string
	keys, exact, admitted int
}

// checkAdmission proves the measured servers right: a faster limiter that admits too much is none.
func (b *bench) checkAdmission(ctx context.Context) ([]admission, error) {
	var all []admission
	for _, k := range b.kinds {
		if k.name == "redis-aof" || !b.options.only.MatchString("admission/"+k.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "admission by %s\n", k.name)
		a, err := b.race(ctx, k)
		if err != nil {
			return nil, fmt.Errorf("admission by %s: %w", k.name, err)
		}
		all = append(all, a)
	}
	return all, nil
}

func (b *bench) race(ctx context.Context, k kind) (admission, error) {
	a := admission{server: k.title, keys: racedKeys}
	s, err := b.start(ctx, k)
	if err != nil {
		return a, err
	}
	defer s.stop()
	g, err := dial(s.port, b.options.connections)
	if err != nil {
		return a, err
	}
	defer g.close()
	for key := range racedKeys {
		calls := inOrder(1, racedCalls)
		depth := []int{1, batch}[key%2]
		out, err := g.run(ctx, job{frame: slowBucket(k, racedBurst), depth: depth, pick: func() (int, bool) {
			_, more := calls()
			return key, more
		}})
		if err != nil {
			return a, err
		}
		a.admitted += int(out.allowed)
		if out.allowed == racedBurst {
			a.exact++
		}
	}
	return a, nil
}
