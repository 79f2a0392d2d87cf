package resp

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// conn carries a session over any net.Conn with a goroutine of its own, which
// alone touches all but draining and the socket. It serves what an event loop
// cannot: see sock.
type conn struct {
	life
	nc       net.Conn
	in       inbox
	given    bool          // the connection is another's now
	writes   sync.Mutex    // held while something is written
	pushing  sync.Mutex    // guards pushed
	pushed   []byte        // messages to be written
	readable time.Time     // the read deadline in force; zero = none
	writable time.Time     // the write deadline in force
	draining atomic.Int64  // Unix ns until which a stopping server still reads; 0 = it does not stop
	heard    bool          // a stopping server has heard something since
	bell     chan struct{} // rings for a connection that rests; holds one ring
}

func (srv *Server) newConn(nc net.Conn) *conn {
	return &conn{life: srv.newLife(nc), nc: nc, bell: make(chan struct{}, 1)}
}

func (c *conn) start() {
	go func() {
		defer c.srv.done.Done()
		if c.greet() {
			c.waits(time.Now(), false)
			for c.step() {
			}
		}
		if !c.given {
			c.part()
			c.nc.Close()
		}
		c.s.end()
		c.holds(0)
		c.srv.forget(c)
	}()
}

// greet does what comes before the first command, and counts what that takes.
func (c *conn) greet() bool {
	if _, ok := c.nc.(*tls.Conn); ok {
		c.holds(handshakeBytes)
	}
	return c.srv.handshake(c.nc, c.srv.within.handshake)
}

// step executes what has come in and writes what that gave; when that gave
// nothing, it reads on. It returns false when the connection is over.
func (c *conn) step() bool {
	c.in.drop(c.feed(c.in.buf))
	c.holds(int64(cap(c.in.buf) + cap(c.s.out)))
	if (len(c.s.Output()) > 0 || c.s.delay > 0) && !c.flush() {
		return false
	}
	switch c.verdict() {
	case over:
		return false
	case handed:
		c.nc.SetDeadline(time.Time{})
		c.srv.handOver(c.nc, c.s, c.in.buf)
		c.given = true
		return false
	case rest:
		<-c.bell
		return c.draining.Load() == 0 && !c.abandons(presenceAt(c.nc), c.stopsReading(), time.Now())
	case feedOn, feedLater: // the scheduler gives others their turn
		return c.s.turn == nil || !c.abandons(presenceAt(c.nc), c.stopsReading(), time.Now())
	}
	return c.read()
}

// flush waits at the gate and writes.
func (c *conn) flush() bool {
	c.sleep(c.s.delay)
	if c.s.round != 0 && !c.srv.passGate(c.s.round, c.s.addr) {
		return false
	}
	if c.s.ship != 0 {
		if err := c.srv.repl.Await(c.s.ship); err != nil {
			c.srv.closedAtGate(c.s.addr, err)
			return false
		}
	}
	if !c.s.mayLeave() {
		return false
	}
	out := c.s.Output()
	if by := time.Now().Add(c.srv.within.write); by.Sub(c.writable) > c.srv.within.write/10 { // renewing it costs
		c.nc.SetWriteDeadline(by)
		c.writable = by
	}
	c.writes.Lock()
	n, err := c.nc.Write(out)
	c.writes.Unlock()
	c.srv.counters.bytesOut.Add(uint64(n))
	if err != nil {
		c.ended(err)
		return false
	}
	c.s.Written()
	return true
}

// sleep waits so long, or until the connection is to end.
func (c *conn) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	over := time.NewTimer(d)
	defer over.Stop()
	for c.draining.Load() == 0 {
		select {
		case <-over.C:
			return
		case <-c.bell: // a pause that ends rings too
		}
	}
}

// read gets more input, within the deadline that applies.
func (c *conn) read() bool {
	room := c.in.room()
	c.holds(int64(cap(c.in.buf) + cap(c.s.out)))
	c.setReadDeadline()
	n, err := c.nc.Read(room)
	c.in.got(n)
	c.srv.counters.bytesIn.Add(uint64(n))
	if err == nil || n > 0 {
		c.heard = c.draining.Load() != 0
		return true
	}
	c.ended(err)
	return false
}

// part tells a peer that may still be sending of the end: see partFor.
func (c *conn) part() {
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !c.heard || !ok || half.CloseWrite() != nil {
		return
	}
	c.nc.SetReadDeadline(time.Now().Add(partFor))
	io.Copy(io.Discard, c.nc)
}

// ended notes why a connection ended.
func (c *conn) ended(err error) {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && c.draining.Load() == 0:
		c.srv.counters.timeouts.Add(1)
	case err != io.EOF:
		c.srv.log.Debug("connection ended", "client", c.s.addr, "err", err)
	}
}

// setReadDeadline puts the deadline that applies in force.
func (c *conn) setReadDeadline() {
	c.waits(time.Now(), len(c.in.buf) > 0)
	if by := c.readBy(); !by.Equal(c.readable) {
		c.nc.SetReadDeadline(by)
		c.readable = by
	}
	if until := c.stopsReading(); !until.IsZero() {
		c.nc.SetReadDeadline(until)
	}
}

// stopsReading is when a stopping server ends reading; zero = it does not stop.
func (c *conn) stopsReading() time.Time {
	if until := c.draining.Load(); until != 0 {
		return time.Unix(0, until)
	}
	return time.Time{}
}

func (c *conn) drain(by time.Time) {
	c.draining.Store(by.UnixNano())
	c.nc.SetReadDeadline(by)
	c.wake()
}

func (c *conn) cut() {
	raw(c.nc).Close()
	c.draining.CompareAndSwap(0, 1)
	c.wake()
}

func (c *conn) wake() {
	select {
	case c.bell <- struct{}{}:
	default:
	}
}
