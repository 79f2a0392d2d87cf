package resp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rlserver/rlserver/engine"
)

// Every command that takes a pattern has a bound for it: what it is matched
// with, in one go, would hold the others up for as long as it is.
func TestPatternBounds(t *testing.T) {
	c := newTalker(t, newTestServer(standingClock{}))
	for call, most := range map[string]int{
		"KEYS %s":                          maxPattern,
		"SCAN 0 MATCH %s":                  maxPattern,
		"RL.RESET MATCH %s":                maxPattern,
		"RL.LIMIT LIST MATCH %s":           engine.MaxNameBytes,
		"COMMAND LIST FILTERBY PATTERN %s": maxPattern,
		"CONFIG GET maxclients %s":         maxPattern,
	} {
		if got := c.raw(fmt.Sprintf(call, strings.Repeat("x", most))); strings.HasPrefix(got, "-") {
			t.Errorf("%s: %d bytes are answered %q", call, most, got)
		}
		want := fmt.Sprintf("-ERR the pattern is %d bytes long: expected at most %d\r\n", most+1, most)
		if got := c.raw(fmt.Sprintf(call, strings.Repeat("x", most+1))); got != want {
			t.Errorf("%s: %d bytes are answered %q, want %q", call, most+1, got, want)
		}
	}
}
