package resp

import (
	"fmt"
	"strings"
	"testing"
)

// TestDrained: after a stop that lost changes, whoever decides or looks finds a
// key as if it had been emptied, whether it was loaded or is absent, until it is
// refilled, changed or forgotten.
func TestDrained(t *testing.T) {
	loaded := []string{
		"RL.ACQUIRE bucket 10 20", "RL.ACQUIRE named @n", "RL.FIXED fixed 5 1m", "RL.SLIDING sliding 5 1m", "RL.LOG log 5 1m", "CL.THROTTLE cell 4 1 60",
	}
	calls := []struct{ line, want string }{
		{"RL.ACQUIRE % 10 20", "0 101 0 2001 20"},
		{"RL.ACQUIRE % 10 20 COST 3 PARTIAL", "0 101 0 2001 20"},
		{"RL.ACQUIRE % 10 20 COST 0", "1 0 0 2001 20"},
		{"RL.ACQUIRE % 1000 2000", "0 2 0 2001 2000"}, // under any limit
		{"RL.ACQUIRE @ @n", "0 101 0 2001 20"},
		{"RL.PEEK % 10 20", "0 101 0 2001 20"},
		{"RL.ACQUIREALL % 10:20 1", "0 101 0 0 101 0 2001 20"},
		{"RL.FIXED % 5 1m", "0 60001 0 60001 5"},
		{"RL.FIXED % 50 1m", "0 60001 0 60001 50"},
		{"RL.SLIDING % 5 1m", "0 72000 0 120000 5"},
		{"RL.LOG % 5 1m", "0 60001 0 60001 5"},
		{"CL.THROTTLE % 4 1 60", "1 5 0 61 301"},
		{"RL.THROTTLE % 4 1 60", "1 5 0 61 301"},
		{"RL.PENALIZE % 10 20 5s", "0 5001 0 5001 20"},
	}
	of := map[string]string{"FIXED": "fixed", "SLIDIN": "sliding", "LOG": "log", "THROTT": "cell"}
	fresh := func() *talker {
		srv := newTestServer(standingClock{})
		c := newTalker(t, srv)
		c.raw("RL.LIMIT SET n 10:20")
		for _, line := range loaded {
			c.raw(line)
		}
		srv.store.Drain(standingClock{}.NowNs()/1e6 + 1)
		return c
	}
	tried := map[string]bool{}
	for _, call := range calls {
		name, _, _ := strings.Cut(call.line, " ")
		tried[strings.ToLower(name)] = true
		key := "bucket"
		for word, k := range of {
			if strings.Contains(name, word) {
				key = k
			}
		}
		for _, key := range []string{key, "absent"} {
			if key != "absent" {
				call.line = strings.Replace(call.line, " @ ", " named ", 1)
			}
			line := strings.Replace(strings.Replace(call.line, "%", key, 1), " @ ", " absent ", 1)
			c := fresh()
			if got := spaced(c.ints(line)); got != call.want {
				t.Errorf("%s: %s, want %s", line, got, call.want)
			}
			if got := c.raw("RL.RESET " + key); got != ":1\r\n" && got != ":0\r\n" {
				t.Errorf("RL.RESET %s: %q", key, got)
			}
			if got := spaced(c.ints("RL.ACQUIRE " + key + " 10 20")); got != "1 0 19 100 20" {
				t.Errorf("after %s and RL.RESET: %s", line, got)
			}
		}
	}
	for name, row := range fresh().s.srv.table.byName {
		if row.flags&flagDecides != 0 && !tried[name] {
			t.Errorf("%s decides, and was not tried", name)
		}
	}
}

// TestDrainedTold: what is told of a key is what a call finds there.
func TestDrainedTold(t *testing.T) {
	srv := newTestServer(standingClock{})
	c := newTalker(t, srv)
	c.raw("RL.ACQUIRE bucket 10 20 COST 5")
	c.raw("RL.ACQUIRE debt 10 20 COST 50 FORCE")
	srv.store.Drain(standingClock{}.NowNs()/1e6 + 1)
	if got := c.raw("HGET bucket t"); got != "$1\r\n0\r\n" {
		t.Errorf("HGET: %q", got)
	}
	if got := c.raw("HGET debt t"); got != "$6\r\n-29.99\r\n" {
		t.Errorf("HGET of a debt: %q", got)
	}
	if got := c.raw("RL.GET bucket"); !strings.Contains(got, "tokens\r\n$1\r\n0\r\n") {
		t.Errorf("RL.GET: %q", got)
	}
	if got := spaced(c.ints("RL.REFUND bucket 3")); got != "1 0 3 1701 20" {
		t.Errorf("RL.REFUND: %s", got)
	}
	if got := spaced(c.ints("RL.ACQUIRE bucket 10 20 COST 3")); got != "1 0 0 2001 20" {
		t.Errorf("after the refund: %s", got)
	}
	c.raw("FLUSHALL")
	if got := spaced(c.ints("RL.ACQUIRE absent 10 20")); got != "1 0 19 100 20" {
		t.Errorf("after FLUSHALL: %s", got)
	}
}

// spaced is numbers as one text.
func spaced(numbers []int64) string { return strings.Trim(fmt.Sprint(numbers), "[]") }
