package resp

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

// setClock is a clock that a test sets, ns.
type setClock struct{ ns *atomic.Int64 }

func (c setClock) NowNs() int64 { return c.ns.Load() }

// guarded is a server with a password and a clock to be set.
func guarded() (*Server, *atomic.Int64) {
	ns := new(atomic.Int64)
	ns.Store(1767225600e9)
	srv := newTestServer(setClock{ns})
	apply(srv, func(s *Settings) { s.Password = "secret" })
	return srv, ns
}

// late is by how much a new connection from an address is answered late.
func late(srv *Server, addr, password string) time.Duration {
	s := srv.newSession(addr, "server")
	s.Feed(frame("AUTH", password))
	return s.delay
}

// TestGuessesOfAnAddress: who brings many wrong passwords is answered late on
// new connections too, whether a password is right or wrong; nobody else is,
// and it passes.
func TestGuessesOfAnAddress(t *testing.T) {
	srv, ns := guarded()
	for range freeGuesses {
		if d := late(srv, "192.0.2.1:1000", "wrong"); d != wrongPassDelay {
			t.Errorf("the first wrong passwords of an address are late by %v", d)
		}
	}
	if d := late(srv, "192.0.2.1:1001", "secret"); d != 0 {
		t.Errorf("a right one after them is late by %v", d)
	}
	for want := wrongPassDelay; want <= maxWrongPassDelay; want *= 2 {
		if d := late(srv, "192.0.2.1:1002", "wrong"); d != want {
			t.Errorf("late by %v, want %v", d, want)
		}
		if d := late(srv, "192.0.2.1:1003", "secret"); d != want {
			t.Errorf("a right one: late by %v, want %v", d, want)
		}
	}
	for range 1000 {
		late(srv, "192.0.2.1:1004", "wrong")
	}
	for addr, want := range map[string]time.Duration{"192.0.2.1:1005": maxWrongPassDelay, "[::ffff:192.0.2.1]:1006": maxWrongPassDelay, "192.0.2.2:1": 0, "127.0.0.1:1": 0, "/run/s:0": 0, "[2001:db8::1]:1": 0} {
		if d := late(srv, addr, "secret"); d != want {
			t.Errorf("%s: late by %v, want %v", addr, d, want)
		}
	}
	ns.Add(mostGuesses * forgetEvery * 1e6)
	if d := late(srv, "192.0.2.1:1007", "secret"); d != 0 {
		t.Errorf("when it is forgotten: late by %v", d)
	}
}

// TestGuesserOf: this machine is one, a network of IPv6 is.
func TestGuesserOf(t *testing.T) {
	for client, want := range map[string]string{
		"127.0.0.1:1": "", "127.9.9.9:1": "", "[::1]:1": "", "/run/s:0": "", "[::ffff:127.0.0.1]:1": "",
		"192.0.2.1:1": "192.0.2.1", "[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::", "[fe80::1%eth0]:1": "fe80::",
	} {
		addr := netip.Addr{}
		if want != "" {
			addr = netip.MustParseAddr(want)
		}
		if got := guesserOf(client); got != addr {
			t.Errorf("%s: %v, want %v", client, got, addr)
		}
	}
}

// TestGuessesAreBounded: the addresses that are remembered are so many, and
// one that brought more is not forgotten for one that brought less.
func TestGuessesAreBounded(t *testing.T) {
	var g guesses
	one := netip.MustParseAddr("192.0.2.1")
	for range mostGuesses {
		g.add(one, 0)
	}
	addr := netip.MustParseAddr("198.51.0.0")
	for range 5 * maxGuessers {
		addr = addr.Next()
		g.add(addr, 0)
		if len(g.from) > maxGuessers {
			t.Fatalf("%d addresses are remembered", len(g.from))
		}
	}
	if got := g.level(one, 0); got != mostGuesses-freeGuesses {
		t.Errorf("the level is %d after a flood of others", got)
	}
}

// TestGuessesPerSecond: however many connections somebody has, each can try a
// password so often, whether it keeps it or opens another for each try.
func TestGuessesPerSecond(t *testing.T) {
	const connections, seconds = 100, 60
	for _, keeps := range []bool{true, false} {
		srv, ns := guarded()
		begin, tries := ns.Load(), 0
		var sessions [connections]*Session
		var at [connections]int64 // when the next answer is there
		for ms := int64(0); ms < seconds*1000; ms += 10 {
			ns.Store(begin + ms*1e6)
			for i := range sessions {
				if at[i] > ms {
					continue
				}
				if sessions[i] == nil || !keeps {
					sessions[i] = srv.newSession(fmt.Sprintf("192.0.2.1:%d", i), "server")
				}
				sessions[i].Feed(frame("AUTH", "wrong"))
				at[i] = ms + sessions[i].delay.Milliseconds()
				sessions[i].Written()
				tries++
			}
		}
		// Few come sooner: those before the address has brought many.
		if most := connections*(seconds*1000/int(maxWrongPassDelay.Milliseconds())+1) + mostGuesses; tries > most {
			t.Errorf("%d passwords tried in %d s on %d connections, want at most %d (connections are kept: %v)", tries, seconds, connections, most, keeps)
		}
	}
}
