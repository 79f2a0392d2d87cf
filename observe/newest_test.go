package observe

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// TestNewest: for one connection more than there may be the oldest goes, and one that has ended is none.
func TestNewest(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Stats: sample}).Server()
	defer s.Close()
	go s.Serve(Newest(l))
	late := time.Now().Add(time.Minute)
	var all []net.Conn
	for range maxVisitors + 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(late)
		all = append(all, c)
		// One at a time, so that they are as old as their places say.
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 15)); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range all[:3] {
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d of %d is still there", i, len(all))
		}
	}
	r, err := http.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r, err)
	}
	r.Body.Close()
	c := all[len(all)-1] // the newest but that one
	if _, err := io.WriteString(c, "GET /healthz HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(c); err != nil || len(text) == 0 {
		t.Errorf("%q %v", text, err)
	}
}
