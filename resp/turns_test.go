package resp

import (
	"bytes"
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
