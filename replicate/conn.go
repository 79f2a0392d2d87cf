package replicate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// dialWithin bounds a Dial up to the answer to its command.
	dialWithin = 2 * time.Second
	// writeWithin is how long a peer may take nothing of what is written to it.
	writeWithin = 10 * time.Second
	// readBuffer is the buffer of a link while no larger frame comes.
	readBuffer = 64 << 10
	// nowBytes is the longest that is written by the loop itself.
	nowBytes = 64 << 10
	// maxLine bounds what a peer says before frames.
	maxLine = 1 << 10
)

// A peerConn is the socket of a link, with a goroutine that reads and one that
// writes what has to wait.
type peerConn struct {
	r    *Runner
	id   LinkID
	nc   net.Conn
	raw  syscall.RawConn // of nc, nil if that is no plain socket
	mu   sync.Mutex
	out  net.Buffers // to be written
	busy bool        // write has taken what it is writing
	end  bool        // close when all is written
	bell chan struct{}
}

func (r *Runner) newConn(id LinkID, nc net.Conn) *peerConn {
	c := &peerConn{r: r, id: id, nc: nc, bell: make(chan struct{}, 1)}
	if plain, ok := nc.(*net.TCPConn); ok {
		c.raw, _ = plain.SyscallConn()
	}
	return c
}

// send writes what the socket takes at once, if that is allowed and nothing is queued before it, and queues the rest. It returns how
// many bytes have left. The node sees to it that not too many are queued.
func (c *peerConn) send(raw []byte, now bool) (sent int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now && c.raw != nil && !c.busy && !c.end && len(c.out) == 0 && len(raw) <= nowBytes {
		sent = c.writeNow(raw)
	}
	if sent < len(raw) {
		c.out = append(c.out, raw[sent:])
		c.ring()
	}
	return sent
}

// writeNow writes as much as the socket takes without waiting. What is wrong with it write is going to see.
func (c *peerConn) writeNow(raw []byte) (sent int) {
	_ = c.raw.Write(func(fd uintptr) (done bool) {
		if n, err := syscall.Write(int(fd), raw); err == nil {
			sent = n
		}
		return true
	})
	return sent
}

// finish closes the connection when all was written.
func (c *peerConn) finish() {
	c.mu.Lock()
	c.end = true
	c.mu.Unlock()
	c.ring()
}

func (c *peerConn) ring() {
	select {
	case c.bell <- struct{}{}:
	default:
	}
}

// close ends the connection now.
func (c *peerConn) close() {
	c.nc.Close()
	c.finish()
}

// write writes what is queued until the connection ends.
func (c *peerConn) write() {
	for range c.bell {
		c.mu.Lock()
		out, end := c.out, c.end
		c.out, c.busy = nil, len(c.out) > 0
		c.mu.Unlock()
		if len(out) > 0 {
			c.nc.SetWriteDeadline(time.Now().Add(writeWithin))
			n, err := out.WriteTo(c.nc)
			c.nc.SetWriteDeadline(time.Time{}) // send does not wait
			c.mu.Lock()
			c.busy = false
			c.mu.Unlock()
			if err != nil {
				end = true
			} else {
				c.r.post(func() { c.r.step(Sent{c.id, int(n)}) })
			}
		}
		if end {
			c.nc.Close()
			return
		}
	}
}

// read tells the node the frames that come until the connection ends. have was
// read before.
func (c *peerConn) read(have []byte) {
	err := c.frames(have)
	c.nc.Close()
	c.finish()
	c.r.post(func() {
		if c.r.conns[c.id] == c {
			delete(c.r.conns, c.id)
			delete(c.r.walks, c.id)
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				c.r.o.Log.Debug("replication link ended", "peer", c.nc.RemoteAddr().String(), "err", err)
			}
			c.r.step(Closed{Link: c.id})
		}
	})
}

func (c *peerConn) frames(have []byte) error {
	buf := make([]byte, max(readBuffer, len(have)))
	n := copy(buf, have)
	taken := make(chan int, 1)
	for {
		used, need, err := 0, 0, error(nil)
		if n > 0 {
			// The loop takes all frames that are there; they are its until it has.
			if !c.r.post(func() { used, need, err = c.take(buf[:n]); taken <- used }) {
				return net.ErrClosed
			}
			select {
			case <-taken:
			case <-c.r.done:
				return net.ErrClosed
			}
			if err != nil {
				return err
			}
		}
		n = copy(buf, buf[used:n])
		if need > len(buf) {
			buf = append(make([]byte, 0, need), buf[:n]...)[:need]
		}
		m, err := c.nc.Read(buf[n:])
		n += m
		if err != nil {
			return err
		}
	}
}

// take is done by the loop: it tells the node all whole frames and says how many
// bytes they were, and how many the next one needs.
func (c *peerConn) take(b []byte) (used, need int, err error) {
	for c.r.conns[c.id] == c {
		f, need, err := nextFrame(b[used:])
		if err != nil || need > 0 {
			return used, need, err
		}
		c.r.step(Received{c.id, f})
		used += len(f.raw)
	}
	return used, 0, net.ErrClosed
}

// dial makes a link.
func (r *Runner) dial(d Dial) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), dialWithin)
		defer cancel()
		nc, err := r.o.Dial(ctx, d.Addr)
		if err != nil {
			r.o.Log.Debug("cannot connect to a node", "addr", d.Addr, "err", err)
			r.post(func() { r.step(Closed{d.Link, errors.Is(err, syscall.ECONNREFUSED)}) })
			return
		}
		line, rest, err := r.introduce(nc, d.Command)
		if err != nil {
			r.o.Log.Warn("a node does not let this one in", "addr", d.Addr, "err", err)
			nc.Close()
			r.post(func() { r.step(Closed{Link: d.Link}) })
			return
		}
		c := r.newConn(d.Link, nc)
		if !r.post(func() {
			if r.node.links[d.Link] == nil {
				c.close() // hung up meanwhile
			} else {
				r.conns[d.Link] = c
				r.step(Line{d.Link, line})
			}
			go c.write()
			go c.read(rest)
		}) {
			nc.Close()
		}
	}()
}

// introduce says who this node is and what it wants, and reads the answer. rest
// came behind it.
func (r *Runner) introduce(nc net.Conn, command []string) (line string, rest []byte, err error) {
	nc.SetDeadline(time.Now().Add(dialWithin))
	defer nc.SetDeadline(time.Time{})
	in := bufio.NewReaderSize(nc, readBuffer)
	user, password := r.o.Login()
	host, port, err := net.SplitHostPort(r.o.Self.Addr)
	if err != nil {
		return "", nil, err
	}
	var first [][]string
	switch {
	case password != "" && user != "":
		first = append(first, []string{"AUTH", user, password})
	case password != "":
		first = append(first, []string{"AUTH", password})
	}
	first = append(first, []string{"REPLCONF", "listening-port", port, "ip-address", host, "node-id", r.o.Self.ID, "capa", "rl1"})
	for _, words := range first {
		if _, err := nc.Write(appendCommand(nil, words)); err != nil {
			return "", nil, err
		}
		answer, err := readLine(in)
		if err != nil {
			return "", nil, err
		}
		if answer != "+OK" {
			return "", nil, fmt.Errorf("it answers %s: %.200q", words[0], answer)
		}
	}
	if _, err := nc.Write(appendCommand(nil, command)); err != nil {
		return "", nil, err
	}
	if line, err = readLine(in); err != nil {
		return "", nil, err
	}
	rest, _ = in.Peek(in.Buffered())
	return line, rest, nil
}

func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	if len(line) > maxLine {
		return "", errFrame
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}

func appendCommand(dst []byte, words []string) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(words))
	for _, w := range words {
		dst = fmt.Appendf(dst, "$%d\r\n%s\r\n", len(w), w)
	}
	return dst
}

// Serve takes over a connection on which a peer has sent RL.SYNC or RL.PULL,
// with these arguments. have came behind the command.
func (r *Runner) Serve(nc net.Conn, have []byte, from Peer, args []string) error {
	if len(args) != 4 {
		return errFrame
	}
	offset, err1 := strconv.ParseUint(args[2], 10, 64)
	term, err2 := strconv.ParseUint(args[3], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	id := LinkID(r.accepted.Add(2))
	var m Message = Attach{id, from, args[1], offset, term}
	if strings.EqualFold(args[0], "RL.PULL") {
		m = Asked{id, from, args[1], offset, term}
	}
	c := r.newConn(id, nc)
	if !r.post(func() {
		r.conns[id] = c
		r.step(m)
		go c.write()
		go c.read(have)
	}) {
		return net.ErrClosed
	}
	return nil
}
