package resp

import (
	"fmt"
	"strings"
	"testing"
)

// RL.RESET MATCH works in turns: another client is served between them, its own
// client's next command waits, and keys that stay are left alone.
func TestResetMatchInTurns(t *testing.T) {
	const keys = 20_000
	srv := trustedServer()
	c, other := newTalker(t, srv), newTalker(t, srv)
	for i := range keys {
		c.ints(fmt.Sprintf("RL.ACQUIRE key:%d:%c 1 2", i, 'a'+i%2))
	}
	in := append(frame("RL.RESET", "MATCH", "key:*:a"), frame("DBSIZE")...)
	taken, turns := c.s.Feed(in), 1
	for ; c.s.full; turns++ {
		if out := c.s.Output(); len(out) != 0 {
			t.Fatalf("%q is answered before the command is done", out)
		}
		if got := other.raw("PING"); got != "+PONG\r\n" {
			t.Fatalf("another client gets %q", got)
		}
		taken += c.s.Feed(in[taken:])
	}
	if least := keys / (tourTurnKeys + 256); turns < least {
		t.Errorf("done in %d turns, want at least %d", turns, least)
	}
	if got, want := string(c.s.Output()), fmt.Sprintf(":%d\r\n:%d\r\n", keys/2, keys/2); got != want || taken != len(in) {
		t.Errorf("%q, %d of %d bytes taken, want %q", got, taken, len(in), want)
	}
	if got := other.ints("EXISTS key:0:a key:1:b"); got[0] != 1 {
		t.Errorf("%d of two keys left, want the second alone", got[0])
	}
}

func TestResetMatchPatternTooLong(t *testing.T) {
	c := newTalker(t, trustedServer())
	c.ints("RL.ACQUIRE k 1 2")
	if got := c.raw("RL.RESET MATCH " + strings.Repeat("*", maxPattern+1)); !strings.HasPrefix(got, "-ERR the pattern is 1025 bytes long") {
		t.Errorf("%q", got)
	}
	if got := c.ints("RL.RESET MATCH " + strings.Repeat("*", maxPattern)); got[0] != 1 {
		t.Errorf("%d keys reset, want 1", got[0])
	}
}

// BenchmarkResetMatchTurn is the longest turn: every key matches. It is the time
// for which an event loop is held up.
func BenchmarkResetMatchTurn(b *testing.B) {
	srv := newTestServer(standingClock{})
	c := newTalker(b, srv)
	in := frame("RL.RESET", "MATCH", "key:*")
	for b.Loop() {
		b.StopTimer()
		for c.s.full {
			c.s.Feed(nil)
		}
		c.s.Written()
		for i := range 3 * tourTurnKeys {
			c.ints(fmt.Sprintf("RL.ACQUIRE key:%012d 1 2", i))
		}
		b.StartTimer()
		c.s.Feed(in)
	}
}

// tickingClock goes on by a step each time it is read.
type tickingClock struct{ ns *int64 }

func (c tickingClock) NowNs() int64 {
	*c.ns += turnNs / 5
	return 1767225600e9 + *c.ns
}

// A long pattern may take milliseconds to match a long key, so a turn looks at
// the clock after each key.
func TestResetMatchLongPattern(t *testing.T) {
	const keys, perTurn = 100, 5
	for _, pattern := range []string{strings.Repeat("*a", 500) + "b", "*" + strings.Repeat("a", 64) + "b"} {
		srv := newTestServer(tickingClock{new(int64)})
		c := newTalker(t, srv)
		for i := range keys {
			c.ints(fmt.Sprintf("RL.ACQUIRE %s%d 1 2", strings.Repeat("a", 1000), i))
		}
		c.s.Feed(frame("RL.RESET", "MATCH", pattern))
		turns := 1
		for ; c.s.full; turns++ {
			c.s.Feed(nil)
		}
		if least := keys / perTurn; turns < least {
			t.Errorf("%.20s: done in %d turns, want at least %d", pattern, turns, least)
		}
	}
}
