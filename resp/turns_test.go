package resp

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// hasteClock goes on by a step each time it is read.
type hasteClock struct {
	ns   *int64
	step int64
}

func (c hasteClock) NowNs() int64 {
	*c.ns += c.step
	return 1767225600e9 + *c.ns
}

// A Feed that has worked long leaves the rest of the pipeline for later, and
// goes on where it stopped.
func TestFeedEndsInTime(t *testing.T) {
	const commands = 100
	for _, c := range []struct{ step, most int64 }{
		{feedNs, 2}, {feedNs / 5, 6}, {1, commands},
	} {
		s := newTestServer(hasteClock{new(int64), c.step}).newSession("test", "test")
		in := bytes.Repeat(frame("PING"), commands)
		answers := 0
		for feeds := 0; len(in) > 0; feeds++ {
			in = in[s.Feed(in):]
			got := int64(bytes.Count(s.Output(), []byte("+PONG\r\n")))
			answers += int(got)
			if got == 0 || got > c.most {
				t.Fatalf("a step of %d ns: %d commands in a Feed, want 1 to %d", c.step, got, c.most)
			}
			if s.full != (len(in) > 0) && got < c.most {
				t.Fatalf("a step of %d ns: full is %v with %d bytes left", c.step, s.full, len(in))
			}
			s.Written()
		}
		if answers != commands {
			t.Errorf("a step of %d ns: %d of %d commands answered", c.step, answers, commands)
		}
	}
}

// handClock stands until it is moved.
type handClock struct{ ns *int64 }

func (c handClock) NowNs() int64 { return 1767225600e9 + *c.ns }

// A command that is marked as lengthy and takes as long as a Feed may is the last
// of its Feed: the clock is read behind it, and not only at the next one.
func TestFeedEndsAfterALongCommand(t *testing.T) {
	ns := new(int64)
	srv := newTestServer(handClock{ns})
	work := func(s *Session, _ [][]byte) {
		*ns += feedNs
		s.ok()
	}
	srv.table = newTable(append(rows(),
		&command{name: "work", arity: -1, group: "server", run: work},
		&command{name: "workfast", arity: -1, flags: flagFast, group: "server", run: work}))
	srv.counters.cells = make([]cell, srv.table.count+1)
	for _, c := range []struct {
		in   []byte
		each int // commands of a Feed
	}{
		{frame("WORK"), 1},
		{frame("WORKFAST"), 2},
		{frame(append([]string{"WORKFAST"}, make([]string, fewWords)...)...), 1},
	} {
		s := srv.newSession("test", "test")
		taken := s.Feed(bytes.Repeat(c.in, 5))
		if taken != c.each*len(c.in) || !s.full {
			t.Errorf("%.20q: %d commands in a Feed, want %d", c.in, taken/len(c.in), c.each)
		}
	}
	if sum := srv.Stats().Duration.Sum; sum != 4*float64(feedNs)/1e9 {
		t.Errorf("%v s are counted as worked", sum)
	}
}

// What tells as much as it is asked for works in turns, and is answered in parts.
func TestLongAnswersInTurns(t *testing.T) {
	srv := newTestServer(tickingClock{new(int64)})
	srv.options = manyOptions{}
	apply(srv, func(s *Settings) { s.SlowLogLen, s.SlowerThan = 1000, 0 })
	c, other := newTalker(t, srv), newTalker(t, srv)
	for range 1000 {
		c.raw("ECHO " + strings.Repeat("x", 100))
	}
	words := func(n int, of string) string { return strings.Repeat(" "+of, n) }
	for call, elements := range map[string]int{
		"COMMAND":                              len(srv.table.rows),
		"COMMAND INFO":                         len(srv.table.rows),
		"COMMAND DOCS":                         2 * len(srv.table.rows),
		"COMMAND INFO" + words(3000, "client"): 3000,
		"COMMAND DOCS" + words(3000, "client"): 6000,
		"SLOWLOG GET -1":                       1000,
		"CONFIG GET" + words(3000, "x"):        2,
	} {
		in := frame(strings.Fields(call)...)
		largest, turns := 0, 0
		var out []byte
		for taken := 0; taken < len(in) || c.s.full; turns++ {
			taken += c.s.Feed(in[taken:])
			largest = max(largest, len(c.s.Output()))
			out = append(out, c.s.Output()...)
			c.s.Written()
			if len(in) > 0 {
				clear(in[:taken]) // the buffer it came in is used for something else
			}
			if got := other.raw("PING"); got != "+PONG\r\n" {
				t.Fatalf("another client gets %q", got)
			}
		}
		if want := fmt.Sprintf("*%d\r\n", elements); !bytes.HasPrefix(out, []byte(want)) || bytes.Contains(out, []byte("\x00")) {
			t.Errorf("%.30s: %.100q, want %s", call, out, want)
		}
		if least := max(2, elements/100); turns < least && elements > 2 || largest > flushAt+16<<10 {
			t.Errorf("%.30s: done in %d turns, %d bytes at once", call, turns, largest)
		}
	}
}

// manyOptions has one option, which every pattern fits.
type manyOptions struct{ noOptions }

func (manyOptions) Get(string) [][2]string { return [][2]string{{"port", "1"}} }
