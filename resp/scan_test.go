package resp

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// scanned goes through a whole SCAN and returns its keys and the number of calls.
func (c *talker) scanned(options string) (keys map[string]int, calls int) {
	c.t.Helper()
	keys = map[string]int{}
	for cursor := "0"; calls == 0 || cursor != "0"; calls++ {
		words := strings.Split(c.raw("SCAN "+cursor+" "+options), "\r\n") // *2 $n cursor *m $n key ...
		if len(words) < 4 || words[0] != "*2" {
			c.t.Fatalf("%q", words)
		}
		cursor = words[2]
		for i := 5; i < len(words)-1; i += 2 {
			keys[words[i]]++
		}
	}
	return keys, calls
}

func TestScan(t *testing.T) {
	const each = 2000
	c := newTalker(t, trustedServer())
	for i := range each {
		c.ints(fmt.Sprintf("RL.ACQUIRE bucket:%d 1/1h 5", i))
		c.ints(fmt.Sprintf("RL.FIXED window:%d 5 1h", i))
	}
	for _, tc := range []struct {
		options      string
		keys, atMost int // calls
	}{
		{"", 2 * each, 400},
		{"COUNT 1", 2 * each, 4*each + 33},
		{"COUNT 1000", 2 * each, 6},
		{"COUNT 1000000000", 2 * each, 1},
		{"MATCH bucket:*", each, 400},
		{"MATCH bucket:*7 COUNT 100000", each / 10, 1},
		{"TYPE hash COUNT 100000", each, 1},
		{"TYPE fixed MATCH *:1", 1, 400},
		{"TYPE nosuch COUNT 100", 0, 50},
	} {
		keys, calls := c.scanned(tc.options)
		if len(keys) != tc.keys || calls > tc.atMost {
			t.Errorf("SCAN %s: %d keys in %d calls, want %d in at most %d", tc.options, len(keys), calls, tc.keys, tc.atMost)
		}
		for key, n := range keys {
			if n != 1 {
				t.Errorf("SCAN %s: %s comes %d times", tc.options, key, n)
			}
		}
	}
}

// A SCAN that asks for much comes in parts.
func TestScanReplySize(t *testing.T) {
	c := newTalker(t, trustedServer())
	long := strings.Repeat("k", 1000)
	for i := range 2000 {
		c.ints(fmt.Sprintf("RL.ACQUIRE %s:%d 1/1h 5", long, i))
	}
	keys, calls := c.scanned("COUNT 1000000")
	if len(keys) != 2000 || calls < 5 || calls > 9 {
		t.Errorf("%d keys in %d calls", len(keys), calls)
	}
}

// KEYS, SCAN and RANDOMKEY work in turns that others are served between.
func TestToursInTurns(t *testing.T) {
	const keys = 20_000
	srv := trustedServer()
	c, other := newTalker(t, srv), newTalker(t, srv)
	for i := range keys {
		c.ints(fmt.Sprintf("RL.ACQUIRE key:%d 1/1h 5", i))
	}
	for _, call := range [][]string{{"KEYS", "*"}, {"KEYS", "key:*9"}, {"KEYS", "nobody"}, {"SCAN", "0", "COUNT", "100000"}, {"SCAN", "0", "COUNT", "100000", "TYPE", "log"}} {
		in := append(frame(call...), frame("DBSIZE")...)
		taken, turns := c.s.Feed(in), 1
		for ; c.s.full && len(c.s.Output()) == 0; turns++ {
			if got := other.raw("PING"); got != "+PONG\r\n" {
				t.Fatalf("another client gets %q", got)
			}
			if c.s.touring == 0 && turns > 4 && call[1] != "nobody" && len(call) < 5 {
				t.Errorf("%q: what was found is not counted", call)
			}
			taken += c.s.Feed(in[taken:])
		}
		if n := c.s.keeps(); n != 0 {
			t.Errorf("%q: %d bytes are still counted", call, n)
		}
		if c.s.full { // a long reply goes out before the next command
			out := string(c.s.Output())
			c.s.Written()
			taken += c.s.Feed(in[taken:])
			if !strings.HasPrefix(out, "*") {
				t.Errorf("%q: %.60q", call, out)
			}
		}
		if least := keys / (tourTurnKeys + 256); turns < least {
			t.Errorf("%q: done in %d turns, want at least %d", call, turns, least)
		}
		if out := string(c.s.Output()); taken != len(in) || !strings.HasSuffix(out, ":"+strconv.Itoa(keys)+"\r\n") {
			t.Errorf("%q: %d of %d bytes taken, then %.60q", call, taken, len(in), out)
		}
		c.s.Written()
	}
	if got := c.raw("KEYS *"); strings.Count(got, "$") != keys {
		t.Errorf("KEYS tells %d keys", strings.Count(got, "$"))
	}
	if got := c.raw("KEYS " + strings.Repeat("?", maxPattern+1)); !strings.HasPrefix(got, "-ERR the pattern is 1025 bytes long") {
		t.Errorf("%q", got)
	}
}

// KEYS does not answer more than it may.
func TestKeysReplySize(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("makes many keys")
	}
	c := newTalker(t, trustedServer())
	long := strings.Repeat("k", 1000)
	for i := range keysReplySize/1000 + 500 {
		c.raw(fmt.Sprintf("RL.ACQUIRE %s:%d 1/1h 5", long, i))
	}
	if got := c.raw("KEYS *"); !strings.HasPrefix(got, "-ERR the keys that match take more than 16777216 bytes: SCAN") {
		t.Errorf("%.100q", got)
	}
	if got := c.raw("KEYS *:1?"); !strings.HasPrefix(got, "*10\r\n") {
		t.Errorf("%.100q", got)
	}
}

// RANDOMKEY finds each key now and then, and only keys that are there.
func TestRandomKey(t *testing.T) {
	srv := trustedServer()
	c := newTalker(t, srv)
	if got := c.raw("RANDOMKEY"); got != "$-1\r\n" {
		t.Errorf("%q", got)
	}
	seen := map[string]int{}
	for i := range 20 {
		c.ints(fmt.Sprintf("RL.ACQUIRE key:%02d 1/1h 5", i))
	}
	for range 2000 {
		seen[c.raw("RANDOMKEY")]++
	}
	for key, n := range seen {
		if n < 20 || !strings.HasPrefix(key, "$6\r\nkey:") {
			t.Errorf("%q comes %d times", key, n)
		}
	}
	if len(seen) != 20 {
		t.Errorf("%d keys seen of 20", len(seen))
	}
}
