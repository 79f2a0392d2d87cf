package resp

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/rlserver/rlserver/engine"
)

// A talker is a client of a session without a socket.
type talker struct {
	t testing.TB
	s *Session
}

// newTalker talks to srv from then on as one connection would.
func newTalker(t testing.TB, srv *Server) *talker { return &talker{t, srv.newSession("test", "test")} }

// trustedServer believes callers' times, so that a test knows every answer.
func trustedServer() *Server {
	srv := newTestServer(standingClock{})
	settings := *srv.settings.Load()
	settings.CallerClock = engine.Trusted
	srv.Apply(settings)
	return srv
}

// standingClock never moves.
type standingClock struct{}

func (standingClock) NowNs() int64 { return 1767225600e9 }

// frame is a command in RESP.
func frame(words ...string) []byte {
	out := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(w), w)
	}
	return out
}

// raw sends a command line, words parted by blanks, and returns the reply as
// it is on the wire.
func (c *talker) raw(line string) string {
	in := frame(strings.Fields(line)...)
	var out []byte
	for taken := 0; taken < len(in) || c.s.full; {
		taken += c.s.Feed(in[taken:])
		out = append(out, c.s.Output()...)
		c.s.Written()
	}
	return string(out)
}

// ints are the integers of a reply, of arrays within arrays too, in order.
func (c *talker) ints(line string) (all []int64) {
	c.t.Helper()
	out := c.raw(line)
	if strings.HasPrefix(out, "-") {
		c.t.Errorf("%s: %s", line, out)
	}
	for _, word := range strings.Split(out, "\r\n") {
		if strings.HasPrefix(word, ":") {
			n, err := strconv.ParseInt(word[1:], 10, 64)
			if err != nil {
				c.t.Errorf("%s: %q", line, out)
			}
			all = append(all, n)
		}
	}
	return all
}
