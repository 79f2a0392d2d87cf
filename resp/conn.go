package resp

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Bounds of a connection's life.
const (
	firstRead     = 1 << 10          // bytes a new client's input buffer has
	idleRead      = 64 << 10         // bytes a drained input buffer may keep
	writeWithin   = 10 * time.Second // a client must take its replies
	commandWithin = 10 * time.Second // a command must be complete after its first byte
	authWithin    = 5 * time.Second  // and the password there after connecting
	refuseWithin  = 100 * time.Millisecond
	deadlineSlack = time.Second // a write deadline is renewed at most this often
)

// conn carries a session over a socket. Its goroutine alone touches all but
// draining and the socket.
type conn struct {
	srv      *Server
	nc       net.Conn
	s        *Session
	in       []byte // in[start:end] is not executed yet
	start    int
	end      int
	born     time.Time
	begun    time.Time    // when the unfinished command at the front came; zero = there is none
	progress uint64       // the session's count of commands then
	readable time.Time    // the read deadline in force; zero = none
	writable time.Time    // the write deadline in force
	draining atomic.Int64 // Unix ns until which a stopping server still reads; 0 = it does not stop
}

// refuse sends one error line and closes.
func (c *conn) refuse(text string) {
	c.srv.counters.refused.Add(1)
	c.nc.SetDeadline(time.Now().Add(refuseWithin))
	c.nc.Write(appendError(nil, text))
	c.nc.Close()
}

// serve is the life of a connection. A panic in it costs only this client.
func (c *conn) serve() {
	defer c.nc.Close()
	defer func() {
		if fault := recover(); fault != nil {
			c.srv.counters.panics.Add(1)
			c.srv.log.Error("fault in a command, its connection is closed", "fault", fault, "stack", string(debug.Stack()))
			c.nc.SetWriteDeadline(time.Now().Add(refuseWithin))
			c.nc.Write(appendError(nil, errInternal))
		}
	}()
	if c.srv.protected(c.nc) {
		c.refuse(errDenied)
		return
	}
	c.setKeepAlive()
	c.s = c.srv.newSession(c.nc.RemoteAddr().String(), c.nc.LocalAddr().String())
	for c.step() {
	}
}

// step executes what has come in and writes what that gave; when that gave
// nothing, it reads on. It returns false when the connection is over.
func (c *conn) step() bool {
	c.start += c.s.Feed(c.in[c.start:c.end])
	if len(c.s.Output()) > 0 && !c.flush() || c.s.act == actionClose {
		return false
	}
	if c.s.full {
		return true // the output, not the input, stopped Feed
	}
	return c.read()
}

// flush waits at the gate and writes. If the round fails the connection ends
// unanswered: a reply that promised more than the disk holds is never sent.
func (c *conn) flush() bool {
	if c.s.round != 0 {
		if err := c.srv.durability.Wait(c.s.round); err != nil {
			c.srv.log.Error("closing a client unanswered: its change could not be made durable", "client", c.s.addr, "err", err)
			return false
		}
	}
	out := c.s.Output()
	now := time.Now()
	if by := now.Add(writeWithin); by.Sub(c.writable) > deadlineSlack {
		c.nc.SetWriteDeadline(by)
		c.writable = by
	}
	if _, err := c.nc.Write(out); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.srv.counters.timeouts.Add(1)
		}
		return false
	}
	c.srv.counters.bytesOut.Add(uint64(len(out)))
	c.s.Written()
	return true
}

// read gets more input: room first, then the deadline that applies, then bytes.
func (c *conn) read() bool {
	c.makeRoom()
	c.setReadDeadline()
	n, err := c.nc.Read(c.in[c.end:])
	c.end += n
	c.srv.counters.bytesIn.Add(uint64(n))
	if err == nil || n > 0 {
		return true
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && c.draining.Load() == 0 {
		c.srv.counters.timeouts.Add(1)
	} else if err != io.EOF {
		c.srv.log.Debug("connection ended", "client", c.s.addr, "err", err)
	}
	return false
}

// makeRoom moves an unfinished command to the front and grows the buffer when
// it is full. The parser bounds a command, and so the buffer.
func (c *conn) makeRoom() {
	if c.start == c.end {
		c.start, c.end = 0, 0
		if len(c.in) > idleRead {
			c.in = nil
		}
	}
	if c.end < len(c.in) {
		return
	}
	to := c.in
	if c.start == 0 {
		to = make([]byte, max(firstRead, min(4*len(c.in), maxCommand+maxHeader)))
	}
	c.end = copy(to, c.in[c.start:c.end])
	c.in, c.start = to, 0
}

// setReadDeadline puts the nearest deadline that applies in force: of the
// unfinished command, of AUTH, of an idle client.
func (c *conn) setReadDeadline() {
	var by time.Time
	now := time.Now()
	if c.start == c.end {
		c.begun = time.Time{}
	} else if c.begun.IsZero() || c.s.progress != c.progress {
		c.begun, c.progress = now, c.s.progress
	}
	nearest := func(t time.Time) {
		if by.IsZero() || t.Before(by) {
			by = t
		}
	}
	if !c.begun.IsZero() {
		nearest(c.begun.Add(commandWithin))
	}
	if !c.s.authed {
		nearest(c.born.Add(authWithin))
	}
	if idle := c.srv.settings.Load().Timeout; idle > 0 {
		nearest(now.Add(idle))
	}
	if !by.Equal(c.readable) {
		c.nc.SetReadDeadline(by)
		c.readable = by
	}
	if until := c.draining.Load(); until != 0 {
		c.nc.SetReadDeadline(time.Unix(0, until))
	}
}

// drain makes the connection end at the given time, unless its client ends it
// before. Called from other goroutines.
func (c *conn) drain(by time.Time) {
	c.draining.Store(by.UnixNano())
	c.nc.SetReadDeadline(by)
}

// setKeepAlive lets the kernel find peers that vanished.
func (c *conn) setKeepAlive() {
	tcp, ok := c.nc.(*net.TCPConn)
	if !ok {
		return
	}
	every := c.srv.settings.Load().KeepAlive
	tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: every > 0, Idle: every, Interval: max(every/3, time.Second), Count: 3})
}

// protected says whether protected mode turns this peer away: no password is
// set and the peer is not on this machine.
func (srv *Server) protected(nc net.Conn) bool {
	s := srv.settings.Load()
	if !s.ProtectedMode || s.Password != "" {
		return false
	}
	tcp, ok := nc.RemoteAddr().(*net.TCPAddr)
	return ok && !tcp.IP.IsLoopback()
}
