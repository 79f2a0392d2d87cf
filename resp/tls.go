package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"time"
)

const (
	// handshakeWithin is how long a TLS client may take to say who it is. Until
	// then it costs a goroutine, and nobody waits for it.
	handshakeWithin = 5 * time.Second
	// procsPerHandshake is how many of Go's processors, two for a core, there are
	// for one handshake that computes: half of the cores at most do handshakes,
	// whoever asks for how many.
	// Measured on 2 busy cores, 64 clients that greet over and over, another
	// client's p99: 4 to 8 ms, 200 to 390 ms without this bound.
	procsPerHandshake = 4
	// handshakeBytes is what a handshake under way holds, measured with 9,500 of them. A client that idles after
	// it holds less than that, so that in a flood of handshakes it is not the first to be closed.
	handshakeBytes = 12 << 10
	// portWarnEvery is how often the log tells of a client on the wrong port, ns.
	portWarnEvery = 60e9
)

// tlsRecord is the first byte of a TLS handshake. No command starts with it.
const tlsRecord = 0x16

// SecureListener has TLS spoken on a listener, as config says. Its connections
// make their handshakes when a Server serves them.
func SecureListener(l net.Listener, config *tls.Config) net.Listener {
	return &secureListener{l, config}
}

type secureListener struct {
	net.Listener
	config *tls.Config
}

func (l *secureListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tls.Server(&greeted{Conn: nc}, l.config), nil
}

// greeted is the socket under a TLS connection. During the handshake it holds
// one of the server's turns while it computes, and none while it waits for its
// peer: who is slow or silent keeps nobody from a turn. The goroutine of the
// connection alone uses it, but for Close.
type greeted struct {
	net.Conn
	turns chan struct{}   // as many as may compute at once; nil = there is no handshake
	late  <-chan struct{} // closed at the deadline
	holds bool            // a turn
}

func (g *greeted) Read(b []byte) (int, error) {
	if g.turns == nil {
		return g.Conn.Read(b)
	}
	g.give()
	n, err := g.Conn.Read(b)
	if err == nil && !g.take() {
		return 0, os.ErrDeadlineExceeded
	}
	return n, err
}

// take waits for a turn, until the deadline.
func (g *greeted) take() bool {
	select {
	case g.turns <- struct{}{}:
		g.holds = true
	case <-g.late:
	}
	return g.holds
}

// give lets another have the turn, if there is one to give.
func (g *greeted) give() {
	if g.holds {
		g.holds = false
		<-g.turns
	}
}

// handshakeTurns is how many handshakes may compute at once.
func handshakeTurns() int { return max(1, runtime.GOMAXPROCS(0)/procsPerHandshake) }

// handshake does what TLS needs before the first command, in the time it is
// given; other connections need nothing. It returns false when the connection
// is over.
func (srv *Server) handshake(nc net.Conn, within time.Duration) bool {
	secure, ok := nc.(*tls.Conn)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if g, ok := secure.NetConn().(*greeted); ok {
		g.turns, g.late = srv.greeting, ctx.Done()
		defer func() {
			g.give()
			g.turns = nil
		}()
	}
	err := secure.HandshakeContext(ctx)
	if err == nil {
		return true
	}
	srv.counters.tlsFailures.Add(1)
	srv.log.Debug("no TLS connection came about", "client", nc.RemoteAddr().String(), "err", err)
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil { // who speaks no TLS can read this
		plain.Conn.SetWriteDeadline(time.Now().Add(refuseWithin))
		plain.Conn.Write(appendError(nil, errNotTLS))
		srv.misled(nc.RemoteAddr().String(), "a client does not speak TLS on the port that does", "have it speak TLS, or use the other port")
	} else if strings.Contains(err.Error(), "certificate") { // crypto/tls has no type for all that may be wrong with one
		srv.misled(nc.RemoteAddr().String(), "no TLS connection came about for want of a certificate that the other side accepts", err.Error())
	}
	return false
}

// misled tells from time to time of a client that took the one port for the
// other, or shows no certificate. Neither it nor whoever runs it may see why.
func (srv *Server) misled(client, what, hint string) {
	at, last := srv.clock.NowNs(), srv.portWarned.Load()
	if (last == 0 || at-last >= portWarnEvery) && srv.portWarned.CompareAndSwap(last, at) {
		srv.log.Warn(what, "client", client, "hint", hint)
	}
}

// raw is the socket under a connection. Closing it never waits, where closing a
// TLS connection says goodbye first.
func raw(nc net.Conn) net.Conn {
	if secure, ok := nc.(*tls.Conn); ok {
		nc = secure.NetConn()
	}
	if g, ok := nc.(*greeted); ok {
		nc = g.Conn
	}
	return nc
}
