package resp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// secureListener is for TLS, with a certificate that a test server brings.
func secureListener(t testing.TB) net.Listener {
	t.Helper()
	pages := httptest.NewTLSServer(nil)
	pages.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return tls.NewListener(l, &tls.Config{Certificates: pages.TLS.Certificates})
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
	srv.within.handshake = shortly
	l := secureListener(t)
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
	if took := time.Since(start); took > 10*shortly {
		t.Errorf("stopped after %v", took)
	}
	good.expectEnd("")
	late.expectEnd("")
	deaf.Close()
	until(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
}
