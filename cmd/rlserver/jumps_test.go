package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// spent are calls that spend a limit of 5 a minute whole, each by five, and how
// long it may take at most, in ms, until one more passes.
var spent = map[string]struct {
	call string
	most int64
}{
	"bucket":   {"RL.ACQUIRE %s 5/1m 5", 12_000},
	"one":      {"RL.ACQUIRE %s 1/1m:5", 60_000},
	"fixed":    {"RL.FIXED %s 5 1m", 60_000},
	"aligned":  {"RL.ACQUIRE %s fixed-aligned:5/1m", 60_000},
	"sliding":  {"RL.SLIDING %s 5 1m", 72_000}, // a fifth of the next window
	"log":      {"RL.LOG %s 5 1m", 60_000},
	"named":    {"RL.ACQUIRE %s @five", 12_000},
	"throttle": {"CL.THROTTLE %s 4 5 60", 12_000},
}

// asked makes a call and returns whether it passed and the wait it was told, ms.
func asked(c *testConn, call, key string, more ...string) (allowed bool, wait int64) {
	c.t.Helper()
	d := c.do(append(strings.Fields(fmt.Sprintf(call, key)), more...)...).ints()
	if len(d) != 5 {
		c.t.Fatalf("%s: no decision", key)
	}
	if strings.HasPrefix(call, "CL.") {
		return d[0] == 0, max(d[3], 0) * 1000 // redis-cell says 0 for allowed, seconds, and -1 for none
	}
	return d[0] == 1, d[1]
}

// spend calls five times, which pass, and once more, which does not.
func spend(c *testConn) {
	c.t.Helper()
	c.do("RL.LIMIT", "SET", "five", "5/1m:5")
	for key, s := range spent {
		for i := range 6 {
			if ok, _ := asked(c, s.call, key); ok != (i < 5) {
				c.t.Fatalf("%s: call %d allowed: %v", key, i+1, ok)
			}
		}
	}
	c.do("RL.PENALIZE", "penalized", "10", "20", "30s")
}

// TestWallClockSteps: a machine's clock is set while the server is down, by
// hours or years. Set back, nothing that was spent is there again, and nobody
// waits longer than if it had not been set. Set forward, it is as if that time
// had passed.
func TestWallClockSteps(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for _, step := range []time.Duration{-10 * time.Second, -time.Hour, -24 * time.Hour, -year, -20 * year, -time.Duration(testStart), time.Hour, year, 50 * year} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			srv := startTest(t, nil)
			skew := defaults().MaxClockSkew.Milliseconds()
			spend(dial(t, srv.addr))
			srv.clock.ns.Add(int64(step))
			srv.restart()
			c, waits := dial(t, srv.addr), map[string]int64{}
			for key, s := range spent {
				ok, wait := asked(c, s.call, key)
				if ok != (step > 0) {
					t.Errorf("%s: allowed %v after a step of %v", key, ok, step)
				}
				if wait < 0 || wait > s.most+skew {
					t.Errorf("%s: told to wait %d ms after a step of %v, want at most %d", key, wait, step, s.most+skew)
				}
				if !ok {
					waits[key] = wait
				}
			}
			d := c.do("RL.PEEK", "penalized", "10", "20").ints()
			if step < 0 && (d[0] != 0 || d[1] > 30_000+skew) || step > 0 && d[0] != 1 {
				t.Errorf("a penalty of 30 s: %v after a step of %v", d, step)
			}
			// The shortest wait first: no server's clock goes back, and the sweep would have dropped what is over by then.
			stepped := srv.clock.ns.Load()
			for _, key := range slices.SortedFunc(maps.Keys(waits), func(a, b string) int { return cmp.Compare(waits[a], waits[b]) }) {
				srv.clock.ns.Store(stepped + waits[key]*1e6)
				if ok, wait := asked(c, spent[key].call, key); !ok {
					t.Errorf("%s: told to wait %d ms more after it waited as told", key, wait)
				}
			}
		})
	}
}

// TestCallersClockSteps: a caller's own clock jumps, or it sends nonsense. It is
// told of no more than max-clock-skew brings, and all others go on as before.
func TestCallersClockSteps(t *testing.T) {
	t.Parallel()
	for _, now := range []int64{0, 1, 1_000_000_000, testStart/1e6 - 3_600_000, testStart/1e6 - 10*365*86_400_000, testStart/1e6 + 3_600_000, testStart/1e6 + 100*365*86_400_000, 1<<53 - 1} {
		t.Run(strconv.FormatInt(now, 10), func(t *testing.T) {
			t.Parallel()
			srv := startTest(t, nil)
			skew := defaults().MaxClockSkew.Milliseconds()
			c := dial(t, srv.addr)
			spend(c)
			for key, s := range spent {
				if strings.HasPrefix(s.call, "CL.") {
					continue // it takes no time
				}
				asked(c, s.call, key, strconv.FormatInt(now, 10)) // the broken one
				ok, wait := asked(c, s.call, key)
				if ok || wait > s.most+skew {
					t.Errorf("%s: afterwards another is allowed %v, told to wait %d ms, want at most %d", key, ok, wait, s.most+skew)
				}
			}
			// Ten minutes on, with the broken caller in between, it is full: five pass and no more than skew adds.
			srv.clock.ns.Add(int64(10 * time.Minute))
			for key, s := range spent {
				if strings.HasPrefix(s.call, "CL.") {
					continue
				}
				asked(c, s.call, key, strconv.FormatInt(now, 10), "COST", "0")
				passed := 0
				for range 7 {
					if ok, _ := asked(c, s.call, key); ok {
						passed++
					}
				}
				if passed != 5 {
					t.Errorf("%s: ten minutes later %d of 7 pass, want 5", key, passed)
				}
			}
		})
	}
}

// TestSuspend: time asleep counts as any other: what was spent is refilled by as
// much and no more, and waits are over when they should be.
func TestSuspend(t *testing.T) {
	t.Parallel()
	srv := startTest(t, nil)
	c := dial(t, srv.addr)
	spend(c)
	srv.clock.ns.Add(int64(24 * time.Second)) // the clock finds out about a suspend all at once
	for key, want := range map[string]int{"bucket": 2, "one": 0, "fixed": 0, "aligned": 0, "sliding": 0, "log": 0, "named": 2, "throttle": 2} {
		passed := 0
		for range 7 {
			if ok, _ := asked(c, spent[key].call, key); ok {
				passed++
			}
		}
		if passed != want {
			t.Errorf("%s: %d pass after 24 s asleep, want %d", key, passed, want)
		}
	}
	srv.clock.ns.Add(int64(365 * 24 * time.Hour))
	for key, s := range spent {
		for i := range 6 {
			if ok, _ := asked(c, s.call, key); ok != (i < 5) {
				t.Errorf("%s: call %d after a year asleep allowed: %v", key, i+1, ok)
			}
		}
	}
}
