//go:build linux

package main

import (
	"io"
	"math/rand/v2"
	"strings"
	"time"
)

// Attacks on the reader: what a peer sends is no command, or a very long one.

// declared are lengths that no server should believe.
var declared = []string{"9223372036854775807", "9223372036854775808", "18446744073709551615", "4294967296", "2147483647", "1073741824",
	"99999999999999999999999999", "-1", "-9223372036854775808", "+5", "0x10", "007", "", "5.5", " 7", strings.Repeat("9", 10_000)}

// junk is 64 KB to follow what was declared.
var junk = strings.Repeat("x", 64<<10)

// again has each client connect, send something and listen to the end, until the time is over.
func (s *strike) again(send func(c *conn, n, turn int)) {
	s.together(func(n int) {
		for turn := 0; !s.over(); turn++ {
			c := s.open(true)
			if c == nil {
				continue
			}
			// Who closes early has said why, if anything: it is looked at for a moment only.
			send(c, n, turn)
			c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			s.drain(c)
			c.Close()
		}
	})
}

func lengths(s *strike) {
	s.again(func(c *conn, n, turn int) {
		s.write(c, "*2\r\n$4\r\nECHO\r\n$"+declared[(n+turn)%len(declared)]+"\r\n"+junk)
	})
}

func counts(s *strike) {
	s.again(func(c *conn, n, turn int) {
		s.write(c, "*"+declared[(n+turn)%len(declared)]+"\r\n$4\r\nECHO\r\n"+junk)
	})
}

func bulk(s *strike) {
	const size = 512 << 20
	s.again(func(c *conn, n, turn int) {
		ok := s.write(c, "*2\r\n$4\r\nECHO\r\n$536870912\r\n")
		for sent := 0; ok && sent < size; sent += len(junk) {
			ok = s.write(c, junk)
		}
	})
}

func empties(s *strike) {
	const count, perWrite = 4_000_000, 10_000
	some := strings.Repeat("$0\r\n\r\n", perWrite)
	s.again(func(c *conn, n, turn int) {
		head := "*4000000\r\n"
		if turn%2 == 1 {
			head = "*4096\r\n"
		}
		ok := s.write(c, head)
		for sent := 0; ok && sent < count; sent += perWrite {
			ok = s.write(c, some)
		}
	})
}

func inline(s *strike) {
	const size = 64 << 20
	s.again(func(c *conn, n, turn int) {
		ok := true
		for sent := 0; ok && sent < size; sent += len(junk) {
			ok = s.write(c, junk)
		}
	})
}

// hoard sends all but the end of a command of nearly 1 MB, in arguments that every server takes.
func hoard(s *strike) {
	piece := "$60000\r\n" + strings.Repeat("x", 60000) + "\r\n"
	s.enlist(func(c *conn, n int) {
		ok := s.write(c, "*20\r\n")
		for range 17 {
			ok = ok && s.write(c, piece)
		}
		s.drain(c)
	})
}

// cramped is hoard while little memory is allowed: what clients have sent must find room in it, too.
func cramped(s *strike) {
	const allowed = "10485760"
	admin, err := s.login()
	if err != nil {
		s.note("%v", err)
		return
	}
	defer admin.Close()
	admin.do("CONFIG", "SET", "maxmemory", allowed)
	defer admin.do("CONFIG", "SET", "maxmemory", "0")
	hoard(s)
}

func dribble(s *strike) {
	text := "*17\r\n" + strings.Repeat("$60000\r\n"+strings.Repeat("x", 60000)+"\r\n", 17)
	s.together(func(n int) {
		c := s.open(true)
		if c == nil {
			return
		}
		defer c.Close()
		for i := range text {
			if !s.write(c, text[i:i+1]) {
				break
			}
		}
		s.drain(c)
	})
}

// loris sends the first half of a command, then a byte a second.
func loris(s *strike) {
	halves := []string{"*3\r\n$10\r\nRL.AC", "*", "*1\r\n$", "$", "PIN", "*2\r\n$4\r\nECHO\r\n$1000\r\nx", "*3\r\n$3\r\nSET\r\n$1\r\n"}
	s.enlist(func(c *conn, n int) {
		go func() {
			for ok := s.write(c, halves[n%len(halves)]); ok && !s.over(); ok = s.write(c, "1") {
				s.wait(time.Second)
			}
		}()
		s.drain(c)
	})
}

func web(s *strike) {
	requests := []string{
		"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\nFLUSHALL\r\nFLUSHALL\r\n",
		"Host: localhost\r\nFLUSHALL\r\n",
		"OPTIONS * HTTP/1.0\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00\xff", 250), // a TLS greeting
	}
	s.again(func(c *conn, n, turn int) { s.write(c, requests[(n+turn)%len(requests)]) })
}

// random sends commands with some bytes changed by turns with mere noise.
func random(s *strike) {
	words := []string{"PING", "ECHO", "EXISTS", "HELLO", "3", "AUTH", "CLIENT", "SETNAME", "COMMAND", "INFO", "RL.ACQUIRE", "RL.PEEK", "1/m", "10", "k", "", "-1",
		"9223372036854775807", "\r\n", "@x", "fixed:1/m", "COST", "MAXWAIT", "SCAN", "MULTI", "EXEC", "WATCH", "DISCARD", "RESET", "*", "[", strings.Repeat("k", 2000)}
	s.again(func(c *conn, n, turn int) {
		var b strings.Builder
		for range 1 + rand.IntN(50) {
			var call []string
			for range 1 + rand.IntN(6) {
				call = append(call, words[rand.IntN(len(words))])
			}
			b.WriteString(frame(call...))
		}
		noise := []byte(b.String())
		if turn%2 == 0 {
			for range 1 + rand.IntN(5) {
				noise[rand.IntN(len(noise))] = byte(rand.IntN(256))
			}
		} else {
			for i := range noise {
				noise[i] = byte(rand.IntN(256))
			}
		}
		go io.Copy(io.Discard, c)
		s.write(c, string(noise))
	})
}
