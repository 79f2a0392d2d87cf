package resp

import (
	"net"
	"slices"
	"syscall"
	"time"
)

// sockState is what a socket of a loop waits for.
type sockState byte

const (
	coming  sockState = iota // its loop has not seen it yet
	reading                  // input
	queued                   // its next turn: it holds input that was not executed yet, or is unread
	writing                  // room for its output; it is not read from meanwhile
	gated                    // its round to be durable, or its time
	resting                  // the end of a pause; it is not in the epoll set meanwhile
	parting                  // its peer to end too, after its own end was said
	gone                     // nothing: it is closed
)

// sock carries a session over a plain socket, driven by an event loop whose
// goroutine alone touches it. While it waits for input and holds no part of a
// command it has no buffers.
type sock struct {
	life
	nc      net.Conn // until the loop's own descriptor takes its place
	loop    *loop
	fd      int
	state   sockState
	place   int       // in loop.watched; -1 = not there
	long    uint8     // a bit for each of its last turns, the newest lowest: whether it was long
	unread  bool      // it is queued to be read, not to go on with what it holds
	deaf    bool      // while it is gated: it is not in the epoll set
	in      inbox     // what came and is not executed yet
	pushed  []byte    // messages that wait for what is under way
	out     []byte    // what the socket has not taken yet, or what waits at the gate
	writeBy time.Time // when out must be out
	until   time.Time // a stopping server reads until then; zero = it does not stop
	drained bool      // the last read of a stopping server was made
	heard   bool      // a stopping server has heard something since
}

// start hands the socket to its loop.
func (c *sock) start() {
	defer c.srv.done.Done()
	c.waits(time.Now(), false)
	fd, err := duplicate(c.nc)
	if err != nil {
		c.srv.counters.acceptErrors.Add(1)
		c.srv.log.Error("cannot serve a connection", "client", c.s.addr, "err", err)
	}
	c.nc.Close()
	c.nc = nil
	c.loop.post(func() { c.arrive(fd) })
}

func (c *sock) drain(by time.Time) {
	c.loop.post(func() {
		c.until = by
		c.loop.watch(c, by)
	})
}

func (c *sock) cut() { c.loop.post(c.close) }

func (c *sock) wake() {
	c.loop.post(func() {
		if c.state == resting && c.expect(syscall.EPOLL_CTL_ADD, syscall.EPOLLIN) {
			c.state = reading
			switch {
			case c.s.turn != nil && c.abandons(presenceOf(c.fd), c.until, time.Now()): // WAIT
				c.close()
			case c.sendPushed():
				c.turn(c.in.buf)
			}
		}
	})
}

// rest waits for the end of a pause. A stop does not wait for it.
func (c *sock) rest() {
	c.state = resting
	if c.expect(syscall.EPOLL_CTL_DEL, 0) && !c.until.IsZero() {
		c.loop.watch(c, c.until)
	}
}

// arrive begins to wait for input; it is the first that the loop hears of a
// socket, unless it is to be drained or cut already. fd is -1 if there is none.
func (c *sock) arrive(fd int) {
	l := c.loop
	c.fd = fd
	if fd < 0 || c.state == gone {
		c.release()
		return
	}
	if fd >= len(l.socks) {
		l.socks = append(l.socks, make([]*sock, fd+1-len(l.socks))...)
	}
	l.socks[fd] = c
	c.state = reading
	if c.expect(syscall.EPOLL_CTL_ADD, syscall.EPOLLIN) {
		c.await()
	}
}

// close ends the connection, whatever it waits for.
func (c *sock) close() {
	was := c.state
	c.state = gone
	if was != coming && was != gone { // arrive releases one that was cut before
		c.release()
	}
}

// release gives back what a connection takes.
func (c *sock) release() {
	l := c.loop
	if c.fd >= 0 {
		l.socks[c.fd] = nil
		syscall.Close(c.fd) // leaves the epoll set with it
	}
	c.in, c.out, c.pushed, c.state = inbox{}, nil, nil, gone
	l.unwatch(c)
	l.count.Add(-1)
	c.s.end()
	c.holds(0)
	c.srv.forget(c)
}

// expect tells the epoll set what to look for.
func (c *sock) expect(op int, events uint32) bool {
	err := c.loop.poll.control(op, c.fd, events)
	if err != nil {
		c.srv.log.Error("closing a client: its socket cannot be watched", "client", c.s.addr, "err", err)
		c.close()
	}
	return err == nil
}

// ready is called when the socket is.
func (c *sock) ready() {
	switch c.state {
	case reading:
		c.read()
	case writing:
		c.flush()
	case gated:
		c.overhear()
	case parting:
		if n, errno := readFd(c.fd, c.loop.in); n <= 0 && errno != syscall.EAGAIN && errno != syscall.EINTR {
			c.close()
		}
	}
}

// read gets what came and gives the connection its turn.
func (c *sock) read() {
	area, have := c.loop.in, len(c.in.buf)
	if have > smallRest {
		c.in.room()
		area = c.in.buf[:cap(c.in.buf)]
	} else {
		copy(area, c.in.buf)
	}
	n, errno := readFd(c.fd, area[have:])
	switch {
	case n > 0:
		c.srv.counters.bytesIn.Add(uint64(n))
		c.heard = !c.until.IsZero()
		c.turn(area[:have+n])
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
	default:
		c.ended(errno)
	}
}

// ended closes the connection after its socket failed, or after its peer did
// (errno 0).
func (c *sock) ended(errno syscall.Errno) {
	if errno != 0 {
		c.srv.log.Debug("connection ended", "client", c.s.addr, "err", errno)
	}
	c.close()
}

// turn executes input and writes what that gives, until more input is needed,
// the output is stuck or others must have their turn. It keeps the rest of the
// input, which may be the connection's own.
func (c *sock) turn(in []byte) {
	c.state = reading
	for feeds := 1; c.state == reading; feeds++ {
		in = in[c.execute(in):]
		switch next := c.verdict(); {
		case c.state != reading:
		case next == over:
			c.close()
		case next == handed:
			c.giveAway(in)
		case next == rest:
			c.in.keep(in)
			c.rest()
			c.account()
			return
		case next == readOn:
			c.in.keep(in)
			c.await()
			c.account()
			return
		case next == feedLater, feeds == feedsAtOnce, time.Since(c.loop.turned) >= heavyTurn:
			c.state = queued
			c.loop.again = append(c.loop.again, c)
		}
	}
	if c.state != gone {
		c.in.keep(in)
		c.account()
	}
}

// account notes what the buffers take.
func (c *sock) account() { c.holds(int64(cap(c.in.buf) + cap(c.out) + cap(c.pushed))) }

// execute feeds the session and sends its output. The session answers into the
// loop's buffer, and has none of its own.
func (c *sock) execute(in []byte) (taken int) {
	l := c.loop
	c.s.out = l.out[:0]
	taken = c.feed(in)
	switch {
	case len(c.s.out) == 0 && c.s.delay == 0:
	case c.s.round > c.srv.durability.Durable() || c.s.delay > 0 || c.s.awaitsAcks():
		c.park()
	case !c.s.mayLeave():
		c.close()
	case c.send(c.s.out):
		c.s.Written()
	}
	if l.out, c.s.out = c.s.out, nil; cap(l.out) == 0 || cap(l.out) > 2*flushAt {
		l.out = make([]byte, 0, flushAt)
	}
	return taken
}

// await waits for input, within the deadline that applies.
func (c *sock) await() {
	c.waits(c.loop.now, len(c.in.buf) > 0)
	if by := c.deadline(); !by.IsZero() {
		c.loop.watch(c, by)
	}
}

// send writes output. What the socket does not take is kept and waits for room,
// unless it is what is kept already.
func (c *sock) send(out []byte) (sent bool) {
	n, errno := writeFd(c.fd, out)
	c.srv.counters.bytesOut.Add(uint64(n))
	switch {
	case n == len(out):
		return true
	case errno != 0 && errno != syscall.EAGAIN && errno != syscall.EINTR:
		c.ended(errno)
	case c.state == writing:
		c.out = out[n:]
	case c.expect(syscall.EPOLL_CTL_MOD, syscall.EPOLLOUT):
		c.out, c.state = slices.Clone(out[n:]), writing
		c.writeBy = c.loop.now.Add(c.srv.within.write)
		c.loop.watch(c, c.writeBy)
	}
	return false
}

// flush goes on with the output that waited for room, and when it is out with
// the input.
func (c *sock) flush() {
	if c.send(c.out) && c.expect(syscall.EPOLL_CTL_MOD, syscall.EPOLLIN) {
		c.sent()
	}
}

// sent goes on after the output that was kept is out.
func (c *sock) sent() {
	c.out = nil
	c.s.Written()
	if !c.sendPushed() {
		return
	}
	if c.heavy() {
		c.state = queued
		c.loop.again = append(c.loop.again, c)
		return
	}
	c.turn(c.in.buf)
}

// deadline is when the connection ends unless something happens; zero = never.
func (c *sock) deadline() time.Time {
	switch c.state {
	case reading:
		return nearest(c.readBy(), c.until)
	case writing:
		return c.writeBy
	case resting, parting:
		return c.until
	}
	return time.Time{}
}

// late ends a connection that is past its deadline. When the server stops, what
// has arrived by then is still answered.
func (c *sock) late() {
	draining := c.state == reading && !c.until.IsZero() && !c.loop.now.Before(c.until)
	if !draining {
		if c.state == reading || c.state == writing {
			c.srv.counters.timeouts.Add(1)
		}
		c.close()
		return
	}
	if !c.drained {
		c.drained = true
		c.read()
	}
	if c.state == reading {
		c.part()
	}
}

// part ends the connection of a peer that may still be sending: see partFor.
func (c *sock) part() {
	if !c.heard || syscall.Shutdown(c.fd, syscall.SHUT_WR) != nil {
		c.close()
		return
	}
	c.in, c.state = inbox{}, parting
	c.until = c.loop.now.Add(partFor)
	c.loop.watch(c, c.until)
}
