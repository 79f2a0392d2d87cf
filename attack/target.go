//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// answerWithin is how long an answer that must come may take.
const answerWithin = 20 * time.Second

// target is the server under attack.
type target struct {
	addr     string
	secure   string // where TLS is spoken; "" = nowhere
	http     string // where HTTP is spoken; "" = nowhere
	password string
	pid      int
	limiter  bool // it has RL.ACQUIRE
	multi    bool // it has MULTI
}

// reach finds out what is needed to attack the server at addr, which must be on this machine.
func reach(addr, password string, pid int) (*target, error) {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, err
	}
	if !tcp.IP.IsLoopback() {
		return nil, fmt.Errorf("%s is not on this machine: only 127.0.0.1 and ::1 are attacked", addr)
	}
	t := &target{addr: tcp.String(), password: password, pid: pid}
	c, err := t.login()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	info, err := c.do("INFO", "server")
	if err != nil {
		return nil, err
	}
	if m := regexp.MustCompile(`process_id:(\d+)`).FindStringSubmatch(info); m != nil && pid == 0 {
		t.pid, _ = strconv.Atoi(m[1])
	}
	if t.rss() == 0 {
		return nil, fmt.Errorf("the memory of process %d cannot be read: give the right -pid", t.pid)
	}
	has := func(name string) bool {
		got, err := c.do("COMMAND", "INFO", name)
		return err == nil && strings.Contains(strings.ToLower(got), strings.ToLower(name))
	}
	if got, err := c.do("CONFIG", "GET", "tls-port"); err == nil {
		if m := regexp.MustCompile(`tls-port\r\n\$\d+\r\n([1-9]\d*)\r\n`).FindStringSubmatch(got); m != nil {
			t.secure = net.JoinHostPort(tcp.IP.String(), m[1])
		}
	}
	if got, err := c.do("CONFIG", "GET", "http-addr"); err == nil {
		if m := regexp.MustCompile(`http-addr\r\n\$\d+\r\n(127\.0\.0\.1:[1-9]\d*)\r\n`).FindStringSubmatch(got); m != nil {
			t.http = m[1]
		}
	}
	t.limiter, t.multi = has("RL.ACQUIRE"), has("MULTI")
	return t, nil
}

// rss is the server's resident memory, bytes; 0 if it cannot be read.
func (t *target) rss() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", t.pid))
	if err != nil {
		return 0
	}
	var size, resident int64
	fmt.Sscan(string(text), &size, &resident)
	return resident * int64(os.Getpagesize())
}

// cpu is the CPU time that the server has used.
func (t *target) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", t.pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	const tick = 10 * time.Millisecond // the kernel's USER_HZ is 100 on all that Go runs on
	return time.Duration(user+system) * tick
}

// alive says whether a new client is served.
func (t *target) alive() bool {
	c, err := t.login()
	if err != nil {
		return false
	}
	defer c.Close()
	got, err := c.do("PING")
	return err == nil && strings.Contains(got, "PONG")
}

// conn is a client.
type conn struct {
	net.Conn
	r *bufio.Reader
}

// dial connects, and says nothing.
func (t *target) dial() (*conn, error) {
	nc, err := net.DialTimeout("tcp", t.addr, answerWithin)
	if err != nil {
		return nil, err
	}
	return &conn{nc, bufio.NewReaderSize(nc, 4<<10)}, nil
}

// login connects, with the password if there is one.
func (t *target) login() (*conn, error) {
	c, err := t.dial()
	if err != nil {
		return nil, err
	}
	if t.password == "" {
		return c, nil
	}
	if got, err := c.do("AUTH", t.password); err != nil || !strings.HasPrefix(got, "+OK") {
		c.Close()
		return nil, fmt.Errorf("AUTH: %.100q %v", got, err)
	}
	return c, nil
}

// do sends a command and returns its reply as it is on the wire.
func (c *conn) do(words ...string) (string, error) {
	c.SetDeadline(time.Now().Add(answerWithin))
	defer c.SetDeadline(time.Time{})
	if _, err := io.WriteString(c, frame(words...)); err != nil {
		return "", err
	}
	var b strings.Builder
	err := copyReply(&b, c.r)
	return b.String(), err
}

// copyReply copies one reply.
func copyReply(b *strings.Builder, r *bufio.Reader) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	b.WriteString(line)
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch line[0] {
	case '$', '=':
		if err == nil && n >= 0 {
			_, err = io.CopyN(b, r, int64(n)+2)
		}
		return err
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return nil
	}
	for ; err == nil && n > 0; n-- {
		err = copyReply(b, r)
	}
	return err
}

// frame is a command in RESP.
func frame(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}
