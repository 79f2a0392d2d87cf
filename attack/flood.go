//go:build linux

package main

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Attacks by connections: many of them, or such that do not read.

// pipeline is 200 KB of commands with answers as long.
var pipeline = strings.Repeat(frame("ECHO", strings.Repeat("x", 1000)), 200)

const (
	// deafBuffer is what a client that does not read has in its own kernel, bytes. What the server has for it is the
	// server's doing, and the attack costs this side little.
	deafBuffer = 64 << 10
	// deafSends is what such a client sends at most to a server that takes it, bytes.
	deafSends = 20 << 20
)

// stuffs sends until nothing is taken any more, and then waits. That the server hung up shows when the next byte is
// refused.
func (s *strike) stuffs(c *conn) {
	c.Conn.(*net.TCPConn).SetWriteBuffer(deafBuffer)
	ok := true
	for sent := 0; ok && sent < deafSends; sent += len(pipeline) {
		ok = s.write(c, pipeline)
	}
	for ok {
		s.wait(time.Second)
		ok = s.write(c, frame("PING"))
	}
	if !s.over() {
		s.counts.closed.Add(1)
	}
}

// deaf never reads.
func deaf(s *strike) {
	s.enlist(func(c *conn, n int) { s.stuffs(c) })
}

// sipping is deaf but for a few bytes a second: it never stands still.
func sipping(s *strike) {
	s.enlist(func(c *conn, n int) {
		go func() {
			some := make([]byte, 100)
			for !s.over() {
				s.wait(time.Second)
				if _, err := c.Conn.Read(some); err != nil {
					return
				}
			}
		}()
		s.stuffs(c)
	})
}

// idle opens connections one after another, each asking once, and leaves them.
func idle(s *strike) {
	var all []*conn
	for range s.clients {
		c := s.open(true)
		if c == nil {
			break
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(answerWithin))
		if _, err := c.do("PING"); err != nil {
			s.note("connection %d: %v", len(all)+1, plain(err))
			break
		}
		all = append(all, c)
	}
	s.note("%d connections, %s MB", len(all), mega(s.rss()))
	s.wait(time.Minute) // the time ends it
	unserved := 0
	for i := 0; i < len(all); i += 97 { // are they still served?
		if _, err := all[i].do("PING"); err != nil {
			unserved++
		}
	}
	if unserved > 0 {
		s.note("%d of %d that were asked again get no answer", unserved, (len(all)+96)/97)
	}
}

// connects opens connections without end under a lower maxclients.
func connects(s *strike) {
	const most = 1000
	admin, err := s.login()
	if err != nil {
		s.note("%v", err)
		return
	}
	defer admin.Close()
	before, _ := admin.do("CONFIG", "GET", "maxclients")
	lines := strings.Split(before, "\r\n")
	if len(lines) < 5 {
		s.note("CONFIG GET maxclients: %q", before)
		return
	}
	admin.do("CONFIG", "SET", "maxclients", strconv.Itoa(most))
	defer admin.do("CONFIG", "SET", "maxclients", lines[4])
	var mu sync.Mutex
	var held []*conn
	refused := 0
	s.together(func(n int) {
		for !s.over() {
			c := s.open(false)
			if c == nil {
				continue
			}
			c.SetReadDeadline(time.Now().Add(answerWithin))
			s.write(c, "PING\r\n")
			line, err := c.r.ReadString('\n')
			mu.Lock()
			if err == nil && (strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-NOAUTH")) {
				held = append(held, c)
			} else {
				refused++
				c.Close()
			}
			mu.Unlock()
			if strings.Contains(line, "max number") {
				s.note("%s", strings.TrimSpace(line))
			}
		}
	})
	s.note("%d served, %d refused", len(held), refused)
	for _, c := range held {
		c.Close()
	}
}

func churn(s *strike) {
	s.together(func(n int) {
		for !s.over() {
			if c := s.open(true); c != nil {
				c.do("PING")
				c.Close()
			}
		}
	})
}

// resets hangs up by RST while the server answers.
func resets(s *strike) {
	s.together(func(n int) {
		for !s.over() {
			c := s.open(true)
			if c == nil {
				continue
			}
			c.Conn.(interface{ SetLinger(int) error }).SetLinger(0)
			c.SetWriteDeadline(time.Now().Add(5 * time.Millisecond))
			s.write(c, pipeline)
			c.Close()
		}
	})
}

// strangers do before AUTH what they can.
func strangers(s *strike) {
	s.together(func(n int) {
		for turn := 0; !s.over(); turn++ {
			c := s.open(false)
			if c == nil {
				continue
			}
			switch (n + turn) % 4 {
			case 0: // never reads
				for s.write(c, pipeline) {
				}
			case 1: // a big argument
				s.write(c, "*2\r\n$4\r\nAUTH\r\n$16000\r\n"+junk[:15000])
				s.drain(c)
			case 2: // a stream of errors, read
				go s.drain(c)
				for s.write(c, strings.Repeat("*1\r\n$4\r\nPING\r\n", 1000)) {
				}
			case 3: // silence
				s.drain(c)
			}
			if !s.over() {
				s.counts.closed.Add(1)
			}
			c.Close()
		}
	})
}

// guessing tries passwords: by turns on a connection until that is closed, and on another for each.
func guessing(s *strike) {
	s.together(func(n int) {
		for !s.over() {
			c := s.open(false)
			for ok := c != nil; ok && !s.over(); ok = ok && n%2 == 0 {
				_, err := c.do("AUTH", "default", "guess"+strconv.FormatInt(s.counts.tries.Add(1), 10))
				ok = err == nil
			}
			if c != nil {
				c.Close()
			}
		}
	})
	s.note("%d passwords tried", s.counts.tries.Load())
}
