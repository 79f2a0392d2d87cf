package main

import (
	"strconv"
	"testing"
	"time"
)

// TestDeadlines: whatever made it, an entry has a deadline that fits the
// decision, keeps it over a restart, and is gone after it. A restart may also
// leave out what is full again and only waits for its deadline.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	srv := startTest(t, nil)
	grace := int64(2*defaults().MaxClockSkew.Milliseconds() + deadlineMargin)
	calls := map[string][]string{
		"acquired":  {"RL.ACQUIRE", "acquired", "1", "10", "COST", "5"},
		"a moment":  {"RL.ACQUIRE", "a moment", "8000", "2"},
		"emptied":   {"RL.ACQUIRE", "emptied", "1", "10", "COST", "10"},
		"in debt":   {"RL.ACQUIRE", "in debt", "1", "10", "COST", "30", "FORCE"},
		"waiting":   {"RL.ACQUIRE", "waiting", "1", "1", "COST", "1", "MAXWAIT", "60s"},
		"penalized": {"RL.PENALIZE", "penalized", "1", "10", "45s"},
	}
	c := dial(t, srv.addr)
	due := map[string]int64{} // ms from now
	for key, call := range calls {
		d := c.do(call...).ints()
		if len(d) != 5 {
			t.Fatalf("%q: no decision", call)
		}
		due[key] = d[3] + grace
	}
	check := func(when string, passed int64, restarted bool) {
		t.Helper()
		c := dial(t, srv.addr)
		present := 0
		for key, ms := range due {
			got, want := c.do("PTTL", key).text, ms-passed
			switch {
			case got == "-2" && want <= 0:
			case got == "-2" && restarted && want <= grace:
				delete(due, key)
			case want <= 0:
				t.Errorf("%s: %s: PTTL %s, want it gone", when, key, got)
			case got != strconv.FormatInt(want, 10):
				t.Errorf("%s: %s: PTTL %s, want %d", when, key, got, want)
			default:
				present++
			}
		}
		if got := c.do("DBSIZE").text; got != strconv.FormatInt(int64(present), 10) {
			t.Errorf("%s: DBSIZE %s, want %d", when, got, present)
		}
	}
	check("at once", 0, false)
	srv.restart()
	check("after a restart", 0, true)
	passed := int64(0)
	for _, ms := range []int64{2500, 6000, 14000, 24000, 34000, 60000} {
		srv.advance(time.Duration(ms-passed) * time.Millisecond)
		passed = ms
		check("after "+strconv.FormatInt(ms, 10)+" ms", passed, false)
		srv.restart()
		check("after "+strconv.FormatInt(ms, 10)+" ms and a restart", passed, true)
	}
}
