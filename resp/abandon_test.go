package resp

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// addEndless gives a server ENDLESS, whose turns end when enough is set.
func addEndless(srv *Server, enough, turns *atomic.Int64) {
	enough.Store(0)
	turn := func(s *Session) (done bool) {
		turns.Add(1)
		if done = enough.Load() != 0; done {
			s.ok()
		}
		return done
	}
	srv.table = newTable(append(rows(), &command{name: "endless", arity: 1, group: "server", run: func(s *Session, _ [][]byte) { s.inTurns(turn) }}))
	srv.counters.cells = make([]cell, srv.table.count+1)
}

// TestStopDropsTurns: a long command that is under way when the server stops
// has its time and no more; what was answered before it arrives.
func TestStopDropsTurns(t *testing.T) {
	var enough, turns atomic.Int64
	carried(t, func(srv *Server) {
		srv.within.turns = shortly
		addEndless(srv, &enough, &turns)
	}, func(t *testing.T, srv *Server, addr string) {
		c, gone := connect(t, addr), connect(t, addr)
		c.send("PING\r\nENDLESS\r\nPING\r\n")
		c.expect("+PONG\r\n")
		gone.send("PING\r\nENDLESS\r\n")
		gone.expect("+PONG\r\n")
		gone.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		began := time.Now()
		srv.Shutdown(ctx)
		if took := time.Since(began); ctx.Err() != nil || took < drainFor+shortly {
			t.Errorf("stopped after %v; a long command has %v", took, drainFor+shortly)
		}
		c.expectEnd("")
	})
}

// TestStopAwaitsTurns: one that ends in time is answered, and what came behind
// it too.
func TestStopAwaitsTurns(t *testing.T) {
	var enough, turns atomic.Int64
	carried(t, func(srv *Server) {
		srv.within.turns = patience
		addEndless(srv, &enough, &turns)
	}, func(t *testing.T, srv *Server, addr string) {
		c := connect(t, addr)
		c.send("PING\r\nENDLESS\r\nPING\r\n")
		c.expect("+PONG\r\n")
		time.AfterFunc(2*drainFor, func() { enough.Store(1) })
		srv.Shutdown(context.Background())
		c.expectEnd("+OK\r\n+PONG\r\n")
	})
}

// TestGoneClientsTurns: a long command ends with its client: at once if that is
// gone altogether; if it only sends no more, it has some time for its answer.
func TestGoneClientsTurns(t *testing.T) {
	var enough, turns atomic.Int64
	carried(t, func(srv *Server) {
		srv.within.turns = patience
		addEndless(srv, &enough, &turns)
	}, func(t *testing.T, srv *Server, addr string) {
		begin := func() *client {
			c := connect(t, addr)
			c.send("PING\r\nENDLESS\r\n")
			c.expect("+PONG\r\n")
			return c
		}
		reset := begin()
		reset.Conn.(*net.TCPConn).SetLinger(0)
		reset.Close()
		until(t, "one that was reset is forgotten", func() bool { return srv.connections() == 0 })

		half := begin()
		half.Conn.(*net.TCPConn).CloseWrite()
		seen := turns.Load()
		until(t, "it goes on", func() bool { return turns.Load() > seen+10 })
		enough.Store(1)
		half.expectEnd("+OK\r\n")
		enough.Store(0)
	})
	carried(t, func(srv *Server) {
		srv.within.turns = shortly
		addEndless(srv, &enough, &turns)
	}, func(t *testing.T, srv *Server, addr string) {
		c := connect(t, addr)
		c.send("ENDLESS\r\n")
		c.Conn.(*net.TCPConn).CloseWrite()
		c.expectEnd("")
		until(t, "it is forgotten", func() bool { return srv.connections() == 0 })
	})
}
