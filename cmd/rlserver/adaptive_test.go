package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// reported sends a report and returns the rate in force after it.
func reported(c *testConn, words ...string) string {
	c.t.Helper()
	got := c.do(append([]string{"RL.FEEDBACK"}, words...)...)
	if len(got.items) != 2 {
		c.t.Fatalf("%q: %q", words, got.lines())
	}
	return got.items[0].text
}

// TestAdaptiveInLimitsFile: what an adaptive limit of the limits-file has found
// survives a restart, also one with other bounds in the file, and is gone with
// the limit.
func TestAdaptiveInLimitsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits")
	limitsFile(t, path, "upstream adaptive:2..100:5")
	s := startTest(t, []string{"--limits-file", path})
	c := dial(t, s.addr)
	reported(c, "upstream", "OK")
	for range 2 {
		s.clock.ns.Add(int64(time.Second))
		reported(c, "upstream", "OK")
		reported(c, "upstream", "OK")
	}
	if got := reported(c, "upstream", "OK"); got != "8" {
		t.Fatalf("rate %s", got)
	}
	for _, change := range []struct{ line, rate string }{
		{"upstream adaptive:2..100:5", "8"}, {"upstream adaptive:2..5:5", "5"}, {"other 1:1", ""}, {"upstream adaptive:2..100:5", "2"},
	} {
		limitsFile(t, path, change.line)
		s.down()
		s.up()
		c = dial(t, s.addr)
		if change.rate == "" {
			continue
		}
		if got := reported(c, "upstream", "OK"); got != change.rate {
			t.Errorf("%s: rate %s, want %s", change.line, got, change.rate)
		}
	}
}

// TestAdaptiveSurvivesAKill: what is on disk of a pause is kept by kill -9.
func TestAdaptiveSurvivesAKill(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	c := dial(t, p.addr)
	c.do("RL.LIMIT", "SET", "upstream", "adaptive:2..100:5")
	reported(c, "upstream", "THROTTLED", "1h")
	if got := c.do("SAVE"); got.text != "OK" {
		t.Fatalf("%q", got.lines())
	}
	p.kill()
	p = start(t, p.dir)
	c = dial(t, p.addr)
	got := c.do("RL.ACQUIRE", "key", "@upstream").ints()
	if got == nil || got[0] != 0 || got[1] < int64(50*time.Minute/time.Millisecond) {
		t.Errorf("%v", got)
	}
	if text := c.do("INFO", "limiter").text; !strings.Contains(text, "rl_feedback_throttled:0\r\n") {
		t.Errorf("INFO limiter:\n%s", text)
	}
	p.stop()
}
