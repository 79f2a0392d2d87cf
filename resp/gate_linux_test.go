package resp

import (
	"runtime"
	"testing"
	"time"
)

// TestGateCostsNoGoroutine: those who wait on a loop cost none, and leave in the
// order in which they came, each with its round.
func TestGateCostsNoGoroutine(t *testing.T) {
	const clients = 400
	var disk *slowDisk
	prepare := func(srv *Server) {
		disk = onSlowDisk(srv)
		apply(srv, func(s *Settings) { s.MaxClients = clients })
	}
	carried(t, prepare, func(t *testing.T, srv *Server, addr string) {
		if srv.loopCount < 0 || srv.loops.gates.Load() == nil {
			t.Skip("a carrier with a goroutine of its own waits in it")
		}
		var all []*client
		for range clients {
			c := connect(t, addr)
			c.send("PING\r\n")
			c.expect("+PONG\r\n")
			all = append(all, c)
		}
		before := runtime.NumGoroutine()
		for i, c := range all {
			c.send("SAVE\r\nPING\r\n")
			disk.untilAsked(t, uint64(i+1))
		}
		if n := runtime.NumGoroutine(); n > before+5 {
			t.Errorf("%d goroutines for %d who wait", n-before, clients)
		}
		for i := 0; i < clients; i += 50 {
			disk.settle(uint64(i+25), nil)
			for _, c := range all[i : i+25] {
				c.expect("+OK\r\n+PONG\r\n")
			}
			next := all[i+25]
			next.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
			if b, err := next.r.ReadByte(); err == nil {
				t.Fatalf("client %d got %q before its round was durable", i+25, b)
			}
			next.SetReadDeadline(time.Now().Add(patience))
			disk.settle(uint64(i+50), nil)
			for _, c := range all[i+25 : i+50] {
				c.expect("+OK\r\n+PONG\r\n")
			}
		}
	})
}
