package resp

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
)

// identity is what a client says about itself, as other clients may be told.
type identity struct {
	user    *user // who the client is, or while it is not authed would be
	proto   int   // 2 or 3
	name    string
	libName string
	libVer  string
	noEvict bool // CLIENT NO-EVICT
	noTouch bool // CLIENT NO-TOUCH
}

// peer is the part of a session that other goroutines look at. id, addr, laddr,
// unix and born never change.
type peer struct {
	id    int64
	addr  string // as CLIENT INFO shows it
	laddr string
	unix  bool
	born  int64 // server's clock, ms

	shown     atomic.Pointer[identity] // never changed, replaced
	lastCmd   atomic.Pointer[command]  // of the last Feed that had one; nil = unknown to us
	active    atomic.Int64             // server's clock then, ms
	held      atomic.Int64             // bytes of its buffers
	inQueue   atomic.Int32             // commands of its transaction and one more; 0 = it has none
	onWatch   atomic.Int32             // keys that it watches
	listening atomic.Bool              // it has subscriptions
	killed    atomic.Bool              // it is to end; nothing more is executed
}

// show makes the session's identity that which others see.
func (s *Session) show() {
	if shown := s.shown.Load(); shown == nil || *shown != s.identity {
		id := s.identity
		s.shown.Store(&id)
	}
}

// showMulti tells others of its transaction and its watches.
func (s *Session) showMulti() {
	n := int32(0)
	if s.multi != nil {
		n = int32(len(s.multi.queue)) + 1
	}
	if s.inQueue.Load() != n {
		s.inQueue.Store(n)
	}
	if n := int32(len(s.watches)); s.onWatch.Load() != n {
		s.onWatch.Store(n)
	}
}

// peerText is how CLIENT LIST calls the two ends of a connection.
func peerText(nc net.Conn) (addr, laddr string, unix bool) {
	if _, unix = nc.(*net.UnixConn); unix { // its client's end has no name
		path := nc.LocalAddr().String() + ":0"
		return path, path, true
	}
	return nc.RemoteAddr().String(), nc.LocalAddr().String(), false
}

// flags are Redis's letters.
func (p *peer) flags(is *identity) string {
	var b strings.Builder
	for _, f := range []struct {
		set    bool
		letter byte
	}{{p.inQueue.Load() > 0, 'x'}, {p.killed.Load(), 'A'}, {p.listening.Load(), 'P'}, {p.unix, 'U'}, {is.noEvict, 'e'}, {is.noTouch, 'T'}} {
		if f.set {
			b.WriteByte(f.letter)
		}
	}
	if b.Len() == 0 {
		return "N"
	}
	return b.String()
}

// line is what CLIENT LIST says of a client at a time, in Redis's order.
func (p *peer) line(is *identity, last *command, active, now int64) string {
	cmd := "NULL"
	if last != nil {
		cmd = last.full
	}
	return fmt.Sprintf("id=%d addr=%s laddr=%s name=%s age=%d idle=%d flags=%s db=0 multi=%d watch=%d tot-mem=%d cmd=%s user=%s resp=%d lib-name=%s lib-ver=%s",
		p.id, p.addr, p.laddr, is.name, max(now-p.born, 0)/1000, max(now-active, 0)/1000, p.flags(is), p.inQueue.Load()-1, p.onWatch.Load(), p.held.Load(), cmd, is.user.name,
		is.proto, is.libName, is.libVer)
}

// seen is the line that other clients are shown.
func (p *peer) seen(now int64) string {
	return p.line(p.shown.Load(), p.lastCmd.Load(), p.active.Load(), now)
}

// infoLine is what CLIENT INFO tells a client of itself.
func (s *Session) infoLine() string {
	s.showMulti()
	return s.line(&s.identity, s.cmd, s.now, s.now)
}
