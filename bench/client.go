//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const maxElements = 1024 // of an array in a reply; none asked for has more

// A client is one connection that asks and waits, for whatever needs to see the replies. It is used by one goroutine.
type client struct {
	conn net.Conn
	in   *bufio.Reader
}

func (s *server) connect() (*client, error) {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), askWithin)
	if err != nil {
		return nil, err
	}
	return &client{conn, bufio.NewReader(conn)}, nil
}

func (c *client) close() { c.conn.Close() }

// ask sends one command and returns its reply, see readReply.
func (c *client) ask(args ...string) (any, error) {
	if err := c.send(newFrame(args...).data); err != nil {
		return nil, err
	}
	return readReply(c.in)
}

// send writes encoded commands. From here the replies have askWithin to come.
func (c *client) send(commands []byte) error {
	c.conn.SetDeadline(time.Now().Add(askWithin))
	_, err := c.conn.Write(commands)
	return err
}

// allowed reads a decision: an array of integers, of which the first says how many were admitted.
func (c *client) allowed() (bool, error) {
	answer, err := readReply(c.in)
	if err != nil {
		return false, err
	}
	return isAllowed(answer)
}

func isAllowed(answer any) (bool, error) {
	if array, ok := answer.([]any); ok && len(array) > 0 {
		if n, ok := array[0].(int64); ok {
			return n > 0, nil
		}
	}
	return false, fmt.Errorf("not a decision: %v", answer)
}

// readReply reads a RESP2 reply: a string, an int64, a []any of these, or nil. An error reply is an error with its text.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return nil, errors.New("the server's reply is not RESP: an empty line")
	}
	if line[0] == '+' {
		return line[1:], nil
	}
	if line[0] == '-' {
		return nil, errors.New(line[1:])
	}
	n, err := strconv.ParseInt(line[1:], 10, 64)
	switch {
	case err != nil:
	case line[0] == ':':
		return n, nil
	case n == -1 && (line[0] == '$' || line[0] == '*'):
		return nil, nil
	case line[0] == '$' && n >= 0 && n <= readBuffer:
		body := make([]byte, n+int64(len("\r\n")))
		_, err = io.ReadFull(r, body)
		return string(body[:n]), err
	case line[0] == '*' && n >= 0 && n <= maxElements:
		array := make([]any, n)
		for i := range array {
			if array[i], err = readReply(r); err != nil {
				return nil, err
			}
		}
		return array, nil
	}
	return nil, fmt.Errorf("the server's reply is not RESP: %.60q", line)
}
