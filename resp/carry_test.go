package resp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Tests of what carries a session, over real sockets. Each runs for both
// carriers: they must obey the same bounds.

// patience is how long a test waits for what must happen. It is long, since
// the machine may be busy.
const patience = 30 * time.Second

// shortly is a deadline for tests that wait for it.
const shortly = 300 * time.Millisecond

// carried runs a test with a served server for each carrier. prepare, if any,
// is called before the first client.
func carried(t *testing.T, prepare func(*Server), test func(t *testing.T, srv *Server, addr string)) {
	for _, carrier := range []string{"loop", "goroutine"} {
		t.Run(carrier, func(t *testing.T) {
			srv := newTestServer(wallClock{time.Now()})
			srv.loopCount = 1
			srv.within.cut = shortly
			if carrier == "goroutine" {
				srv.loopCount = -1
			}
			if prepare != nil {
				prepare(srv)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go srv.Serve(l)
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				srv.Shutdown(ctx)
			})
			test(t, srv, l.Addr().String())
		})
	}
}

// apply changes settings.
func apply(srv *Server, change func(*Settings)) {
	s := *srv.settings.Load()
	change(&s)
	srv.Apply(s)
}

// client is the other end of a connection.
type client struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func connect(t testing.TB, addr string) *client {
	t.Helper()
	network := "tcp"
	if filepath.IsAbs(addr) {
		network = "unix"
	}
	nc, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return &client{t, nc, bufio.NewReader(nc)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// expect reads exactly what is wanted.
func (c *client) expect(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.r, got)
	if string(got[:n]) != want {
		c.t.Fatalf("got %.200q (%v), want %.200q", got[:n], err, want)
	}
}

// expectEnd reads to the end of the connection, which must come now.
func (c *client) expectEnd(want string) {
	c.t.Helper()
	got, err := io.ReadAll(c.r)
	if string(got) != want || errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		c.t.Fatalf("got %.200q (%v), want %.200q and the end", got, err, want)
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// until waits for what another goroutine brings about.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain until %s", patience, what)
		}
	}
}

// addFaultyCommand gives a server BOOM, which is broken, and BOOMLATER, which
// breaks in its second turn.
func addFaultyCommand(srv *Server) {
	turns := 0
	later := func(*Session) bool {
		if turns++; turns == 2 {
			panic("boom")
		}
		return false
	}
	srv.table = newTable(append(rows(),
		&command{name: "boom", arity: 1, group: "server", run: func(*Session, [][]byte) { panic("boom") }},
		&command{name: "boomlater", arity: 1, group: "server", run: func(s *Session, _ [][]byte) { s.inTurns(later) }}))
	srv.counters.cells = make([]cell, srv.table.count+1)
}

// golden is a pipeline with every kind of frame, and its replies.
var golden = struct{ in, out string }{
	"FLUSHALL\r\n" +
		"*2\r\n$10\r\nRL.ACQUIRE\r\n$1\r\nk\r\n" +
		"*4\r\n$10\r\nrl.acquire\r\n$1\r\nk\r\n$5\r\n1/24h\r\n$1\r\n3\r\n" +
		"*0\r\n\r\n  \n" +
		"*2\r\n$4\r\nECHO\r\n$6\r\na\r\nb\r\n\r\n" +
		"echo \"x\\r\\ny\" \n" +
		"*1\r\n$4\r\nNOPE\r\n" +
		"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n" +
		"PING\r\n",
	"+OK\r\n" +
		"-ERR wrong number of arguments for 'rl.acquire' command\r\n" +
		"*5\r\n:1\r\n:0\r\n:2\r\n:86400000\r\n:3\r\n" +
		"$6\r\na\r\nb\r\n\r\n" +
		"$4\r\nx\r\ny\r\n" +
		"-ERR unknown command 'NOPE', with args beginning with: \r\n" +
		"$0\r\n\r\n" +
		"+PONG\r\n",
}

// TestSplitsThroughASession feeds the pipeline in two and three pieces, cut at
// every place.
func TestSplitsThroughASession(t *testing.T) {
	srv := newTestServer(wallClock{time.Now()})
	for i := range len(golden.in) {
		for j := i; j < len(golden.in); j += 7 {
			s := srv.newSession("test", "test")
			var in, out []byte
			for _, piece := range []string{golden.in[:i], golden.in[i:j], golden.in[j:]} {
				in = append(in, piece...)
				for again := true; again; again = s.full {
					in = append([]byte{}, in[s.Feed(in):]...) // the caller's buffer moves
					out = append(out, s.Output()...)
					s.Written()
				}
			}
			if string(out) != golden.out || len(in) > 0 {
				t.Fatalf("cut at %d and %d: answered %q and left %q", i, j, out, in)
			}
		}
	}
}

// TestSplitsThroughASocket sends the pipeline in two pieces, cut at every
// place; the second is sent when the server has read the first.
func TestSplitsThroughASocket(t *testing.T) {
	carried(t, nil, func(t *testing.T, srv *Server, addr string) {
		c := connect(t, addr)
		read := uint64(0)
		for i := 1; i < len(golden.in); i++ {
			c.send(golden.in[:i])
			read += uint64(i)
			until(t, "the first piece is read", func() bool { return srv.counters.bytesIn.Load() == read })
			c.send(golden.in[i:])
			read += uint64(len(golden.in) - i)
			c.expect(golden.out)
		}
		for i := range len(golden.in) { // one byte at a time
			c.send(golden.in[i : i+1])
			read++
			until(t, "a byte is read", func() bool { return srv.counters.bytesIn.Load() == read })
		}
		c.expect(golden.out)
	})
}

// TestLongCommands: arguments far longer than any buffer, in one command and
// with others behind them.
func TestLongCommands(t *testing.T) {
	carried(t, nil, func(t *testing.T, srv *Server, addr string) {
		c := connect(t, addr)
		for _, n := range []int{900, smallestOwn - 40, smallestOwn + 1, 64 << 10, 100_000, 512 << 10} {
			arg := strings.Repeat("0123456789abcdef", n/16+1)[:n]
			in := fmt.Sprintf("PING\r\n*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\nPING\r\n", n, arg)
			go io.WriteString(c, in+in)
			want := fmt.Sprintf("+PONG\r\n$%d\r\n%s\r\n+PONG\r\n", n, arg)
			c.expect(want + want)
		}
	})
}

// smallestOwn is around the size at which an unfinished command gets a buffer
// of its own.
const smallestOwn = 16 << 10

// TestPipelineLargerThanItsOutput: replies far larger than their commands come
// in order, although their output stops the session again and again.
func TestPipelineLargerThanItsOutput(t *testing.T) {
	carried(t, nil, func(t *testing.T, srv *Server, addr string) {
		s := srv.newSession("test", "test")
		s.Feed([]byte("COMMAND\r\n"))
		docs := string(s.Output())
		for s.turn != nil { // it may take more than one turn
			s.Written()
			s.Feed(nil)
			docs += string(s.Output())
		}
		const n = 500
		c, other := connect(t, addr), connect(t, addr)
		c.send(strings.Repeat("COMMAND\r\n", n) + "PING\r\n")
		other.send("PING\r\n")
		other.expect("+PONG\r\n")
		for range n {
			c.expect(docs)
		}
		c.expect("+PONG\r\n")
	})
}

// TestTurns: a command that works in turns holds up nobody else, and what its
// client sent behind it comes after it.
func TestTurns(t *testing.T) {
	var enough atomic.Bool
	long := func(s *Session) (done bool) {
		if done = enough.Load(); done {
			s.ok()
		}
		return done
	}
	carried(t, func(srv *Server) {
		enough.Store(false)
		srv.table = newTable(append(rows(), &command{name: "long", arity: 1, group: "server", run: func(s *Session, _ [][]byte) { s.inTurns(long) }}))
		srv.counters.cells = make([]cell, srv.table.count+1)
	}, func(t *testing.T, srv *Server, addr string) {
		c, other := connect(t, addr), connect(t, addr)
		c.send("ECHO a\r\nLONG\r\nECHO b\r\n")
		c.expect("$1\r\na\r\n")
		for range 10 {
			other.send("PING\r\n")
			other.expect("+PONG\r\n")
		}
		enough.Store(true)
		c.expect("+OK\r\n$1\r\nb\r\n")
	})
}

// TestHalfClosed: a client that sends all it has and closes its side, as nc
// does, gets all its answers.
func TestHalfClosed(t *testing.T) {
	carried(t, nil, func(t *testing.T, srv *Server, addr string) {
		c := connect(t, addr)
		c.send(golden.in)
		c.Conn.(*net.TCPConn).CloseWrite()
		c.expectEnd(golden.out)
	})
}

func TestUnixSocket(t *testing.T) {
	carried(t, nil, func(t *testing.T, srv *Server, _ string) {
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Skip(err)
		}
		go srv.Serve(l)
		c := connect(t, path)
		c.send(golden.in)
		c.expect(golden.out)
	})
}

// TestEnds are the ways a conversation ends: what is answered, then the end.
func TestEnds(t *testing.T) {
	for _, e := range []struct{ name, in, out string }{
		{"quit", "PING\r\nQUIT\r\nPING\r\n", "+PONG\r\n+OK\r\n"},
		{"bad frame", "PING\r\n*1\r\n$4\r\nPING\r\n*1\r\n+x\r\nPING\r\n", "+PONG\r\n+PONG\r\n-ERR Protocol error: expected '$', got '+'\r\n"},
		{"length near 2^63", "*2\r\n$4\r\nECHO\r\n$9223372036854775807\r\n", "-" + errBulkLen + "\r\n"},
		{"count near 2^63", "*9223372036854775807\r\n", "-" + errArgCount + "\r\n"},
		{"negative length", "*1\r\n$-1\r\n", "-" + errBulkLen + "\r\n"},
		{"argument too long", "*2\r\n$4\r\nECHO\r\n$600000\r\n", "-" + errBulkLen + "\r\n"},
		{"line without end", strings.Repeat("x", maxInline), "-" + errInlineTooBig + "\r\n"},
		{"TLS", "\x16\x03\x01\x02", "-" + errTLSHere + "\r\n"},
		{"http", "POST / HTTP/1.1\r\nHost: x\r\n\r\n", ""},
	} {
		t.Run(e.name, func(t *testing.T) {
			carried(t, nil, func(t *testing.T, srv *Server, addr string) {
				c, other := connect(t, addr), connect(t, addr)
				c.send(e.in)
				c.expectEnd(e.out)
				other.send("PING\r\n")
				other.expect("+PONG\r\n")
				until(t, "it is forgotten", func() bool { return srv.connections() == 1 })
			})
		})
	}
}

// TestSlowReader: a client that sends and does not read is not read from, costs
// little memory, and is closed after the write deadline. Others are served.
func TestSlowReader(t *testing.T) {
	carried(t, func(srv *Server) { srv.within.write, srv.within.command = time.Second, time.Hour }, func(t *testing.T, srv *Server, addr string) {
		other := connect(t, addr)
		other.send("PING\r\n")
		other.expect("+PONG\r\n")
		before := heapBytes()
		slow := connect(t, addr)
		const commands, size = 100_000, 1000
		one := fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", size, strings.Repeat("x", size))
		ended := make(chan int)
		go func() {
			sent := 0
			for chunk := []byte(strings.Repeat(one, 100)); sent < commands; sent += 100 {
				if _, err := slow.Write(chunk); err != nil {
					break
				}
			}
			ended <- sent
		}()
		untilStuck(t, srv)
		for range 100 {
			other.send("PING\r\n")
			other.expect("+PONG\r\n")
		}
		if grown := heapBytes() - before; grown > 1<<20 {
			t.Errorf("a client that does not read costs %d KB", grown>>10)
		}
		select {
		case sent := <-ended:
			if sent >= commands {
				t.Error("all commands of a client that does not read were taken")
			}
		case <-time.After(patience):
			t.Fatal("a client that does not read is not closed")
		}
		until(t, "it is forgotten", func() bool { return srv.connections() == 1 })
		if n := srv.Stats().Timeouts; n != 1 {
			t.Errorf("%d timeouts counted, want 1", n)
		}
	})
}

// heapBytes is what the heap holds after a collection.
func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestSlowReaderCatchesUp: a client that reads late but in time gets everything,
// whatever others were answered meanwhile.
func TestSlowReaderCatchesUp(t *testing.T) {
	carried(t, nil, func(t *testing.T, srv *Server, addr string) {
		c, other := connect(t, addr), connect(t, addr)
		const n, size = 30_000, 1000
		arg := func(i int) string { return fmt.Sprintf("%0*d", size, i) }
		go func() {
			w := bufio.NewWriterSize(c, 64<<10)
			for i := range n {
				fmt.Fprintf(w, "*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", size, arg(i))
			}
			w.Flush()
		}()
		untilStuck(t, srv)
		long := strings.Repeat("x", flushAt-100) // as long as any output of a turn
		for range 10 {
			other.send(fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", len(long), long))
			other.expect(fmt.Sprintf("$%d\r\n%s\r\n", len(long), long))
		}
		for i := range n {
			c.expect(fmt.Sprintf("$%d\r\n%s\r\n", size, arg(i)))
		}
	})
}

// untilStuck waits until the server, which was sent more than 100 kB, does not
// read on.
func untilStuck(t *testing.T, srv *Server) {
	t.Helper()
	last := uint64(0)
	until(t, "nothing is read", func() bool {
		now := srv.counters.bytesIn.Load()
		stuck := now == last && now > 100_000
		last = now
		if !stuck {
			time.Sleep(20 * time.Millisecond)
		}
		return stuck
	})
}

// TestHalfACommand: half a command and then silence, or a byte now and then,
// ends at the deadline; the connections beside it do not.
func TestHalfACommand(t *testing.T) {
	carried(t, func(srv *Server) { srv.within.command = shortly }, func(t *testing.T, srv *Server, addr string) {
		idle, silent, dribbling := connect(t, addr), connect(t, addr), connect(t, addr)
		start := time.Now()
		silent.send("*2\r\n$4\r\nEC")
		stop := make(chan struct{})
		var dribbler sync.WaitGroup
		dribbler.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(shortly / 20):
					io.WriteString(dribbling, "x") // an error is the end that is wanted
				}
			}
		})
		time.Sleep(shortly / 2)
		later := connect(t, addr)
		later.send("PI")
		for _, c := range []*client{silent, dribbling} {
			c.expectEnd("")
			if took := time.Since(start); took < shortly {
				t.Errorf("closed after %v, want not before %v", took, shortly)
			}
		}
		close(stop)
		dribbler.Wait()
		later.expectEnd("")
		if took := time.Since(start); took < shortly+shortly/2 {
			t.Errorf("closed after %v, want not before %v", took, shortly+shortly/2)
		}
		until(t, "they are counted", func() bool { return srv.Stats().Timeouts == 3 })
		idle.send("PING\r\n")
		idle.expect("+PONG\r\n")
	})
}

// TestSilence: the time to authenticate, and the idle time allowed.
func TestSilence(t *testing.T) {
	carried(t, func(srv *Server) {
		srv.within.auth = shortly
		apply(srv, func(s *Settings) { s.Password = "secret" })
	}, func(t *testing.T, srv *Server, addr string) {
		known := connect(t, addr)
		known.send("AUTH secret\r\n")
		known.expect("+OK\r\n")
		stranger := connect(t, addr)
		stranger.send("PING\r\n")
		stranger.expectEnd("-" + errNoAuth + "\r\n")
		known.send("PING\r\n")
		known.expect("+PONG\r\n")
		apply(srv, func(s *Settings) { s.Timeout = shortly }) // from the next command on
		known.send("PING\r\n")
		known.expectEnd("+PONG\r\n")
		until(t, "both are counted", func() bool { return srv.Stats().Timeouts == 2 })
	})
}

// TestMaxClients: one too many is refused with Redis's text; there is room again
// when another leaves.
func TestMaxClients(t *testing.T) {
	carried(t, func(srv *Server) { apply(srv, func(s *Settings) { s.MaxClients = 2 }) }, func(t *testing.T, srv *Server, addr string) {
		first, second := connect(t, addr), connect(t, addr)
		for _, c := range []*client{first, second} {
			c.send("PING\r\n")
			c.expect("+PONG\r\n")
		}
		connect(t, addr).expectEnd("-ERR max number of clients reached\r\n")
		if n := srv.Stats().Refused; n != 1 {
			t.Errorf("%d refused, want 1", n)
		}
		first.Close()
		until(t, "there is room", func() bool { return srv.connections() == 1 })
		third := connect(t, addr)
		for _, c := range []*client{second, third} {
			c.send("PING\r\n")
			c.expect("+PONG\r\n")
		}
	})
}

// TestProtectedMode: a peer from elsewhere is told why it is not answered.
func TestProtectedMode(t *testing.T) {
	carried(t, func(srv *Server) { apply(srv, func(s *Settings) { s.ProtectedMode = true }) }, func(t *testing.T, srv *Server, addr string) {
		near := connect(t, addr)
		near.send("PING\r\n")
		near.expect("+PONG\r\n")
		server, far := net.Pipe()
		srv.start(peerConn{server, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}})
		far.SetDeadline(time.Now().Add(patience))
		got, _ := io.ReadAll(far)
		if !bytes.HasPrefix(got, []byte("-DENIED ")) {
			t.Errorf("told %q", got)
		}
	})
}

// TestFaultCostsOneConnection: a fault in a command ends the connection that
// sent it, with an error, and no other.
func TestFaultCostsOneConnection(t *testing.T) {
	carried(t, addFaultyCommand, func(t *testing.T, srv *Server, addr string) {
		c, other := connect(t, addr), connect(t, addr)
		other.send("PI")
		c.send("PING\r\nBOOM\r\nPING\r\n")
		c.expectEnd("+PONG\r\n-" + errInternal + "\r\n")
		c = connect(t, addr)
		c.send("PING\r\nBOOMLATER\r\nPING\r\n")
		c.expectEnd("+PONG\r\n-" + errInternal + "\r\n")
		other.send("NG\r\n")
		other.expect("+PONG\r\n")
		if n := srv.Stats().Panics; n != 2 {
			t.Errorf("%d faults counted, want 2", n)
		}
	})
}

// TestShutdownUnderLoad: every command that a stopping server executed is
// answered, whole; then it is gone with its goroutines.
func TestShutdownUnderLoad(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	carried(t, nil, func(t *testing.T, srv *Server, addr string) {
		var clients sync.WaitGroup
		var answered atomic.Int64
		for i := range 16 {
			c := connect(t, addr)
			batch := strings.Repeat("PING\r\n", 1+i*3)
			clients.Go(func() {
				for {
					if _, err := io.WriteString(c, batch); err != nil {
						break
					}
					for range 1 + i*3 {
						line, err := c.r.ReadString('\n')
						if err != nil && line == "" {
							return
						}
						if line != "+PONG\r\n" {
							t.Errorf("a reply is %q", line)
						}
						answered.Add(1)
					}
				}
			})
		}
		idle, half := connect(t, addr), connect(t, addr)
		half.send("*1\r\n$4\r\nPI")
		until(t, "there is load", func() bool { return answered.Load() > 1000 })
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		start := time.Now()
		srv.Shutdown(ctx)
		if ctx.Err() != nil {
			t.Error("a server under load does not stop by itself")
		}
		if took := time.Since(start); took < drainFor {
			t.Errorf("stopped after %v: clients have %v to be heard", took, drainFor)
		}
		clients.Wait()
		idle.expectEnd("")
		half.expectEnd("")
		if executed := int64(srv.Stats().Commands); executed != answered.Load() {
			t.Errorf("%d commands were executed, %d answered", executed, answered.Load())
		}
		if _, err := net.Dial("tcp", addr); err == nil {
			t.Error("a stopped server accepts")
		}
	})
	until(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// TestStopReachesWhoSends: a peer that still sends, and reads late, gets every
// reply of a server that stopped, and then its end, not a reset.
func TestStopReachesWhoSends(t *testing.T) {
	carried(t, nil, func(t *testing.T, srv *Server, addr string) {
		c := connect(t, addr)
		c.Conn.(*net.TCPConn).SetReadBuffer(32 << 10)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for {
				if _, err := io.WriteString(c, "PING\r\n"); err != nil {
					return
				}
			}
		}()
		until(t, "the peer has been heard", func() bool { return srv.Stats().Commands > 1000 })
		stopped := make(chan struct{})
		go func() {
			srv.Shutdown(context.Background())
			close(stopped)
		}()
		until(t, "it is no longer", func() bool {
			before := srv.Stats().Commands
			time.Sleep(2 * drainFor)
			return srv.isClosing() && srv.Stats().Commands == before
		})
		read, err := int64(0), error(nil)
		for n := int64(1); n > 0; read += n {
			n, err = io.CopyN(io.Discard, c.r, 4<<10)
			time.Sleep(time.Millisecond) // or the server would not have to wait
		}
		if want := 7 * int64(srv.Stats().Commands); err != io.EOF || read != want {
			t.Errorf("%d bytes of replies, want %d: %v", read, want, err)
		}
		c.Close()
		<-sent
		<-stopped
	})
}

// TestAnswersWithoutAllocating: a command costs no allocation, from the socket
// and back to it.
func TestAnswersWithoutAllocating(t *testing.T) {
	carried(t, nil, func(t *testing.T, srv *Server, addr string) {
		c := connect(t, addr)
		in := []byte("*4\r\n$10\r\nRL.ACQUIRE\r\n$3\r\nkey\r\n$2\r\n10\r\n$2\r\n20\r\n")
		out := make([]byte, 1<<10)
		trip := func() {
			c.Write(in)
			c.Read(out)
		}
		if n := testing.AllocsPerRun(2000, trip); n > 0 {
			t.Errorf("%v allocations for a command", n)
		}
	})
}
