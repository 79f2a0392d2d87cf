//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Attacks by commands that are valid and take long, or take room.

// asks has each client send the same over and over and read the answers, for as long as there is time.
func (s *strike) asks(send func(n, turn int) string) {
	s.together(func(n int) {
		c := s.open(true)
		if c == nil {
			return
		}
		defer c.Close()
		go s.drain(c)
		for turn := 0; s.write(c, send(n, turn)); turn++ {
		}
	})
}

func heavy(s *strike) {
	calls := []string{frame("COMMAND"), frame("COMMAND", "DOCS"), frame("INFO", "everything"), frame("CONFIG", "GET", "*"), frame("HELLO", "3")}
	s.asks(func(n, turn int) string { return calls[(n+turn)%len(calls)] })
}

// many sends commands with 4000 keys, and those of a limiter with the most it takes.
func many(s *strike) {
	words := []string{"EXISTS"}
	for i := range 4000 {
		words = append(words, "many:"+strconv.Itoa(i))
	}
	calls := []string{frame(words...)}
	words[0] = "DEL"
	calls = append(calls, frame(words...))
	if s.limiter {
		legs := []string{"RL.ACQUIREALL"}
		for i := range 64 {
			legs = append(legs, "many:"+strconv.Itoa(i), "10:20", "1")
		}
		calls = append(calls, strings.Repeat(frame(legs...), 20))
	} else {
		words[0] = "MGET"
		calls = append(calls, frame(words...))
	}
	s.asks(func(n, turn int) string { return calls[(n+turn)%len(calls)] })
}

// queued lets a transaction grow.
func queued(s *strike) {
	if !s.multi {
		s.note("the server has no MULTI")
		return
	}
	const count, perWrite = 100_000, 1000
	some := strings.Repeat(frame("EXISTS", strings.Repeat("k", 500)), perWrite)
	s.together(func(n int) {
		c := s.open(true)
		if c == nil {
			return
		}
		defer c.Close()
		go s.drain(c)
		ok := s.write(c, frame("MULTI"))
		for sent := 0; ok && sent < count; sent += perWrite {
			ok = s.write(c, some)
		}
		<-s.ctx.Done()
	})
}

// watching has clients watch many keys, run a transaction on them, and begin again.
func watching(s *strike) {
	if !s.multi {
		s.note("the server has no MULTI")
		return
	}
	var calls strings.Builder
	for i := range 1000 {
		calls.WriteString(frame("WATCH", strings.Repeat("w", 990)+strconv.Itoa(i)))
	}
	calls.WriteString(frame("MULTI") + frame("DEL", strings.Repeat("w", 990)+"0") + frame("EXEC"))
	s.asks(func(n, turn int) string { return calls.String() })
}

// inPipelines has each client send calls by the hundred and wait for the answers, at most so many calls in all.
func (s *strike) inPipelines(most int64, call func(i int64) string) {
	const depth = 100
	var made atomic.Int64
	s.together(func(n int) {
		c := s.open(true)
		if c == nil {
			return
		}
		defer c.Close()
		w := bufio.NewWriterSize(c, 64<<10)
		for {
			first := made.Add(depth) - depth
			if first >= most {
				return
			}
			for i := range int64(depth) {
				k, _ := w.WriteString(call(first + i))
				s.counts.sent.Add(int64(k))
			}
			if w.Flush() != nil {
				return
			}
			var b strings.Builder
			for range depth {
				b.Reset()
				if copyReply(&b, c.r) != nil {
					return
				}
			}
			if strings.HasPrefix(b.String(), "-") {
				s.note("%.100s", strings.TrimSpace(b.String()))
			}
		}
	})
	s.note("%d calls", min(made.Load(), most))
}

func hotkey(s *strike) {
	call := frame("INCR", "attack:hot")
	if s.limiter {
		call = frame("RL.ACQUIRE", "attack:hot", "10", "20")
	}
	s.inPipelines(1<<40, func(int64) string { return call })
}

func keys(s *strike) {
	const count = 1_000_000
	s.inPipelines(int64(count*s.scale), func(i int64) string {
		if s.limiter {
			return frame("RL.ACQUIRE", fmt.Sprintf("attack:key:%08d", i), "1/m", "10")
		}
		return frame("SET", fmt.Sprintf("attack:key:%08d", i), "10 1767225600000", "EX", "60")
	})
}

// globs stores long keys and asks for patterns that a careless matcher takes ages for.
func globs(s *strike) {
	const count = 2000
	s.inPipelines(int64(count*s.scale)+1, func(i int64) string {
		key := strings.Repeat("a", 1000) + strconv.FormatInt(i, 10)
		if s.limiter {
			return frame("RL.ACQUIRE", key, "1/m", "10")
		}
		return frame("SET", key, "x", "EX", "60")
	})
	stars := strings.Repeat("*a", 500) + "b"
	class := "*[" + strings.Repeat("b", 60_000) // not closed
	var calls []string
	for _, pattern := range []string{stars, strings.Repeat("*", 1000) + "b", "*" + strings.Repeat("a", 900) + "b", "*[" + strings.Repeat("b", 1000), strings.Repeat("?*", 400) + "b"} {
		calls = append(calls, frame("KEYS", pattern), frame("SCAN", "0", "MATCH", pattern, "COUNT", "1000"), frame("RL.RESET", "MATCH", pattern),
			frame("CONFIG", "GET", pattern), frame("RL.LIMIT", "LIST", "MATCH", pattern), frame("COMMAND", "LIST", "FILTERBY", "PATTERN", pattern))
	}
	words := []string{"CONFIG", "GET"}
	for range 15 {
		words = append(words, class)
	}
	calls = append(calls, frame(words...), frame("COMMAND", "LIST", "FILTERBY", "PATTERN", class))
	s.together(func(n int) {
		c := s.open(true)
		if c == nil {
			return
		}
		defer c.Close()
		for turn := 0; !s.over(); turn++ {
			began := time.Now()
			call := calls[(n+turn)%len(calls)]
			if _, err := io.WriteString(c, call); err != nil {
				return
			}
			var b strings.Builder
			if copyReply(&b, c.r) != nil {
				return
			}
			const long = 500 * time.Millisecond
			if took := time.Since(began); took > long {
				s.note("%.40q took %v", call, took.Round(100*time.Millisecond))
			}
		}
	})
}
