package resp

import (
	"syscall"
	"testing"
	"time"
)

// TestHeavy: one long turn among few makes nobody heavy, since it may be the
// kernel's doing; two do.
func TestHeavy(t *testing.T) {
	for _, c := range []struct {
		turns string // l = long, s = short
		heavy bool
	}{
		{"", false}, {"l", false}, {"ll", true}, {"lsl", true}, {"lssl", true}, {"lsssl", false}, {"llss", true}, {"llsss", false}, {"sssslsss", false},
	} {
		l, s := &loop{}, &sock{}
		for _, turn := range c.turns {
			l.turned = time.Now().Add(time.Hour) // its end is before that: as short as can be
			if turn == 'l' {
				l.turned = time.Now().Add(-heavyTurn)
			}
			l.weigh(s)
		}
		if s.heavy() != c.heavy {
			t.Errorf("%q: heavy is %v", c.turns, s.heavy())
		}
	}
}

// TestHeavyAfterWriting: a heavy socket whose output is out at last waits for
// its turn as it does when there is input; a light one goes on.
func TestHeavyAfterWriting(t *testing.T) {
	srv := newTestServer(wallClock{time.Now()})
	poll, err := newEpoll()
	if err != nil {
		t.Fatal(err)
	}
	defer poll.close()
	l := &loop{srv: srv, poll: poll, now: time.Now(), turned: time.Now(), out: make([]byte, 0, flushAt)}
	for _, c := range []struct {
		long   uint8
		state  sockState
		answer string
	}{{1, reading, "rest+PONG\r\n"}, {3, queued, "rest"}} {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		s := &sock{life: life{srv: srv, s: srv.newSession("test", "test")}, loop: l, fd: -1, place: -1, long: c.long}
		l.count.Add(1)
		s.arrive(pair[0])
		s.in.keep([]byte("PING\r\n"))
		s.out, s.state = []byte("rest"), writing
		l.serve(s)
		got := make([]byte, 100)
		n, _ := syscall.Read(pair[1], got)
		if s.state != c.state || string(got[:n]) != c.answer {
			t.Errorf("after turns %b: state %d, sent %q; want %d, %q", c.long, s.state, got[:n], c.state, c.answer)
		}
		if waits := len(l.again) > 0; waits != (c.state == queued) {
			t.Errorf("after turns %b: it waits for a turn: %v", c.long, waits)
		}
		s.close()
		syscall.Close(pair[1])
	}
}
