package main

import (
	"sync/atomic"
	"time"
)

const (
	// clockEvery is how often the time a suspended machine slept is looked up. For at most that long after a resume
	// the clock still reads as if the machine had not slept.
	clockEvery = 100 * time.Millisecond
	// clockNoise is how much more sleep has to be seen to be believed. Two clocks cannot be read at one instant;
	// no machine sleeps for so short a time.
	clockNoise = time.Millisecond
)

// A sampler tells how long the machine has slept since some fixed moment, or false if it cannot tell this time.
type sampler func() (time.Duration, bool)

// A Clock is the server's clock: the wall time at its start plus the time elapsed since, that of a suspended machine
// included (CLOCK_BOOTTIME, on Linux). It never runs backwards, whatever is done to the machine's wall clock. It is
// safe for concurrent use; a reading takes as long as time.Since.
type Clock struct {
	start  time.Time // with a monotonic reading
	wall   int64     // ns since 1970, at start
	slept  atomic.Int64
	sample sampler
	known  bool          // whether sample has ever told
	first  time.Duration // what it told first
	stop   chan struct{}
	done   chan struct{}
}

// newClock starts a clock that looks for sleep by sample every clockEvery; nil: time asleep does not count. Stop it
// after use.
func newClock(sample sampler) *Clock {
	now := time.Now()
	c := &Clock{start: now, wall: now.UnixNano(), sample: sample, stop: make(chan struct{}), done: make(chan struct{})}
	if sample == nil {
		close(c.done)
		return c
	}
	c.refresh()
	go c.watch()
	return c
}

// NowNs is the time in ns since 1970.
func (c *Clock) NowNs() int64 { return c.wall + int64(time.Since(c.start)) + c.slept.Load() }

// NowMs is the time in ms since 1970.
func (c *Clock) NowMs() int64 { return c.NowNs() / int64(time.Millisecond) }

// Stop ends the goroutine that looks for sleep and returns when it is gone. The clock goes on, without sleep to come.
// It is called once.
func (c *Clock) Stop() {
	close(c.stop)
	<-c.done
}

func (c *Clock) watch() {
	defer close(c.done)
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.refresh()
		case <-c.stop:
			return
		}
	}
}

// refresh adds the sleep seen since the last one. One goroutine calls it at a time. What is added is never taken back:
// that keeps the clock from running backwards.
func (c *Clock) refresh() {
	total, ok := c.sample()
	switch {
	case !ok:
	case !c.known:
		c.known, c.first = true, total
	case total-c.first >= time.Duration(c.slept.Load())+clockNoise:
		c.slept.Store(int64(total - c.first))
	}
}
