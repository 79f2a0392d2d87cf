package resp

import (
	"testing"
)

// TestAdaptiveDoesNotAllocate: a call under an adaptive limit costs no memory, nor
// does one while callers are kept away, nor a report but for the text of its reply.
func TestAdaptiveDoesNotAllocate(t *testing.T) {
	for _, set := range []string{"up:list", "*"} {
		srv := newTestServer(standingClock{})
		c := newTalker(t, srv)
		c.raw("RL.LIMIT SET " + set + " adaptive:10..1000:1000000")
		s := srv.newSession("test", "test")
		for _, line := range [][]byte{
			frame("RL.ACQUIRE", "key", "@up:list"),
			frame("RL.PEEK", "key", "@up:list"),
		} {
			s.Feed(line)
			s.Written()
			if n := testing.AllocsPerRun(100, func() { s.Feed(line); s.Written() }); n != 0 {
				t.Errorf("%q under %s allocates %v times", line, set, n)
			}
			c.raw("RL.FEEDBACK up:list THROTTLED 1m")
			if n := testing.AllocsPerRun(100, func() { s.Feed(line); s.Written() }); n != 0 {
				t.Errorf("%q under %s, paused, allocates %v times", line, set, n)
			}
			c.raw("FLUSHALL")
		}
		const textOfReply = 2
		report := frame("RL.FEEDBACK", "up:list", "OK")
		if n := testing.AllocsPerRun(100, func() { s.Feed(report); s.Written() }); n > textOfReply {
			t.Errorf("a report under %s allocates %v times", set, n)
		}
	}
}

// TestFeedbackCounts: reports are counted by what they say, and are no decisions.
func TestFeedbackCounts(t *testing.T) {
	srv := newTestServer(standingClock{})
	c := newTalker(t, srv)
	for _, line := range []string{
		"RL.LIMIT SET up adaptive:10..100:20", "RL.FEEDBACK up OK", "RL.FEEDBACK up OK", "RL.FEEDBACK up THROTTLED 1s", "RL.FEEDBACK none OK",
	} {
		c.raw(line)
	}
	if st := srv.Stats(); st.Taken != 2 || st.Throttled != 1 || st.Allowed != 0 || st.Denied != 0 || st.Errors != 1 {
		t.Errorf("%d taken, %d throttled, %d allowed, %d denied, %d errors", st.Taken, st.Throttled, st.Allowed, st.Denied, st.Errors)
	}
}
