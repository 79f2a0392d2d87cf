package resp

import (
	"strings"
	"testing"
)

// Commands that take tokens allocate nothing, whether allowed or not.
func TestTakeAllocatesNothing(t *testing.T) {
	srv := trustedServer()
	s := srv.newSession("test", "test")
	for _, line := range []string{
		"RL.ACQUIRE bucket 10 20 1000 COST 1",
		"RL.ACQUIRE expression fixed-aligned:10/1m",
		"RL.FIXED fixed 20 1m * COST 1 ALIGN",
		"RL.SLIDING sliding 20 1m",
		"RL.LOG log 20 1m",
		"CL.THROTTLE throttle 15 30 60 1",
		"RL.ACQUIREALL one 10:20 1",
	} {
		in := frame(strings.Fields(line)...)
		n := testing.AllocsPerRun(100, func() {
			s.Feed(in)
			s.Written()
		})
		if n > 0 && !raceEnabled {
			t.Errorf("%s: %v allocations", line, n)
		}
	}
}
