package resp

import (
	"math/bits"
	"slices"
	"time"
)

// Who is served when. A socket whose turns are long has the next one behind the
// others, and all such together have busyFor of each round of the loop. So who
// asks for little waits for that long, and for one command more, however many
// there are who ask for much.
//
// One long turn tells nothing: on a busy machine it is the kernel's doing as
// often as the client's, and who is taken for heavy waits for all who are.
const (
	heavyTurn  = 200 * time.Microsecond // a turn that takes as long is long
	heavyOften = 2                      // so many long ones make a socket heavy
	heavyAmong = 1<<4 - 1               // among these of its last turns, as in sock.long
	busyFor    = time.Millisecond
)

// heavy says whether the turns of a socket are long.
func (c *sock) heavy() bool { return bits.OnesCount8(c.long&heavyAmong) >= heavyOften }

// serve has a socket do what it is ready for, or wait for that behind the
// others.
func (l *loop) serve(c *sock) {
	switch {
	case c.state == reading && c.heavy():
		c.unread, c.state = true, queued
		l.again = append(l.again, c)
	case c.state == reading, c.state == writing:
		c.ready()
		l.weigh(c)
	default:
		c.ready()
	}
}

// weigh notes how long the turn of c took that ends now.
func (l *loop) weigh(c *sock) {
	now := time.Now()
	c.long <<= 1
	if now.Sub(l.turned) >= heavyTurn {
		c.long |= 1
	}
	l.turned = now
}

// takeTurns serves those who wait for a turn, each once at most and none after
// busyFor.
func (l *loop) takeTurns() {
	waiting, done := len(l.again), 0
	if waiting == 0 {
		return
	}
	l.turned = time.Now()
	for end := l.turned.Add(busyFor); done < waiting && (done == 0 || l.turned.Before(end)); done++ {
		c := l.again[done]
		switch {
		case c.state != queued: // it was closed
			continue
		case c.s.turn != nil && c.abandons(presenceOf(c.fd), c.until, l.turned):
			c.close()
		case c.unread:
			c.unread, c.state = false, reading
			c.read()
		default:
			c.turn(c.in.buf)
		}
		l.weigh(c)
	}
	l.again = slices.Delete(l.again, 0, done)
}
