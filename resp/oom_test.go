package resp

import (
	"fmt"
	"strings"
	"testing"
)

// storing has a call for each command that may store a new key: K stands for it.
var storing = map[string]string{
	"rl.acquire":    "RL.ACQUIRE K 10 20",
	"rl.penalize":   "RL.PENALIZE K 10 20 30s",
	"rl.fixed":      "RL.FIXED K 20 1m",
	"rl.sliding":    "RL.SLIDING K 20 1m",
	"rl.log":        "RL.LOG K 20 1m",
	"cl.throttle":   "CL.THROTTLE K 15 30 60",
	"rl.throttle":   "RL.THROTTLE K 15 30 60",
	"rl.acquireall": "RL.ACQUIREALL K 10:20 1",
}

// Without memory the commands that say denyoom, and they alone, refuse keys that
// are not there; a refusal changes nothing and is counted.
func TestOutOfMemory(t *testing.T) {
	srv := trustedServer()
	c := newTalker(t, srv)
	at := func(name, key string) string { return strings.Replace(storing[name], "K", key, 1) }
	for name := range storing {
		c.ints(at(name, "held:"+name))
	}
	c.ints("RL.ACQUIREALL held:a 10:20 1 held:b fixed:10/1m 1")
	srv.store.SetMaxBytes(1)
	refused := uint64(0)
	refuse := func(line string) {
		t.Helper()
		before := srv.store.Stats()
		if got := c.raw(line); got != "-"+errOOM+"\r\n" {
			t.Errorf("%s: %q", line, got)
		}
		if after := srv.store.Stats(); after != before {
			t.Errorf("%s: made %+v of %+v", line, after, before)
		}
		refused++
	}
	for _, row := range srv.table.rows {
		line, may := storing[row.name]
		if denies := row.flags&flagDenyOOM != 0; denies != may {
			t.Errorf("%s: denyoom is %v, and storing has the call %q", row.name, denies, line)
		}
		if may {
			refuse(at(row.name, "new"))
			c.ints(at(row.name, "held:"+row.name))
		}
	}
	refuse("RL.ACQUIREALL held:a 10:20 1 new 10:20 1 held:b fixed:10/1m 1")
	if st := srv.Stats(); st.KeysRefused != refused || st.Denied != 0 {
		t.Errorf("%d keys refused and %d denials counted, were %d and 0", st.KeysRefused, st.Denied, refused)
	}
	srv.store.SetMaxBytes(0)
	c.ints(at("rl.acquire", "new"))
}

// What needs no memory is answered without it too.
func TestOutOfMemoryIsNotAsked(t *testing.T) {
	srv := trustedServer()
	c := newTalker(t, srv)
	c.ints("RL.ACQUIRE held 1 20 1000")
	c.ints("RL.LOG log 4096 1h 1000")
	srv.store.SetMaxBytes(1)
	for _, row := range [][2]string{
		{"RL.ACQUIRE new 1 20 1000 COST 21", "[0 -1 20 0 20]"}, // a denial stores nothing
		{"RL.ACQUIRE new 1 20 1000 COST 0", "[1 0 20 0 20]"},
		{"CL.THROTTLE new 19 1 1 0", "[0 20 20 -1 0]"},
		{"RL.ACQUIREALL held 1:20 20 new 1:20 1 NOW 1000", "[0 1000 0 0 1000 19 1000 20 1 0 20 0 20]"},
		{"RL.PEEK new 1 20 1000", "[1 0 20 0 20]"},
		{"RL.REFUND held 1 1000", "[1 0 20 0 20]"},
		{"EXISTS new held", "[1]"},
		{"DEL new held", "[1]"},
	} {
		if got := fmt.Sprint(c.ints(row[0])); got != row[1] {
			t.Errorf("%s: %s, want %s", row[0], got, row[1])
		}
	}
	// A log that is there goes on growing, up to its limit.
	for i := range 1000 {
		if got := c.ints(fmt.Sprintf("RL.LOG log 4096 1h %d", 2000+i)); got[0] != 1 {
			t.Fatalf("call %d: %v", i, got)
		}
	}
	if n := srv.Stats().KeysRefused; n != 0 {
		t.Errorf("%d keys refused", n)
	}
}

// Who floods a server at its limit makes it collect no garbage.
func TestOutOfMemoryAllocatesNothing(t *testing.T) {
	srv := trustedServer()
	s := srv.newSession("test", "test")
	srv.store.SetMaxBytes(1)
	in := frame("RL.ACQUIRE", "new", "10", "20")
	n := testing.AllocsPerRun(100, func() {
		s.Feed(in)
		s.Written()
	})
	if n > 0 && !raceEnabled {
		t.Errorf("%v allocations", n)
	}
}
