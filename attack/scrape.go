//go:build linux

package main

import (
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// Attacks on the port of HTTP, where nobody is asked for a password.

// scrape is a request for all figures.
const scrape = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"

// knock connects to the port of HTTP. nil: it failed, which is noted; there is not always such a port.
func (s *strike) knock() *conn {
	nc, err := net.DialTimeout("tcp", s.http, answerWithin)
	return s.opened(&conn{Conn: nc}, err)
}

// visit has each client connect to the port of HTTP, do its part, and wait for the end.
func (s *strike) visit(part func(c *conn)) {
	if s.http == "" {
		s.note("the server has no http-addr")
		return
	}
	s.together(func(n int) {
		for !s.over() {
			c := s.knock()
			if c == nil {
				continue
			}
			part(c)
			s.drain(c)
			c.Close()
		}
	})
}

// headers sends the first lines of a request, then a byte a second.
func headers(s *strike) {
	s.visit(func(c *conn) {
		go func() {
			for ok := s.write(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: "); ok && !s.over(); ok = s.write(c, "a") {
				s.wait(time.Second)
			}
		}()
	})
}

// scrapes asks for the figures in pipelines that are not read, and then reads them.
func scrapes(s *strike) {
	many := strings.Repeat(scrape, 200)
	var stalled atomic.Int64
	s.visit(func(c *conn) {
		c.Conn.(*net.TCPConn).SetReadBuffer(deafBuffer)
		c.SetWriteDeadline(time.Now().Add(time.Second))
		if s.write(c, many) {
			stalled.Add(1)
			s.wait(time.Second)
		}
	})
	s.note("%d pipelines of %d", stalled.Load(), len(many)/len(scrape))
}
