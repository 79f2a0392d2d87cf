//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// sendsAtOnce is how many calls are sent before replies are looked for, when the generator is late.
const sendsAtOnce = 16

// A schedule is what an open loop does: calls go out at random times that were drawn beforehand, whether earlier ones were
// answered or not, as callers who know nothing of one another make them.
type schedule struct {
	frame frame
	pick  func() (key int)
	rate  float64       // calls a second, on average
	limit time.Duration // no call is scheduled after it
	seed  uint64        // of the times
}

// A plan is the times of a schedule, in ns from its start: gaps are exponentially distributed.
type plan struct {
	random  *rand.Rand
	meanGap float64 // ns
	next    float64
}

func newPlan(s schedule) *plan {
	p := &plan{random: rand.New(rand.NewPCG(s.seed, 2)), meanGap: 1e9 / s.rate}
	p.step()
	return p
}

func (p *plan) step() { p.next += p.random.ExpFloat64() * p.meanGap }

// pacing is a schedule under way.
type pacing struct {
	schedule
	plan    *plan
	start   time.Time
	due     [][]int64 // by connection: when the calls in flight were to be sent, ns from the start
	calls   int
	flying  int
	latency *hdrhistogram.Histogram
	heard   time.Time // when the last reply came
}

// pace runs a schedule over all connections in turn. Latency counts from the time at which a call was to be sent until its
// reply was read: a server that stalls holds up the calls behind, and they count as late as they are. Whatever delays the
// generator counts as well. An error reply ends it with that reply's text.
func (g *generator) pace(ctx context.Context, s schedule) (outcome, error) {
	// The kernel wakes this thread 50 us late unless it is told how late it may be.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return outcome{}, fmt.Errorf("timer slack: %w", err)
	}
	p := &pacing{schedule: s, plan: newPlan(s), start: time.Now(), due: make([][]int64, len(g.conns)), latency: newLatency()}
	p.heard = p.start
	for _, c := range g.conns {
		c.replies, c.have = replies{}, 0
	}
	events := make([]unix.EpollEvent, len(g.conns))
	for p.flying > 0 || p.plan.next < float64(s.limit) {
		if err := p.send(g); err != nil {
			return outcome{}, err
		}
		n, err := p.wait(g.epoll, events)
		if err != nil {
			return outcome{}, err
		}
		if ctx.Err() != nil {
			return outcome{}, context.Cause(ctx)
		}
		for _, event := range events[:n] {
			if err := p.receive(g.conns[event.Fd], int(event.Fd)); err != nil {
				return outcome{}, err
			}
		}
		if p.flying > 0 && n == 0 && time.Since(p.heard) > stall {
			return outcome{}, fmt.Errorf("the server has not answered for %s", stall)
		}
	}
	out := outcome{calls: int64(p.calls), elapsed: time.Since(p.start), latency: p.latency}
	for _, c := range g.conns {
		out.allowed += c.replies.allowed
		out.denied += c.replies.denied
	}
	return out, nil
}

// send sends the calls that are due, but not more than sendsAtOnce.
func (p *pacing) send(g *generator) error {
	now := time.Now()
	for n := 0; n < sendsAtOnce && p.plan.next < float64(p.limit) && p.plan.next <= float64(now.Sub(p.start)); n++ {
		i := p.calls % len(g.conns)
		c := g.conns[i]
		c.out = p.frame.appendTo(c.out[:0], p.pick(), now.UnixMilli())
		for rest := c.out; len(rest) > 0; {
			n, err := unix.Write(c.fd, rest)
			if err != nil && err != unix.EINTR {
				return fmt.Errorf("send: %w", err)
			}
			rest = rest[max(n, 0):]
		}
		if p.flying == 0 {
			p.heard = now
		}
		p.due[i] = append(p.due[i], int64(p.plan.next))
		p.calls++
		p.flying++
		p.plan.step()
	}
	return nil
}

// wait returns when there are replies, or when the next call is due.
func (p *pacing) wait(epoll int, events []unix.EpollEvent) (int, error) {
	left := pollEvery
	if p.plan.next < float64(p.limit) {
		left = min(left, time.Duration(p.plan.next)-time.Since(p.start))
	}
	if left > 0 {
		until := unix.NsecToTimespec(int64(left))
		if _, err := unix.Ppoll([]unix.PollFd{{Fd: int32(epoll), Events: unix.POLLIN}}, &until, nil); err != nil && err != unix.EINTR {
			return 0, fmt.Errorf("poll: %w", err)
		}
	}
	n, err := unix.EpollWait(epoll, events, 0)
	if err != nil && err != unix.EINTR {
		return 0, fmt.Errorf("epoll: %w", err)
	}
	return max(n, 0), nil
}

// receive reads what has come on connection i and takes the time of each complete reply.
func (p *pacing) receive(c *conn, i int) error {
	before := c.replies.total
	if err := c.read(); err != nil {
		return err
	}
	p.heard = time.Now()
	now := int64(p.heard.Sub(p.start))
	for range c.replies.total - before {
		if len(p.due[i]) == 0 {
			return fmt.Errorf("the server answered more than it was asked")
		}
		if err := p.latency.RecordValue(min(now-p.due[i][0], int64(latencyMax))); err != nil {
			return fmt.Errorf("latency: %w", err)
		}
		p.due[i] = p.due[i][1:]
		p.flying--
	}
	return nil
}
