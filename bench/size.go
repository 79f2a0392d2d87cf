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
	"golang.org/x/sys/unix"
)

// What a server of many keys costs: how soon it serves again after a start, its memory, and how late its slowest answers
// are, beside those of a server of few keys.

const (
	bigKeys   = 10_000_000
	fewKeys   = 100_000
	loadUp    = 2 * time.Minute  // longest wait for a start on many keys
	restMost  = 20 * time.Second // longest wait for a large server to come to rest
	dirtyFor  = 3 * time.Second  // calls at full speed before a server is killed
	thawFor   = time.Second      // from when a server goes on until it is measured
	openShare = 0.5              // of the capacity, at which the open loop sends
)

// A startup is a start on what an earlier process left.
type startup struct {
	after          string
	keys           int
	took, cpu      time.Duration // until it served
	resident, peak int64         // bytes, when it had come to rest
}

// A sized is a server of many keys.
type sized struct {
	keys     int
	filled   footprint // by calls
	startups []startup
	rate     float64   // of the open loop, calls a second
	capacity []float64 // in a closed loop, calls a second: few keys, many keys
	few      paced
	many     paced
}

// A paced is what an open loop measured on a server in all rounds.
type paced struct {
	keys    int
	rounds  []float64 // p99.9 of each, ms
	latency *hdrhistogram.Histogram
	cpu     time.Duration // of the server, for all calls
}

func (b *bench) measureSize(ctx context.Context) (*sized, error) {
	k := b.kinds[0]
	if k.name != "rlserver" || !b.options.only.MatchString("size/rlserver") {
		return nil, nil
	}
	z := &sized{keys: b.options.sizeKeys}
	home, err := os.MkdirTemp(b.dir, "size-")
	if err != nil {
		return nil, err
	}
	if err := b.fillAndKill(ctx, k, home, z); err != nil {
		return nil, err
	}
	for _, after := range []string{"kill -9 under load", "a clean stop"} {
		fmt.Fprintf(os.Stderr, "start on %d keys after %s\n", z.keys, after)
		s, err := z.startAfter(ctx, after, k, home)
		if err != nil {
			return nil, err
		}
		if len(z.startups) < 2 {
			s.stop()
			continue
		}
		defer s.stop()
		if err := b.measureTails(ctx, k, s, z); err != nil {
			return nil, err
		}
	}
	return z, nil
}

// fillAndKill calls each key of a fresh server once, and after more calls, that were not saved, kills it.
func (b *bench) fillAndKill(ctx context.Context, k kind, home string, z *sized) error {
	fmt.Fprintf(os.Stderr, "fill a server with %d keys\n", z.keys)
	s, err := k.startIn(ctx, home, readyWithin)
	if err != nil {
		return err
	}
	defer s.stop()
	if z.filled, err = b.fill(ctx, s, z.keys); err != nil {
		return err
	}
	g, err := dial(s.port, b.options.connections)
	if err != nil {
		return err
	}
	defer g.close()
	if _, err := g.run(ctx, job{frame: slowBucket(k, memoryBurst), depth: batch, pick: random(z.keys, 3), limit: dirtyFor}); err != nil {
		return err
	}
	s.kill()
	return nil
}

// random picks keys at random, without end.
func random(keys int, seed uint64) func() (int, bool) {
	r := rand.New(rand.NewPCG(seed, 1))
	return func() (int, bool) { return r.IntN(keys), true }
}

// startAfter measures a start. It runs from before the process exists until it answers PING with PONG.
func (z *sized) startAfter(ctx context.Context, after string, k kind, home string) (*server, error) {
	s, err := k.startIn(ctx, home, loadUp)
	if err != nil {
		return nil, err
	}
	up := startup{after: after, took: time.Since(s.began)}
	up.cpu, err = s.cpu()
	keys, err1 := s.number("DBSIZE")
	err2 := s.settleWithin(restMost)
	resident, peak, err3 := s.memory()
	if err := cmp.Or(err, err1, err2, err3); err != nil {
		s.stop()
		return nil, err
	}
	up.keys, up.resident, up.peak = int(keys), resident, peak
	z.startups = append(z.startups, up)
	if up.keys != z.keys {
		s.stop()
		return nil, fmt.Errorf("after %s %d keys are there of %d", after, up.keys, z.keys)
	}
	return s, nil
}

// number asks for an integer.
func (s *server) number(args ...string) (int64, error) {
	c, err := s.connect()
	if err != nil {
		return 0, err
	}
	defer c.close()
	answer, err := c.ask(args...)
	if err != nil {
		return 0, err
	}
	n, ok := answer.(int64)
	if !ok {
		return 0, fmt.Errorf("not a number: %v", answer)
	}
	return n, nil
}

// measureTails sets the slowest answers of a server of many keys beside those of one of few, by turns. While one is
// measured the other is stopped, so that what it does in the background disturbs nobody.
func (b *bench) measureTails(ctx context.Context, k kind, many *server, z *sized) error {
	few, err := b.start(ctx, k)
	if err != nil {
		return err
	}
	defer few.stop()
	if _, err := b.fill(ctx, few, fewKeys); err != nil {
		return err
	}
	servers := []*server{few, many}
	measured := []*paced{&z.few, &z.many}
	z.few, z.many = paced{keys: fewKeys, latency: newLatency()}, paced{keys: z.keys, latency: newLatency()}
	defer func() { unix.Kill(few.pid, unix.SIGCONT); unix.Kill(many.pid, unix.SIGCONT) }()
	for i, s := range servers {
		fmt.Fprintf(os.Stderr, "capacity with %d keys\n", measured[i].keys)
		if err := alone(s, servers); err != nil {
			return err
		}
		capacity, err := b.capacity(ctx, s, measured[i].keys)
		if err != nil {
			return err
		}
		z.capacity = append(z.capacity, capacity)
		if err := s.settleWithin(restMost); err != nil {
			return err
		}
	}
	z.rate = openShare * slices.Min(z.capacity)
	for round := range b.options.sizeRounds {
		fmt.Fprintf(os.Stderr, "open loop at %.0f calls/s, round %d of %d\n", z.rate, round+1, b.options.sizeRounds)
		for i, s := range servers {
			if err := alone(s, servers); err != nil {
				return err
			}
			if err := b.pace(ctx, s, measured[i], z.rate, uint64(round)); err != nil {
				return err
			}
		}
	}
	return nil
}

// alone lets one server run and stops the others.
func alone(s *server, all []*server) error {
	for _, other := range all {
		if other != s {
			if err := unix.Kill(other.pid, unix.SIGSTOP); err != nil {
				return err
			}
		}
	}
	if err := unix.Kill(s.pid, unix.SIGCONT); err != nil {
		return err
	}
	time.Sleep(thawFor)
	return nil
}

// capacity is how many calls a second a server answers in a closed loop, one at a time on each connection.
func (b *bench) capacity(ctx context.Context, s *server, keys int) (float64, error) {
	g, err := dial(s.port, b.options.connections)
	if err != nil {
		return 0, err
	}
	defer g.close()
	limit := time.Duration(b.options.sizeSeconds * float64(time.Second))
	out, err := g.run(ctx, job{frame: slowBucket(s.kind, memoryBurst), depth: 1, pick: random(keys, 4), limit: limit})
	return float64(out.calls) / out.elapsed.Seconds(), err
}

// pace adds a round of the open loop.
func (b *bench) pace(ctx context.Context, s *server, p *paced, rate float64, round uint64) error {
	g, err := dial(s.port, b.options.connections)
	if err != nil {
		return err
	}
	defer g.close()
	pick := random(p.keys, 5+round)
	before, err1 := s.cpu()
	out, err2 := g.pace(ctx, schedule{
		frame: slowBucket(s.kind, memoryBurst), rate: rate, seed: round,
		limit: time.Duration(b.options.sizeSeconds * float64(time.Second)),
		pick:  func() int { key, _ := pick(); return key },
	})
	after, err3 := s.cpu()
	if err := cmp.Or(err1, err2, err3); err != nil {
		return err
	}
	p.cpu += after - before
	p.rounds = append(p.rounds, milliseconds(out.latency.ValueAtPercentile(99.9)))
	p.latency.Merge(out.latency)
	return nil
}

func milliseconds(ns int64) float64 { return time.Duration(ns).Seconds() * 1000 }

// million is CPU seconds for a million keys.
func (up startup) million() float64 { return up.cpu.Seconds() * 1e6 / float64(up.keys) }

func (up startup) perSecond() float64 { return float64(up.keys) / up.took.Seconds() }
