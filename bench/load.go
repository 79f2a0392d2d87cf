//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

const (
	readBuffer    = 64 << 10               // bytes per connection; far more than the replies of one batch
	stall         = 10 * time.Second       // a server silent for longer has failed the run
	pollEvery     = 250 * time.Millisecond // how often a waiting generator looks whether it was interrupted
	latencyMax    = 60 * time.Second       // longer latencies count as this
	latencyDigits = 3                      // significant digits the histogram keeps
)

// A generator drives one server over blocking sockets watched by one epoll, in the calling thread: no goroutine per
// connection and no client library, because on a small machine what the generator spends the server lacks.
type generator struct {
	epoll int
	conns []*conn
}

type conn struct {
	fd      int
	out     []byte // the batch last sent
	in      []byte
	have    int // bytes of in that are the beginning of an element
	sent    time.Time
	waiting int64 // replies the batch in flight still lacks
	replies replies
}

// A job is what each connection does in a closed loop: send a batch, wait for all its replies, send the next.
type job struct {
	frame      frame
	spent      *frame                      // sent instead of frame for every spentEvery-th key, if not nil
	pick       func() (key int, more bool) // called once for each call; no more ends the job
	depth      int                         // calls in a batch
	clock      func() int64                // called after each pick: the call's time in Unix ms; nil = the clock
	limit      time.Duration               // no batch starts after it; 0 = only pick ends the job
	spentEvery int
}

// An outcome counts what was answered. Latency is that of a batch, in nanoseconds from before its write until its last
// reply was read.
type outcome struct {
	calls, allowed, denied int64
	elapsed                time.Duration
	latency                *hdrhistogram.Histogram
}

func newLatency() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, latencyMax.Nanoseconds(), latencyDigits)
}

// dial opens connections to a port of this machine. Each has had a PING answered, so what a server sets up
// for a new connection is behind it.
func dial(port, connections int) (*generator, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	g := &generator{epoll: epoll}
	for i := range connections {
		c, err := connect(port)
		if err == nil {
			g.conns = append(g.conns, c)
			event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}
			err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, c.fd, &event)
		}
		if err != nil {
			g.close()
			return nil, fmt.Errorf("connection %d to port %d: %w", i+1, port, err)
		}
	}
	return g, g.ping()
}

func connect(port int) (*conn, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	timeout := unix.NsecToTimeval(stall.Nanoseconds())
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout),
		unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}),
	)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &conn{fd: fd, in: make([]byte, readBuffer)}, nil
}

func (g *generator) ping() error {
	left := len(g.conns)
	_, err := g.run(context.Background(), job{frame: newFrame("PING"), depth: 1, pick: func() (int, bool) {
		left--
		return 0, left >= 0
	}})
	if err != nil {
		g.close()
	}
	return err
}

func (g *generator) close() {
	for _, c := range g.conns {
		unix.Close(c.fd)
	}
	unix.Close(g.epoll)
}

// run does one job on all connections. An error reply ends it with that reply's text.
func (g *generator) run(ctx context.Context, j job) (outcome, error) {
	r := &running{job: j, latency: newLatency(), now: time.Now()}
	start := r.now
	for _, c := range g.conns {
		c.replies = replies{}
		if err := r.send(c, start); err != nil {
			return outcome{}, err
		}
	}
	events := make([]unix.EpollEvent, len(g.conns))
	for r.busy > 0 {
		n, err := unix.EpollWait(g.epoll, events, int(pollEvery.Milliseconds()))
		if err != nil && err != unix.EINTR {
			return outcome{}, fmt.Errorf("epoll: %w", err)
		}
		if ctx.Err() != nil {
			return outcome{}, context.Cause(ctx)
		}
		if n <= 0 && time.Since(r.now) > stall {
			return outcome{}, fmt.Errorf("the server has not answered for %s", stall)
		}
		for _, event := range events[:max(n, 0)] {
			if err := r.receive(g.conns[event.Fd], start); err != nil {
				return outcome{}, err
			}
		}
	}
	out := outcome{elapsed: r.now.Sub(start), latency: r.latency}
	for _, c := range g.conns {
		out.calls += c.replies.total
		out.allowed += c.replies.allowed
		out.denied += c.replies.denied
	}
	return out, nil
}

// running is a job under way.
type running struct {
	job
	latency *hdrhistogram.Histogram
	now     time.Time // when the last batch was completed
	busy    int       // connections with a batch in flight
	ended   bool      // nothing more is sent
}

// send writes the connection's next batch, unless the job has ended.
func (r *running) send(c *conn, start time.Time) error {
	r.ended = r.ended || r.limit > 0 && r.now.Sub(start) >= r.limit
	c.out, c.waiting = c.out[:0], 0
	ms := r.now.UnixMilli()
	for !r.ended && c.waiting < int64(r.depth) {
		key, more := r.pick()
		if !more {
			r.ended = true
			break
		}
		f := &r.frame
		if r.spent != nil && key%r.spentEvery == 0 {
			f = r.spent
		}
		if r.clock != nil {
			ms = r.clock()
		}
		c.out = f.appendTo(c.out, key, ms)
		c.waiting++
	}
	if c.waiting == 0 {
		return nil
	}
	r.busy++
	c.sent = r.now
	for rest := c.out; len(rest) > 0; {
		n, err := unix.Write(c.fd, rest)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("send: %w", err)
		}
		rest = rest[max(n, 0):]
	}
	return nil
}

// receive reads what has come and, if it completes the batch, sends the next one.
func (r *running) receive(c *conn, start time.Time) error {
	before := c.replies.total
	if err := c.read(); err != nil {
		return err
	}
	c.waiting -= c.replies.total - before
	if c.waiting > 0 {
		return nil
	}
	r.now = time.Now()
	r.busy--
	if err := r.latency.RecordValue(int64(min(r.now.Sub(c.sent), latencyMax))); err != nil {
		return fmt.Errorf("latency: %w", err)
	}
	return r.send(c, start)
}

// read reads what has come and counts the complete replies. An error reply is an error.
func (c *conn) read() error {
	n, err := unix.Read(c.fd, c.in[c.have:])
	if err == unix.EINTR {
		return nil
	}
	if err != nil || n == 0 {
		return fmt.Errorf("the server closed the connection (%v)", err)
	}
	c.have += n
	used := c.replies.scan(c.in[:c.have])
	c.have = copy(c.in, c.in[used:c.have])
	if c.replies.err != nil {
		return c.replies.err
	}
	if c.have == len(c.in) {
		return fmt.Errorf("an element of a reply is longer than %d bytes", len(c.in))
	}
	return nil
}
