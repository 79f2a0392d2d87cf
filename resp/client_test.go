package resp

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
)

// list is CLIENT LIST's text.
func (c *client) list(args string) string {
	c.t.Helper()
	c.send("CLIENT LIST " + args + "\r\n")
	return c.bulk()
}

// bulk reads a bulk string.
func (c *client) bulk() string {
	c.t.Helper()
	line, err := c.r.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	var n int
	if _, err := fmt.Sscanf(line, "$%d", &n); err != nil {
		c.t.Fatalf("got %q, want a bulk string", line)
	}
	text := make([]byte, n+2)
	if _, err := io.ReadFull(c.r, text); err != nil {
		c.t.Fatal(err)
	}
	return string(text[:n])
}

// TestClientList: every connection has a line, whatever it is at; more than fit
// into one turn too.
func TestClientList(t *testing.T) {
	const others = 260
	carried(t, func(srv *Server) { apply(srv, func(s *Settings) { s.MaxClients = 2 * others }) }, func(t *testing.T, srv *Server, addr string) {
		c := connect(t, addr)
		for i := range others {
			o := connect(t, addr)
			o.send(fmt.Sprintf("CLIENT SETNAME n%d\r\n", i))
			o.expect("+OK\r\n")
		}
		lines := strings.Split(strings.TrimSpace(c.list("")), "\n")
		if len(lines) != others+1 {
			t.Fatalf("%d lines, want %d", len(lines), others+1)
		}
		form := regexp.MustCompile(`^id=(\d+) addr=127\.0\.0\.1:\d+ laddr=127\.0\.0\.1:\d+ name=(n\d+)? age=\d+ idle=\d+ flags=N db=0 multi=-1 watch=0 tot-mem=\d+ cmd=client\|(list|setname) user=default resp=2 lib-name= lib-ver=$`)
		for i, line := range lines {
			if m := form.FindStringSubmatch(line); m == nil || i > 0 && m[2] != fmt.Sprintf("n%d", i-1) {
				t.Errorf("line %d is %q", i, line)
			}
		}
	})
}

// TestClientKill ends a client whatever it waits for, at once and for good.
func TestClientKill(t *testing.T) {
	var disk *slowDisk
	carried(t, func(srv *Server) {
		disk = onSlowDisk(srv)
		srv.within.command, srv.within.write = 2*patience, 2*patience // it is not a deadline that ends them
	}, func(t *testing.T, srv *Server, addr string) {
		idle, half, gated, deaf, held, me := connect(t, addr), connect(t, addr), connect(t, addr), connect(t, addr), connect(t, addr), connect(t, addr)
		me.send("CLIENT ID\r\n")
		me.expect(":6\r\n")
		half.send("*1\r\n$4\r\nPI")
		go deaf.Write([]byte(strings.Repeat("*2\r\n$4\r\nECHO\r\n$1000\r\n"+strings.Repeat("x", 1000)+"\r\n", 50_000)))
		untilStuck(t, srv)
		gated.send("SAVE\r\n")
		disk.untilAsked(t, 1)
		me.send("CLIENT PAUSE 100000 WRITE\r\n")
		me.expect("+OK\r\n")
		held.send("PING\r\nFLUSHALL\r\nPING\r\n")
		held.expect("+PONG\r\n")
		for _, c := range []*client{idle, half, gated, held} {
			me.send("CLIENT KILL ADDR " + c.LocalAddr().String() + "\r\n")
			me.expect(":1\r\n")
			c.expectEnd("")
		}
		me.send("CLIENT KILL " + deaf.LocalAddr().String() + "\r\n")
		me.expect("+OK\r\n")
		disk.settle(1, nil) // which nobody waits for any more
		until(t, "all are forgotten", func() bool { return srv.connections() == 1 })
		me.send("CLIENT KILL LADDR " + addr + "\r\nCLIENT KILL LADDR " + addr + " SKIPME no\r\nPING\r\n")
		me.expectEnd(":0\r\n:1\r\n")
	})
}

// TestClientKillUser: those who are that user now.
func TestClientKillUser(t *testing.T) {
	carried(t, nil, func(t *testing.T, srv *Server, addr string) {
		srv.accounts.set("u", []string{"on", ">p", "+@all"})
		me, other, same := connect(t, addr), connect(t, addr), connect(t, addr)
		other.send("AUTH u p\r\n")
		other.expect("+OK\r\n")
		same.send("PING\r\n")
		same.expect("+PONG\r\n")
		me.send("CLIENT KILL USER u\r\n")
		me.expect(":1\r\n")
		other.expectEnd("")
		same.send("PING\r\n")
		same.expect("+PONG\r\n")
	})
}

// TestPause: what must wait does, in order and unanswered, everything else goes
// on; the end of the pause, or UNPAUSE, lets it go.
func TestPause(t *testing.T) {
	carried(t, nil, func(t *testing.T, srv *Server, addr string) {
		me, writer, inline := connect(t, addr), connect(t, addr), connect(t, addr)
		silent := func(c *client) {
			t.Helper()
			c.SetReadDeadline(time.Now().Add(shortly / 10))
			if b, err := c.r.ReadByte(); err == nil {
				t.Fatalf("got %q during a pause", b)
			}
			c.SetReadDeadline(time.Now().Add(patience))
		}
		me.send("CLIENT PAUSE 100000 WRITE\r\n")
		me.expect("+OK\r\n")
		writer.send("PING\r\nRL.PEEK k 1 2\r\n" + string(frame("RL.ACQUIRE", "k", "1/24h", "2")) + "ECHO after\r\n")
		writer.expect("+PONG\r\n*5\r\n:1\r\n:0\r\n:2\r\n:0\r\n:2\r\n")
		inline.send("ECHO \"a  b\"\r\nRL.ACQUIRE \"k\\x20\\x20l\" 1/24h 2\r\nECHO \"c  d\"\r\n")
		inline.expect("$4\r\na  b\r\n")
		silent(writer)
		writer.send("ECHO more\r\n")
		silent(inline)
		if n := srv.store.Len(); n != 0 {
			t.Fatalf("%d keys were made during a pause", n)
		}
		me.send("CLIENT UNPAUSE\r\n")
		me.expect("+OK\r\n")
		writer.expect("*5\r\n:1\r\n:0\r\n:1\r\n:86400000\r\n:2\r\n$5\r\nafter\r\n$4\r\nmore\r\n")
		inline.expect("*5\r\n:1\r\n:0\r\n:1\r\n:86400000\r\n:2\r\n$4\r\nc  d\r\n")

		start := time.Now()
		me.send(fmt.Sprintf("CLIENT PAUSE %d\r\n", shortly.Milliseconds()))
		me.expect("+OK\r\n")
		for _, c := range []*client{writer, inline} {
			c.send("PI")
			c.send("NG\r\n")
		}
		me.send("CLIENT PAUSE 1 WRITE\r\n") // shorter and milder: changes nothing
		me.expect("+OK\r\n")
		writer.expect("+PONG\r\n")
		inline.expect("+PONG\r\n")
		if took := time.Since(start); took < shortly*9/10 {
			t.Errorf("a pause of %v took %v", shortly, took)
		}
		me.send("CLIENT PAUSE 100000\r\n")
		me.expect("+OK\r\n")
		read := srv.counters.bytesIn.Load()
		writer.send("PING\r\n") // a stop does not wait for it
		until(t, "it is read", func() bool { return srv.counters.bytesIn.Load() == read+uint64(len("PING\r\n")) })
	})
}

// TestClientReply: what is executed and not answered.
func TestClientReply(t *testing.T) {
	carried(t, nil, func(t *testing.T, srv *Server, addr string) {
		srv.accounts.set("u", []string{"on", ">p"})
		c := connect(t, addr)
		c.send("CLIENT REPLY SKIP\r\nECHO a\r\nECHO b\r\nCLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nECHO c\r\nECHO d\r\n")
		c.expect("$1\r\nb\r\n$1\r\nd\r\n")
		c.send("CLIENT REPLY OFF\r\nNOSUCH\r\nRL.ACQUIRE k 1/24h 2\r\nCLIENT LIST\r\nCLIENT REPLY SKIP\r\nAUTH u wrong\r\nRL.ACQUIRE k 1/24h 2\r\nCLIENT REPLY ON\r\n")
		c.expect("+OK\r\n")
		c.send("DBSIZE\r\nCLIENT REPLY SKIP\r\nCLIENT LIST\r\nPING\r\nCLIENT REPLY OFF\r\nRESET\r\nPING\r\n")
		c.expect(":1\r\n+PONG\r\n+RESET\r\n+PONG\r\n")
	})
}
