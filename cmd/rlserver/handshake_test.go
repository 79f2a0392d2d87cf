package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
)

// A greeting is what a driver sends when it connects.
type greeting struct {
	driver string
	writes [][]call
}

// A call is one command of a greeting and how its reply must begin.
type call struct {
	words []string
	want  string
}

// readGreetings reads testdata/handshakes, which says what its lines mean.
func readGreetings(t *testing.T) (all []greeting) {
	t.Helper()
	const file = "testdata/handshakes/drivers.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if driver, ok := strings.CutPrefix(line, "== "); ok {
			all = append(all, greeting{driver: driver})
			continue
		}
		if line == "" || line[0] == '#' {
			continue
		}
		rest, same := strings.CutPrefix(line, "+ ")
		command, want, ok := strings.Cut(rest, " -> ")
		if !ok || len(all) == 0 {
			t.Fatalf("%s: %q: expected a command, an arrow and a reply", file, line)
		}
		g := &all[len(all)-1]
		if !same {
			g.writes = append(g.writes, nil)
		}
		last := &g.writes[len(g.writes)-1]
		*last = append(*last, call{strings.Fields(command), want})
	}
	return all
}

// TestHandshakes replays what drivers were seen to send when they connect; each
// gets what it can work with, and then its first decision.
func TestHandshakes(t *testing.T) {
	t.Parallel()
	srv := startTest(t, nil)
	for _, g := range readGreetings(t) {
		t.Run(g.driver, func(t *testing.T) {
			c := dial(t, srv.addr)
			var raw bytes.Buffer // what is read goes through here
			c.r = bufio.NewReader(io.TeeReader(c.nc, &raw))
			for _, write := range g.writes {
				var out strings.Builder
				for _, call := range write {
					out.WriteString(frame(call.words...))
				}
				io.WriteString(c.nc, out.String())
				for _, call := range write {
					got := c.next(t, &raw)
					if !strings.HasPrefix(got, call.want) {
						t.Errorf("%q: reply %q, want %q", call.words, got, call.want)
					}
					if strings.EqualFold(call.words[0], "info") && (!strings.Contains(got, "\r\nloading:0\r\n") || !strings.Contains(got, "\r\nredis_version:7.")) {
						t.Errorf("INFO lacks what a ready check reads: %q", got)
					}
				}
			}
			if d := c.do("RL.ACQUIRE", g.driver, "1/m", "10").ints(); len(d) != 5 || d[2] != 9 {
				t.Errorf("the first decision is %v", d)
			}
		})
	}
	if n := srv.node.srv.Stats().ProtocolErrors; n != 0 {
		t.Errorf("%d protocol errors", n)
	}
}

// next reads one reply and returns its bytes; raw has all that was read so far
// of this connection, of which earlier replies have been taken off.
func (c *testConn) next(t *testing.T, raw *bytes.Buffer) string {
	t.Helper()
	if _, err := readReply(c.r); err != nil {
		t.Fatal(err)
	}
	return string(raw.Next(raw.Len() - c.r.Buffered()))
}
