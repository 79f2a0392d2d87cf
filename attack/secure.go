//go:build linux

package main

import (
	"crypto/tls"
	"io"
	"net"
	"time"
)

// greeting is what a TLS client says first. It is made once and sent again and again: that costs nothing, and the
// server a signature each time.
func greeting() []byte {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go tls.Client(theirs, &tls.Config{InsecureSkipVerify: true}).Handshake() // ends when the pipe does
	hello := make([]byte, 16<<10)
	n, err := ours.Read(hello)
	if err != nil {
		panic(err) // nothing is between the two
	}
	return hello[:n]
}

// handshakes greets, takes the server's answer and hangs up.
func handshakes(s *strike) {
	if s.secure == "" {
		s.note("the server has no tls-port")
		return
	}
	hello, end := greeting(), time.Now().Add(answerWithin)
	if by, ok := s.ctx.Deadline(); ok {
		end = by
	}
	s.together(func(n int) {
		for !s.over() {
			nc, err := net.DialTimeout("tcp", s.secure, answerWithin)
			if err != nil {
				s.note("connecting: %v", plain(err))
				s.wait(10 * time.Millisecond)
				continue
			}
			s.counts.opened.Add(1)
			nc.SetDeadline(end)
			s.write(&conn{Conn: nc}, string(hello))
			if n, err := io.ReadAtLeast(nc, make([]byte, 4<<10), 1<<10); n == 0 && err == io.EOF {
				s.counts.closed.Add(1)
			} else if err == nil {
				s.counts.tries.Add(1)
			}
			nc.Close()
		}
	})
	s.note("%d answered", s.counts.tries.Load())
}

// greetings sends half a greeting, and waits for the server to hang up.
func greetings(s *strike) {
	if s.secure == "" {
		s.note("the server has no tls-port")
		return
	}
	hello := string(greeting())
	end, _ := s.ctx.Deadline()
	s.together(func(n int) {
		nc, err := net.DialTimeout("tcp", s.secure, answerWithin)
		if err != nil {
			s.note("connecting: %v", plain(err))
			return
		}
		s.counts.opened.Add(1)
		nc.SetDeadline(end)
		c := &conn{Conn: nc}
		s.write(c, hello[:len(hello)/2])
		s.drain(c)
		c.Close()
	})
}
