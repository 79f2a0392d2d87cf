package resp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// listenTLS is for TLS, with a certificate that a test server brings.
func listenTLS(t testing.TB, more func(*tls.Config)) net.Listener {
	t.Helper()
	pages := httptest.NewTLSServer(nil)
	pages.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: pages.TLS.Certificates}
	if more != nil {
		more(config)
	}
	return SecureListener(l, config)
}

// connectTLS is connect over TLS.
func connectTLS(t testing.TB, addr string) *client {
	t.Helper()
	c := connect(t, addr)
	c.Conn = tls.Client(c.Conn, &tls.Config{InsecureSkipVerify: true})
	c.r = bufio.NewReader(c.Conn)
	return c
}

// TestHandshake: who says nothing is closed at the deadline, and a stop waits
// neither for a handshake nor for a client that does not read.
func TestHandshake(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	srv := newTestServer(wallClock{time.Now()})
	srv.within.handshake, srv.within.write = shortly, 2*patience
	l := listenTLS(t, nil)
	go srv.Serve(l)
	addr := l.Addr().String()
	start := time.Now()
	silent := connect(t, addr)
	good := connectTLS(t, addr)
	good.send(golden.in)
	good.expect(golden.out)
	silent.expectEnd("")
	if took := time.Since(start); took < shortly {
		t.Errorf("closed after %v, want not before %v", took, shortly)
	}
	plain := connect(t, addr)
	plain.send("PING\r\n")
	plain.expectEnd("-" + errNotTLS + "\r\n")
	until(t, "both failures are counted", func() bool { return srv.Stats().TLSFailures == 2 })

	deaf, late := connectTLS(t, addr), connect(t, addr)
	go func() {
		for chunk := bytes.Repeat(frame("ECHO", strings.Repeat("x", 1000)), 100); ; {
			if _, err := deaf.Write(chunk); err != nil {
				return
			}
		}
	}()
	untilStuck(t, srv)
	ctx, cancel := context.WithTimeout(context.Background(), shortly)
	defer cancel()
	start = time.Now()
	srv.Shutdown(ctx)
	if took := time.Since(start); took > patience { // as long as it takes to write to who does not read
		t.Errorf("stopped after %v", took)
	}
	good.expectEnd("")
	late.expectEnd("")
	deaf.Close()
	until(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// TestHandshakeTurns: no more than so many handshakes compute at once, and who
// has said only half of what it must keeps nobody from his turn.
func TestHandshakeTurns(t *testing.T) {
	const clients = 12
	srv := newTestServer(wallClock{time.Now()})
	srv.within.handshake = 2 * patience
	var computing, most atomic.Int64
	l := listenTLS(t, func(c *tls.Config) {
		certificate := c.Certificates[0]
		c.Certificates = nil
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if n := computing.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(5 * time.Millisecond) // as if it were long
			computing.Add(-1)
			return &certificate, nil
		}
	})
	go srv.Serve(l)
	defer srv.Shutdown(context.Background())
	addr := l.Addr().String()
	var hello bytes.Buffer
	tls.Client(&sayer{out: &hello}, &tls.Config{InsecureSkipVerify: true}).Handshake()
	for i := range 4 * handshakeTurns() {
		half := connect(t, addr)
		half.send(hello.String()[:hello.Len()-i%2]) // all of it by turns, and then nothing
		defer half.Close()
	}
	var all sync.WaitGroup
	for range clients {
		c := connectTLS(t, addr)
		all.Go(func() {
			c.send("PING\r\n")
			c.expect("+PONG\r\n")
		})
	}
	all.Wait()
	if n := most.Load(); n > int64(handshakeTurns()) {
		t.Errorf("%d handshakes compute at once, may be %d", n, handshakeTurns())
	}
}

// TestHandshakesAreCounted: what handshakes hold has its bound as clients' buffers
// have, and who is through with one is not closed for those who are not.
func TestHandshakesAreCounted(t *testing.T) {
	const room = 10
	srv := newTestServer(wallClock{time.Now()})
	srv.within.handshake = 2 * patience
	l := listenTLS(t, nil)
	go srv.Serve(l)
	defer srv.Shutdown(context.Background())
	good := connectTLS(t, l.Addr().String())
	good.send("PING\r\n")
	good.expect("+PONG\r\n")
	srv.LeaveClients(room*handshakeBytes + srv.ClientMemory())
	for range 5 * room {
		defer connect(t, l.Addr().String()).Close()
	}
	until(t, "all but so many are closed", func() bool {
		st := srv.Stats()
		return st.Accepted == 1+5*room && st.Evicted >= 4*room-1 && st.ClientMemory <= srv.mostHeld()
	})
	good.send("PING\r\n")
	good.expect("+PONG\r\n")
}

// TestHandshakeWithoutATurn: who does not come to his turn in time is let go.
func TestHandshakeWithoutATurn(t *testing.T) {
	srv := newTestServer(wallClock{time.Now()})
	srv.within.handshake = shortly
	l := listenTLS(t, nil)
	go srv.Serve(l)
	defer srv.Shutdown(context.Background())
	for range cap(srv.greeting) {
		srv.greeting <- struct{}{}
	}
	c := connectTLS(t, l.Addr().String())
	if _, err := c.Conn.Write([]byte("PING\r\n")); err == nil {
		t.Error("a handshake without a turn")
	}
	until(t, "it is forgotten", func() bool { return srv.connections() == 0 })
	for range cap(srv.greeting) {
		<-srv.greeting
	}
	c = connectTLS(t, l.Addr().String())
	c.send("PING\r\n")
	c.expect("+PONG\r\n")
}

// TestRefusalsTakeTurns: who is turned away is told so over TLS too, but not
// outside the turns that handshakes take.
func TestRefusalsTakeTurns(t *testing.T) {
	srv := newTestServer(wallClock{time.Now()})
	apply(srv, func(s *Settings) { s.MaxClients = 1 })
	l := listenTLS(t, nil)
	go srv.Serve(l)
	defer srv.Shutdown(context.Background())
	addr := l.Addr().String()
	c := connectTLS(t, addr)
	c.send("PING\r\n")
	c.expect("+PONG\r\n")
	for range cap(srv.greeting) {
		srv.greeting <- struct{}{}
	}
	if n, err := connectTLS(t, addr).Conn.Read(make([]byte, 100)); err == nil {
		t.Errorf("%d bytes came without a turn", n)
	}
	for range cap(srv.greeting) {
		<-srv.greeting
	}
	until(t, "a refusal that is told", func() bool { // a busy machine may need longer than a refusal may take
		line, _ := connectTLS(t, addr).r.ReadString('\n')
		return line == "-"+errMaxClients+"\r\n"
	})
}

// sayer is a connection that keeps what is said and answers nothing.
type sayer struct {
	net.Conn
	out *bytes.Buffer
}

func (s *sayer) Write(b []byte) (int, error) { return s.out.Write(b) }
func (s *sayer) Read([]byte) (int, error)    { return 0, io.EOF }
func (s *sayer) Close() error                { return nil }
