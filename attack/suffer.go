//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// sampleEvery is how often the server's memory is looked at.
	sampleEvery = 10 * time.Millisecond
	// settle is how long a server has after an attack until its memory is looked at last, and settleLong after one that
	// makes it take much.
	settle     = 500 * time.Millisecond
	settleLong = 5 * time.Second
	// deadlines is how long an attack lasts at most that waits for deadlines of 10 s to be kept. It ends when the server
	// has closed all clients; what is more than 10 s is for a busy machine.
	deadlines = 45 * time.Second
)

// attack is one way to be hostile.
type attack struct {
	name    string
	what    string
	clients int           // how many at once, before scaling
	lasts   time.Duration // at most; 0 = what the command line says
	settles time.Duration // 0 = settle
	guarded bool          // it is for servers with a password
	run     func(*strike)
}

// strike is an attack under way.
type strike struct {
	*target
	ctx     context.Context // ends when the time is over
	clients int
	scale   float64
	counts  struct{ opened, closed, sent, tries atomic.Int64 } // connections, of which by the server, bytes, and what an attack counts itself
	mu      sync.Mutex
	notes   []string
}

// result is what an attack did.
type result struct {
	Attack              string
	Before, Peak, After int64 // RSS, bytes
	CPU                 int64 // ms that the server used
	Seconds             float64
	Witness             testimony
	Alive               bool
	report
}

// report is what an attacker tells.
type report struct {
	Clients        int
	Opened, Closed int64    // connections, and those that the server ended
	Sent           int64    // bytes
	Notes          []string `json:",omitempty"`
}

// suffer has the server attacked.
func (t *target) suffer(ctx context.Context, a attack, o options) result {
	lasts := o.time
	if a.lasts > 0 {
		lasts = a.lasts
	}
	r := result{Attack: a.name, Before: t.rss()}
	w, err := t.callWitness()
	if err != nil {
		r.Notes = append(r.Notes, err.Error())
		return r
	}
	began, cpu := time.Now(), t.cpu()
	over := make(chan struct{})
	sampled := make(chan int64)
	go func() { sampled <- t.peak(over) }()
	r.report, err = t.strike(ctx, assault{Addr: t.addr, Password: t.password, Pid: t.pid, Attack: a.name, Scale: o.scale, Lasts: lasts})
	if err != nil {
		r.Notes = append(r.Notes, err.Error())
	}
	r.Seconds, r.CPU = time.Since(began).Seconds(), (t.cpu() - cpu).Milliseconds()
	r.Witness = w.dismiss()
	close(over)
	r.Peak = max(r.Before, <-sampled)
	time.Sleep(max(settle, a.settles))
	r.Alive = t.alive()
	r.After = t.rss()
	return r
}

// peak is the most memory that is seen until over.
func (t *target) peak(over chan struct{}) (most int64) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		most = max(most, t.rss())
		select {
		case <-tick.C:
		case <-over:
			return most
		}
	}
}

// note adds a remark to the result, once.
func (s *strike) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.notes {
		if n == text {
			return
		}
	}
	const most = 8
	if len(s.notes) < most {
		s.notes = append(s.notes, text)
	}
}

// together runs one function per client and waits for all.
func (s *strike) together(client func(n int)) {
	var all sync.WaitGroup
	for n := range s.clients {
		all.Go(func() { client(n) })
	}
	all.Wait()
}

// enlist opens all clients, or as many as it can in a third of the time, and then has each do its part, so that all have
// the same time for it and none is late with its password because of what the others send.
func (s *strike) enlist(part func(c *conn, n int)) {
	const atOnce = 8
	end, _ := s.ctx.Deadline()
	until := time.Now().Add(time.Until(end) / 3)
	all := make([]*conn, s.clients)
	var next atomic.Int64
	var openers sync.WaitGroup
	for range atOnce {
		openers.Go(func() {
			for n := next.Add(1) - 1; n < int64(s.clients); n = next.Add(1) - 1 {
				for all[n] == nil && time.Now().Before(until) {
					all[n] = s.open(true)
				}
			}
		})
	}
	openers.Wait()
	s.together(func(n int) {
		if c := all[n]; c != nil {
			defer c.Close()
			part(c, n)
		}
	})
}

// over says whether the time is.
func (s *strike) over() bool { return s.ctx.Err() != nil }

// wait sleeps, or until the time is over.
func (s *strike) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}

// open connects, with the password if known says so; its reads and writes end when the time is over. nil: it failed,
// which is noted.
func (s *strike) open(known bool) *conn {
	do := s.dial
	if known {
		do = s.login
	}
	return s.opened(do())
}

// opened counts a connection, which ends with the attack; nil if there is an error, which is noted.
func (s *strike) opened(c *conn, err error) *conn {
	if err != nil {
		if !s.over() {
			s.note("connecting: %v", plain(err))
			s.wait(10 * time.Millisecond)
		}
		return nil
	}
	s.counts.opened.Add(1)
	if end, ok := s.ctx.Deadline(); ok {
		c.SetDeadline(end)
	}
	return c
}

// write sends bytes and says whether the server still takes them.
func (s *strike) write(c *conn, text string) bool {
	n, err := io.WriteString(c, text)
	s.counts.sent.Add(int64(n))
	return err == nil
}

// drain reads what the server says until it ends the connection, or the time is over.
func (s *strike) drain(c *conn) {
	first := make([]byte, 200)
	n, err := io.ReadAtLeast(c, first, 1)
	if n > 0 && first[0] == '-' {
		line, _, _ := strings.Cut(string(first[:n]), "\r\n")
		s.note("%s", line)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, c)
	} else if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	var timeout net.Error
	if ours := errors.Is(err, net.ErrClosed) || errors.As(err, &timeout) && timeout.Timeout(); !ours {
		s.counts.closed.Add(1)
	}
}

// plain is an error without the addresses in it, so that alike ones are told once.
func plain(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// print tells a result.
func (r result) print(out io.Writer, asJSON bool) {
	if asJSON {
		json.NewEncoder(out).Encode(r)
		return
	}
	alive := ""
	if !r.Alive {
		alive = "  THE SERVER DOES NOT ANSWER"
	}
	fmt.Fprintf(out, "%-10s rss %s -> %s -> %s MB  cpu %d ms of %.1f s  witness p50 %s p99 %s max %s ms (control %s %s)  %d opened, %d closed by the server, %d MB sent%s\n",
		r.Attack, mega(r.Before), mega(r.Peak), mega(r.After), r.CPU, r.Seconds, milli(r.Witness.P50), milli(r.Witness.P99), milli(r.Witness.Max),
		milli(r.Witness.Control50), milli(r.Witness.Control99), r.Opened, r.Closed, r.Sent>>20, alive)
	if r.Witness.Fault != "" {
		fmt.Fprintf(out, "%-10s the witness: %s\n", "", r.Witness.Fault)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(out, "%-10s %s\n", "", n)
	}
}

func mega(bytes int64) string { return fmt.Sprint((bytes + 1<<19) >> 20) }

func milli(us int64) string { return fmt.Sprintf("%.2f", float64(us)/1000) }
