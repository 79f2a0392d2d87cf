package resp

import (
	"net"
	"runtime/debug"
	"time"
)

// Bounds of a connection's life.
const (
	writeWithin   = 10 * time.Second // a client must take its replies
	commandWithin = 10 * time.Second // a command must be complete after its first byte
	authWithin    = 5 * time.Second  // and the password there
	refuseWithin  = 100 * time.Millisecond
	cutWithin     = time.Second // what was cut off may take to end
)

// bounds are the times a server allows its clients: the constants above, or
// shorter ones in tests.
type bounds struct {
	write, command, auth, handshake, turns, cut time.Duration
	wrongPass, wrongPassMost                    time.Duration // delays: see permit.go
}

// carrier moves the bytes of one connection: a conn with a goroutine of its
// own, or a sock of an event loop. Both live by the rules of life.
type carrier interface {
	// start begins to serve the client; the carrier has been counted.
	start()
	// drain makes the connection end at the given time, unless its client ends
	// it before. It may be called from any goroutine, cut too.
	drain(by time.Time)
	// cut ends the connection now.
	cut()
	// wake has a connection that rests call Feed again. It may be called from any
	// goroutine.
	wake()
	// push sends what comes unasked, behind what is under way. It may be called from
	// any goroutine.
	push(raw []byte)
	// confirmed calls f when all that was sent has arrived at the other host.
	confirmed(f func())
	// session is the conversation that is carried.
	session() *Session
}

// life is what rules a connection, whoever carries it: by when what must have
// come, and what a finished Feed means. It has no socket and asks no time. It
// is used by one goroutine at a time.
type life struct {
	srv      *Server
	s        *Session
	heard    time.Time // when it last began to wait for input
	unknown  time.Time // since when the client is not authenticated; zero = it is
	begun    time.Time // when the unfinished command at the front came; zero = there is none
	progress uint64    // the session's count of commands then
}

// newLife is for the peer of nc, which connected now.
func (srv *Server) newLife(nc net.Conn) life {
	addr, laddr, unix := peerText(nc)
	s := srv.newSession(addr, laddr)
	s.unix = unix
	return life{srv: srv, s: s}
}

func (l *life) session() *Session { return l.s }

// verdict is what follows a Feed, once its output is out.
type verdict byte

const (
	readOn    verdict = iota // what came is executed: more is needed
	feedOn                   // the output, not the input, stopped Feed: call it again
	feedLater                // its turn is over: call Feed again after others had theirs
	rest                     // commands wait until a pause is over: then call Feed again
	handed                   // the connection is given away
	over                     // the conversation has ended
)

// verdict tells what the last Feed means.
func (l *life) verdict() verdict {
	switch {
	case l.s.act == actionClose:
		return over
	case l.s.act == actionHand:
		return handed
	case l.s.paused:
		return rest
	case l.s.turn != nil, l.s.long:
		return feedLater
	case l.s.full:
		return feedOn
	}
	return readOn
}

// feed is the session's Feed. A fault in a command costs no more than its
// connection: what came before it is answered, then comes an error and the end.
func (l *life) feed(in []byte) (taken int) {
	defer func() {
		if fault := recover(); fault != nil {
			l.srv.counters.panics.Add(1)
			l.srv.log.Error("fault in a command, its connection is closed", "client", l.s.addr, "fault", fault, "stack", string(debug.Stack()))
			l.s.abort()
		}
	}()
	return l.s.Feed(in)
}

// waits notes that the connection waits for input from now on; unfinished says
// whether it holds a part of a command.
func (l *life) waits(now time.Time, unfinished bool) {
	l.heard = now
	switch {
	case !unfinished:
		l.begun = time.Time{}
	case l.begun.IsZero() || l.s.progress != l.progress:
		l.begun, l.progress = now, l.s.progress
	}
	switch {
	case l.s.authed:
		l.unknown = time.Time{}
	case l.unknown.IsZero():
		l.unknown = now
	}
}

// readBy is when the input waited for must have come: the nearest deadline of
// the unfinished command, of AUTH, of an idle client. Zero = it may take any
// time. More bytes of the same command do not renew its deadline.
func (l *life) readBy() (by time.Time) {
	if !l.begun.IsZero() {
		by = l.begun.Add(l.srv.within.command)
	}
	if !l.unknown.IsZero() {
		by = nearest(by, l.unknown.Add(l.srv.within.auth))
	}
	if idle := l.srv.settings.Load().Timeout; idle > 0 && l.s.subs == nil {
		by = nearest(by, l.heard.Add(idle))
	}
	return by
}

// nearest is the earlier of two deadlines; zero = none.
func nearest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// refusal is the error for a peer that is turned away before its first command,
// or "". srv.mu is held.
func (srv *Server) refusal(nc net.Conn) string {
	s := srv.settings.Load()
	if len(srv.conns) >= s.MaxClients {
		return errMaxClients
	}
	if s.ProtectedMode && srv.accounts.dflt.rights.Load().open() && !local(nc.RemoteAddr()) {
		return errDenied
	}
	return ""
}

// local says whether a peer is on this machine.
func local(peer net.Addr) bool {
	tcp, ok := peer.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// refuse sends one error line and closes.
func (srv *Server) refuse(nc net.Conn, text string) {
	srv.counters.refused.Add(1)
	if srv.handshake(nc, refuseWithin) {
		nc.SetDeadline(time.Now().Add(refuseWithin))
		nc.Write(appendError(nil, text))
	}
	nc.Close()
}

// keepAlive lets the kernel find peers that vanished.
func (srv *Server) keepAlive(nc net.Conn) {
	if tcp, ok := raw(nc).(*net.TCPConn); ok {
		every := srv.settings.Load().KeepAlive
		tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: every > 0, Idle: every, Interval: max(every/3, time.Second), Count: 3})
	}
}
