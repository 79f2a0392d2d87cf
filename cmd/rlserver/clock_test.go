package main

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// In a synctest bubble time moves only when all goroutines wait, so every figure below is exact.
func TestClockCountsSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		slept.Store(int64(time.Hour)) // before this server started: not its business
		c := newClock(func() (time.Duration, bool) { return time.Duration(slept.Load()), true })
		defer c.Stop()
		start, want := c.NowNs(), time.Duration(0)
		if got := time.Now().UnixNano(); start != got {
			t.Fatalf("starts at %d, wall time is %d", start, got)
		}
		step := func(what string, sleep, counted time.Duration) {
			slept.Add(int64(sleep))
			before := c.NowNs()
			time.Sleep(clockEvery)
			synctest.Wait() // the tick that is due now is over
			want += clockEvery + counted
			if got := time.Duration(c.NowNs() - start); got != want {
				t.Errorf("%s: %v elapsed, want %v", what, got, want)
			}
			if c.NowNs() < before {
				t.Errorf("%s: the clock ran backwards", what)
			}
		}
		step("no sleep", 0, 0)
		step("noise", 500*time.Microsecond, 0)
		step("noise that adds up", 500*time.Microsecond, time.Millisecond)
		step("a suspend", 10*time.Minute, 10*time.Minute)
		step("a reading that goes back", -time.Hour, 0)
		step("and comes again", time.Hour, 0)
		step("another suspend", time.Second, time.Second)
	})
}

func TestClockWithoutSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tells := false
		slept := time.Duration(0)
		var c *Clock
		start := time.Now().UnixNano()
		c = newClock(nil)
		time.Sleep(time.Second)
		if got := time.Duration(c.NowNs() - start); got != time.Second {
			t.Errorf("no sampler: %v elapsed, want 1s", got)
		}
		c.Stop()

		c = &Clock{start: time.Now(), sample: func() (time.Duration, bool) { return slept, tells }}
		for _, s := range []struct {
			tells      bool
			slept, sum time.Duration
		}{{false, 0, 0}, {true, time.Minute, 0}, {false, 2 * time.Minute, 0}, {true, 3 * time.Minute, 2 * time.Minute}} {
			tells, slept = s.tells, s.slept
			c.refresh()
			if got := time.Duration(c.NowNs()); got != s.sum {
				t.Errorf("%+v: %v counted", s, got)
			}
		}
	})
}

func TestClockOfThisMachine(t *testing.T) {
	c := newClock(machineSlept)
	defer c.Stop()
	last := int64(0)
	for range 100_000 {
		now := c.NowNs()
		if now < last {
			t.Fatalf("%d after %d", now, last)
		}
		last = now
	}
	if d := time.Since(time.UnixMilli(c.NowMs())); d < -time.Second || d > time.Second {
		t.Errorf("the clock is %v off the wall time", d)
	}
	if machineSlept == nil {
		return
	}
	var samples []time.Duration
	for range 1000 { // on a busy machine many are interrupted
		if slept, ok := machineSlept(); ok {
			samples = append(samples, slept)
		}
	}
	if len(samples) == 0 {
		t.Fatal("no sample succeeds")
	}
	if d := slices.Max(samples) - slices.Min(samples); d > clockNoise {
		t.Errorf("samples of a machine that is awake differ by %v", d)
	}
}

func BenchmarkClock(b *testing.B) {
	c := newClock(machineSlept)
	defer c.Stop()
	for b.Loop() {
		c.NowNs()
	}
}
