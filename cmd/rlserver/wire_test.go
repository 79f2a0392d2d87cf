package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// reply is one RESP value as the tests look at it.
type reply struct {
	mark  byte   // the protocol's, + - : $ * _ % ~ =, or closed
	text  string // of + - : $ =
	null  bool
	items []reply // of * ~, and keys and values of %
}

// closed marks the end of the connection in place of a reply.
const closed = 'x'

// testConn is a raw client: it sends exactly what a test says.
type testConn struct {
	t  testing.TB
	nc net.Conn
	r  *bufio.Reader
}

func dial(t testing.TB, addr string) *testConn {
	t.Helper()
	c, err := tryDial(t, addr)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tryDial is dial for who expects that nobody may listen.
func tryDial(t testing.TB, addr string) (*testConn, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(replyWithin))
	return &testConn{t, nc, bufio.NewReader(nc)}, nil
}

// replyWithin is how long a reply may take, and how long a connection lives on which do is not called. It is reached only when something is
// wrong.
const replyWithin = time.Minute

// frame is a command in RESP.
func frame(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// do sends a command and reads its reply.
func (c *testConn) do(words ...string) reply {
	c.t.Helper()
	c.nc.SetDeadline(time.Now().Add(replyWithin))
	if _, err := io.WriteString(c.nc, frame(words...)); ended(err) {
		return reply{mark: closed}
	} else if err != nil {
		c.t.Fatal(err)
	}
	r, err := readReply(c.r)
	if ended(err) {
		return reply{mark: closed}
	}
	if err != nil {
		c.t.Fatalf("%q: %v", words, err)
	}
	return r
}

// ended says that the server closed the connection, perhaps with something of
// ours unread.
func ended(err error) bool {
	return err == io.EOF || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// readReply reads one value.
func readReply(r *bufio.Reader) (reply, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return reply{}, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return reply{}, fmt.Errorf("malformed line %q", line)
	}
	v := reply{mark: line[0], text: line[1 : len(line)-2]}
	n := 0
	switch v.mark {
	case '+', '-', ':', ',':
		return v, nil
	case '_':
		return reply{mark: '_', null: true}, nil
	case '$', '=', '*', '~', '%':
		if n, err = strconv.Atoi(v.text); err != nil {
			return v, fmt.Errorf("malformed length %q", line)
		}
	default:
		return v, fmt.Errorf("unknown mark in %q", line)
	}
	if n < 0 {
		v.null = true
		return v, nil
	}
	if v.mark == '$' || v.mark == '=' {
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return v, err
		}
		v.text = string(b[:n])
		return v, nil
	}
	if v.mark == '%' {
		n *= 2
	}
	for range n {
		item, err := readReply(r)
		if err != nil {
			return v, err
		}
		v.items = append(v.items, item)
	}
	return v, nil
}

// ints reads a decision, or any flat array of integers.
func (v reply) ints() []int64 {
	var out []int64
	for _, item := range v.items {
		n, err := strconv.ParseInt(item.text, 10, 64)
		if item.mark != ':' || err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// lines shows a reply as redis-cli does on a terminal.
func (v reply) lines() []string {
	switch {
	case v.null:
		return []string{"(nil)"}
	case v.mark == closed:
		return []string{"(connection closed)"}
	case v.mark == '+':
		return []string{v.text}
	case v.mark == '-':
		return []string{"(error) " + v.text}
	case v.mark == ':':
		return []string{"(integer) " + v.text}
	case v.mark == ',':
		return []string{"(double) " + v.text}
	case v.mark == '$':
		return []string{cliQuote(v.text)}
	case v.mark == '=':
		text := strings.TrimPrefix(v.text, "txt:")
		return strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r", ""), "\n"), "\n")
	case len(v.items) == 0:
		return []string{map[byte]string{'*': "(empty array)", '~': "(empty set)", '%': "(empty hash)"}[v.mark]}
	}
	var out []string
	step, sign := 1, ")"
	if v.mark == '%' {
		step, sign = 2, "#"
	} else if v.mark == '~' {
		sign = "~"
	}
	width := len(strconv.Itoa(len(v.items) / step))
	for i := 0; i < len(v.items); i += step {
		head := fmt.Sprintf("%*d%s ", width, i/step+1, sign)
		inner := v.items[i+step-1].lines()
		if v.mark == '%' {
			head += v.items[i].lines()[0] + " => "
		}
		indent := strings.Repeat(" ", width+2)
		if v.mark == '%' && len(inner) > 1 {
			out = append(out, head)
			head = indent
		}
		for j, l := range inner {
			if j == 0 {
				out = append(out, head+l)
			} else {
				out = append(out, indent+l)
			}
		}
	}
	return out
}

// cliQuote is redis-cli's way to show a string.
func cliQuote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, ch := range []byte(s) {
		switch {
		case ch == '"' || ch == '\\':
			b.WriteByte('\\')
			b.WriteByte(ch)
		case ch == '\n':
			b.WriteString(`\n`)
		case ch == '\r':
			b.WriteString(`\r`)
		case ch == '\t':
			b.WriteString(`\t`)
		case ch < ' ' || ch > '~':
			fmt.Fprintf(&b, `\x%02x`, ch)
		default:
			b.WriteByte(ch)
		}
	}
	b.WriteByte('"')
	return b.String()
}
