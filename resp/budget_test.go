package resp

import (
	"fmt"
	"strings"
	"testing"
)

// TestClientMemory: above the bound of all buffers the largest are closed, at it
// nobody, and never who said NO-EVICT; what ends gives back what it had.
func TestClientMemory(t *testing.T) {
	const most = 3 << 20
	carried(t, func(srv *Server) { apply(srv, func(s *Settings) { s.MaxClientMemory = most }) }, func(t *testing.T, srv *Server, addr string) {
		// half is a client with so many KiB of a command that is not complete.
		half := func(kib int) *client {
			c := connect(t, addr)
			c.send("*100\r\n$4\r\nECHO\r\n")
			for range kib {
				c.send("$1014\r\n" + strings.Repeat("x", 1014) + "\r\n") // 1024 bytes with the frame's
			}
			return c
		}
		held := func(want int64) {
			t.Helper()
			until(t, fmt.Sprint("all hold ", want), func() bool { return srv.budget.used.Load() >= want })
		}
		small, spared := half(20), connect(t, addr)
		spared.send("CLIENT NO-EVICT ON\r\n")
		spared.expect("+OK\r\n")
		spared.send("*2\r\n$4\r\nECHO\r\n$400000\r\n" + strings.Repeat("x", 399_000))
		held(400_000)
		var large []*client
		for srv.counters.evicted.Load() == 0 && len(large) < 20 {
			c := connect(t, addr)
			large = append(large, c)
			before := srv.budget.used.Load()
			c.send("*3\r\n$4\r\nECHO\r\n$500000\r\n" + strings.Repeat("x", 500_000) + "\r\n$100\r\n")
			until(t, "it holds that, or there was too much", func() bool {
				return srv.counters.evicted.Load() > 0 || srv.budget.used.Load() >= before+500_000
			})
		}
		until(t, "there is room again", func() bool { return srv.budget.used.Load() <= most })
		until(t, "who was closed is gone, and nobody else", func() bool {
			return srv.connections() == int64(len(large)+2)-int64(srv.counters.evicted.Load())
		})
		if n := srv.counters.evicted.Load(); n > 2 { // a second one if the last client went on to grow
			t.Errorf("%d clients were closed", n)
		}
		spared.send(strings.Repeat("x", 1000) + "\r\n")
		spared.expect("$400000\r\n" + strings.Repeat("x", 400_000) + "\r\n")
		for _, c := range append(large, small, spared) {
			c.Close()
		}
		until(t, "all is given back", func() bool { return srv.connections() == 0 && srv.budget.used.Load() == 0 })
	})
}
