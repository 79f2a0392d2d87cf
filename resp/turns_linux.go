package resp

import (
	"slices"
	"time"
)

// Who is served when. A socket that worked long in its last turn has the next
// one behind the others, and all such together have busyFor of each round of
// the loop. So who asks for little waits for that long, and for one command
// more, however many there are who ask for much.
const (
	heavyTurn = 200 * time.Microsecond
	busyFor   = time.Millisecond
)

// serve has a socket do what it is ready for, or wait for that behind the
// others.
func (l *loop) serve(c *sock) {
	if c.state == reading && c.heavy {
		c.unread, c.state = true, queued
		l.again = append(l.again, c)
		return
	}
	c.ready()
	l.weigh(c)
}

// weigh notes how long the turn of c took that ends now.
func (l *loop) weigh(c *sock) {
	now := time.Now()
	c.heavy = now.Sub(l.turned) >= heavyTurn
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
