package resp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rlserver/rlserver/shard"
)

// words is a command of n words of size bytes each, behind its name.
func words(name string, n, size int) string {
	return fmt.Sprintf("*%d\r\n$%d\r\n%s\r\n", n+1, len(name), name) + strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n", size, strings.Repeat("x", size)), n)
}

// exactly is an ECHO with three arguments that is n bytes long with its headers.
func exactly(n int) string {
	most := "*4" + words("ECHO", 2, 400_000)[2:]
	rest := n - len(most) - len("$200000\r\n\r\n")
	return most + fmt.Sprintf("$%d\r\n%s\r\n", rest, strings.Repeat("y", rest))
}

// TestBounds: each bound of what a peer may send, at it and one past it. What is
// past it ends the conversation with Redis's error, at the header.
func TestBounds(t *testing.T) {
	const (
		arity   = "-ERR wrong number of arguments for 'echo' command\r\n"
		stopped = ""
	)
	srv, locked := newTestServer(standingClock{}), newTestServer(standingClock{})
	apply(locked, func(s *Settings) { s.Password = "secret" })
	bulk := srv.settings.Load().MaxBulk
	noAuth := "-" + errNoAuth + "\r\n"
	line := func(n int) string { return "ECHO " + strings.Repeat("x", n-len("ECHO ")) }
	for _, c := range []struct {
		name     string
		srv      *Server
		at, past string
		want     string // at the bound
		err      string // past it
	}{
		{"words", srv, words("ECHO", maxArgs-1, 0), words("ECHO", maxArgs, 0), arity, errArgCount},
		{"words, header only", srv, fmt.Sprintf("*%d\r\n", maxArgs), fmt.Sprintf("*%d\r\n", maxArgs+1), stopped, errArgCount},
		{"words before AUTH", locked, words("ECHO", maxArgsNoAuth-1, 0), fmt.Sprintf("*%d\r\n", maxArgsNoAuth+1), arity, errArgCountAuth},
		{"argument", srv, words("ECHO", 1, bulk), fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n", bulk+1), fmt.Sprintf("$%d\r\n%s\r\n", bulk, strings.Repeat("x", bulk)), errBulkLen},
		{"argument before AUTH", locked, words("ECHO", 1, maxBulkNoAuth), fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n", maxBulkNoAuth+1), noAuth, errBulkLenAuth},
		{"command", srv, exactly(maxCommand), exactly(maxCommand + 1), arity, errCommandTooBig},
		{"inline", srv, line(maxInline-1) + "\n", line(maxInline) + "\n", fmt.Sprintf("$%d\r\n%s\r\n", maxInline-6, strings.Repeat("x", maxInline-6)), errInlineTooBig},
		{"inline, no end", srv, line(maxInline - 1), line(maxInline), stopped, errInlineTooBig},
		{"inline words", srv, strings.Repeat("x ", maxArgs) + "\n", strings.Repeat("x ", maxArgs+1) + "\n", "-ERR unknown command 'x'", errArgCount},
		{"digits of a count", srv, "*" + strings.Repeat("1", maxLenDigits), "*" + strings.Repeat("1", maxLenDigits+1), stopped, errArgCount},
		{"digits of a length", srv, "*1\r\n$" + strings.Repeat("1", maxLenDigits), "*1\r\n$" + strings.Repeat("1", maxLenDigits+1), stopped, errBulkLen},
	} {
		feed := func(in string) (string, action) {
			s := c.srv.newSession("test", "test")
			s.Feed([]byte(in))
			return string(s.Output()), s.act
		}
		if got, _ := feed(c.at); !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s, at the bound: %.100q, want %.100q", c.name, got, c.want)
		}
		if got, act := feed(c.past); got != "-"+c.err+"\r\n" || act != actionClose {
			t.Errorf("%s, one past it: %.100q and action %d, want %q and the end", c.name, got, act, c.err)
		}
	}
	k := newTalker(t, srv)
	if got := k.raw("EXISTS " + strings.Repeat("k", shard.MaxKeyBytes)); got != ":0\r\n" {
		t.Errorf("a key at its bound: %q", got)
	}
	if got := k.raw("RL.ACQUIRE " + strings.Repeat("k", shard.MaxKeyBytes+1) + " 1 2"); !strings.HasPrefix(got, "-ERR ") {
		t.Errorf("a key past it: %q", got)
	}
}

// TestKillOfWhoIsDelayed: who waits for the late answer to a wrong password is
// closed at once.
func TestKillOfWhoIsDelayed(t *testing.T) {
	carried(t, func(srv *Server) { srv.within.wrongPass, srv.within.wrongPassMost = 2*patience, 2*patience }, func(t *testing.T, srv *Server, addr string) {
		srv.accounts.set("u", []string{"on", ">p"})
		c, other := connect(t, addr), connect(t, addr)
		c.send("PING\r\nAUTH u wrong\r\n")
		until(t, "it is looked at", func() bool { return srv.counters.authFailures.Load() == 1 })
		other.send("CLIENT KILL ADDR " + c.LocalAddr().String() + "\r\n")
		other.expect(":1\r\n")
		c.expectEnd("")
		until(t, "it is forgotten", func() bool { return srv.connections() == 1 })
	})
}
