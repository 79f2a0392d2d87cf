package resp

import (
	"bytes"
	"net"
	"testing"
	"time"
)

// TestDeadlines walks a connection through its life and asks, after each Feed,
// by when what must have come.
func TestDeadlines(t *testing.T) {
	const password = "secret"
	t0 := time.Unix(1000, 0)
	steps := []struct {
		name     string
		idle     time.Duration // timeout
		password string
		feeds    []feedStep
	}{
		{name: "nothing is asked of an idle client", feeds: []feedStep{{0, "", -1}, {time.Hour, "PING\r\n", -1}}},
		{name: "an unfinished command has its time from its first byte", feeds: []feedStep{
			{0, "*1\r\n$4\r\nPI", commandWithin},
			{4 * time.Second, "N", commandWithin},
			{9 * time.Second, "G\r", commandWithin},
			{9500 * time.Millisecond, "\n", -1}}},
		{name: "each command has its own time", feeds: []feedStep{
			{0, "PI", commandWithin},
			{9 * time.Second, "NG\r\nPI", 9*time.Second + commandWithin},
			{15 * time.Second, "NG\r\n", -1}}},
		{name: "a client must authenticate", password: password, feeds: []feedStep{
			{0, "", authWithin},
			{3 * time.Second, "PING\r\n", authWithin},
			{4 * time.Second, "AUTH wrong\r\n", authWithin},
			{4500 * time.Millisecond, "AUTH secret\r\n", -1}}},
		{name: "the nearer of two deadlines counts", password: password, feeds: []feedStep{
			{0, "PI", authWithin},
			{time.Second, "NG\r\nAUTH secret\r\nPI", time.Second + commandWithin}}},
		{name: "a client that RESET has the same time again", password: password, feeds: []feedStep{
			{0, "AUTH secret\r\n", -1},
			{time.Hour, "RESET\r\n", time.Hour + authWithin},
			{time.Hour + time.Second, "PING\r\n", time.Hour + authWithin}}},
		{name: "idle time starts again with each input", idle: time.Minute, feeds: []feedStep{
			{0, "", time.Minute},
			{30 * time.Second, "PING\r\n", 90 * time.Second},
			{80 * time.Second, "PI", 80*time.Second + commandWithin}}},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			srv := newTestServer(wallClock{time.Now()})
			settings := *srv.settings.Load()
			settings.Timeout, settings.Password = step.idle, step.password
			srv.Apply(settings)
			l := &life{srv: srv}
			l.s = srv.newSession("test", "test")
			var in []byte
			for _, f := range step.feeds {
				in = append(in, f.bytes...)
				in = in[l.feed(in):]
				l.s.Written()
				l.waits(t0.Add(f.at), len(in) > 0)
				want := time.Time{}
				if f.by >= 0 {
					want = t0.Add(f.by)
				}
				if by := l.readBy(); !by.Equal(want) {
					t.Errorf("after %q at %v: must have come by %v, want %v", f.bytes, f.at, by.Sub(t0), f.by)
				}
			}
		})
	}
}

// feedStep is input that comes at a time, and by when more must (-1 = no time).
type feedStep struct {
	at    time.Duration
	bytes string
	by    time.Duration
}

// TestFaultAnswersWhatCameBefore: a fault in a command ends the conversation,
// but not the answers to what came before it in the same Feed.
func TestFaultAnswersWhatCameBefore(t *testing.T) {
	srv := newTestServer(wallClock{time.Now()})
	addFaultyCommand(srv)
	l := &life{srv: srv}
	l.s = srv.newSession("test", "test")
	l.feed([]byte("ECHO a\r\n"))
	l.s.Written()
	l.feed([]byte("ECHO b\r\nBOOM\r\nECHO c\r\n"))
	if got, want := string(l.s.Output()), "$1\r\nb\r\n-"+errInternal+"\r\n"; got != want {
		t.Errorf("answered %q, want %q", got, want)
	}
	if l.verdict() != over {
		t.Error("the conversation goes on after a fault")
	}
	if n := srv.Stats().Panics; n != 1 {
		t.Errorf("%d faults counted, want 1", n)
	}
}

// TestRefusal: who is turned away before the first command, and with what.
func TestRefusal(t *testing.T) {
	far := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}
	near := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	near6 := &net.TCPAddr{IP: net.IPv6loopback, Port: 1}
	unix := &net.UnixAddr{Net: "unix"}
	for _, c := range []struct {
		name      string
		peer      net.Addr
		protected bool
		password  string
		others    int
		want      string
	}{
		{"far, protected", far, true, "", 0, errDenied},
		{"far, with a password", far, true, "secret", 0, ""},
		{"far, unprotected", far, false, "", 0, ""},
		{"near", near, true, "", 0, ""},
		{"near, IPv6", near6, true, "", 0, ""},
		{"unix socket", unix, true, "", 0, ""},
		{"the last one", near, true, "", 99, ""},
		{"one too many", near, true, "", 100, errMaxClients},
	} {
		srv := newTestServer(wallClock{time.Now()})
		settings := *srv.settings.Load()
		settings.ProtectedMode, settings.Password = c.protected, c.password
		srv.Apply(settings)
		for range c.others {
			srv.conns[&conn{}] = struct{}{}
		}
		if got := srv.refusal(peerConn{peer: c.peer}); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// peerConn is a connection from anywhere.
type peerConn struct {
	net.Conn
	peer net.Addr
}

func (c peerConn) RemoteAddr() net.Addr { return c.peer }

// TestInboxGrowsByNeed: a buffer is as large as the client's input makes it, and
// the bytes in it stay what they are.
func TestInboxGrowsByNeed(t *testing.T) {
	var b inbox
	sent, at := bytes.Repeat([]byte("0123456789"), 20_000), 0
	read := func(n int) {
		room := b.room()
		n = min(n, len(room))
		copy(room, sent[at:at+n])
		b.got(n)
		at += n
	}
	read(10)
	if cap(b.buf) != firstRead {
		t.Errorf("%d bytes for the first read, want %d", cap(b.buf), firstRead)
	}
	b.drop(10)
	for range 10 { // a client that fills what there is, executed at once but for 3 bytes
		read(len(sent))
		b.drop(len(b.buf) - 3)
	}
	if cap(b.buf) != steadyRead {
		t.Errorf("%d bytes for a busy client, want %d", cap(b.buf), steadyRead)
	}
	start := at - 3
	for at < len(sent)-10 { // one long command
		read(10)
	}
	if !bytes.Equal(b.buf, sent[start:at]) {
		t.Error("the bytes of a long command changed when its buffer grew")
	}
	b.drop(len(b.buf))
	if cap(b.buf) > steadyRead {
		t.Errorf("%d bytes kept after a long command, want at most %d", cap(b.buf), steadyRead)
	}
}

// TestInboxKeepsTheRest: what is kept is the rest, whether it lies in the
// inbox itself or in a buffer that others use next.
func TestInboxKeepsTheRest(t *testing.T) {
	var b inbox
	shared := []byte("executed, the rest")
	b.keep(shared[10:])
	copy(shared, "XXXXXXXXXXXXXXXXXX")
	if string(b.buf) != "the rest" {
		t.Errorf("kept %q", b.buf)
	}
	b.keep(b.buf[:len(b.buf)])
	b.keep(b.buf[4:])
	if string(b.buf) != "rest" {
		t.Errorf("kept %q of its own", b.buf)
	}
	if b.keep(nil); b.buf != nil {
		t.Error("an empty inbox keeps a buffer")
	}
}
