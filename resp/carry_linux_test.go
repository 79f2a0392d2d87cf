package resp

import (
	"bytes"
	"context"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// bytesPerIdle is what an idle connection may cost, in bytes of the Go heap and
// stacks. 5,000 of them must fit into 60 MB; a loop needs far less.
var bytesPerIdle = map[string]int64{"loop": 2 << 10, "goroutine": 12 << 10}

// TestIdleConnections: 2,000 idle clients, each of which was answered once, cost
// little memory, and all are served.
func TestIdleConnections(t *testing.T) {
	const clients = 2000
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); files.Cur < 2*clients+100 {
		t.Skipf("needs %d open files, may have %d", 2*clients+100, files.Cur)
	}
	for _, carrier := range []string{"loop", "goroutine"} {
		t.Run(carrier, func(t *testing.T) {
			srv := newTestServer(wallClock{time.Now()})
			apply(srv, func(s *Settings) { s.MaxClients = clients })
			if carrier == "goroutine" {
				srv.loopCount = -1
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			all := connectRaw(t, l.Addr().(*net.TCPAddr).Port, clients)
			before := heapBytes()
			go srv.Serve(l)
			ask := []byte("*4\r\n$10\r\nRL.ACQUIRE\r\n$3\r\nkey\r\n$2\r\n10\r\n$2\r\n20\r\n")
			answer := make([]byte, 100)
			for range 2 {
				for _, fd := range all {
					syscall.Write(fd, ask)
				}
				for _, fd := range all {
					if n, err := syscall.Read(fd, answer); n == 0 || answer[0] != '*' {
						t.Fatalf("an idle client is answered %q, %v", answer[:max(n, 0)], err)
					}
				}
			}
			each := (heapBytes() - before) / clients
			t.Logf("%d bytes for an idle connection", each)
			if each > bytesPerIdle[carrier] {
				t.Errorf("%d bytes for an idle connection, want at most %d", each, bytesPerIdle[carrier])
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			srv.Shutdown(ctx)
		})
	}
}

// connectRaw opens connections that take nothing of the Go heap. They wait in
// the listener's backlog as long as nobody accepts.
func connectRaw(t *testing.T, port, n int) []int {
	t.Helper()
	var all []int
	t.Cleanup(func() {
		for _, fd := range all {
			syscall.Close(fd)
		}
	})
	for range n {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fd)
		limit := syscall.Timeval{Sec: int64(patience / time.Second)}
		syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit)
		if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestLoopsShareTheWork: a new connection goes to the loop that has fewest.
func TestLoopsShareTheWork(t *testing.T) {
	srv := newTestServer(wallClock{time.Now()})
	srv.loopCount = 3
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	var clients []*client
	for range 6 {
		c := connect(t, l.Addr().String())
		c.send("PING\r\n")
		c.expect("+PONG\r\n")
		clients = append(clients, c)
	}
	srv.mu.Lock()
	for i, l := range srv.loops.all {
		if n := l.count.Load(); n != 2 {
			t.Errorf("loop %d has %d of 6 connections on 3 loops, want 2", i, n)
		}
	}
	srv.mu.Unlock()
	srv.Shutdown(context.Background())
	for _, c := range clients {
		c.expectEnd("")
	}
}

// TestWhatWasReceivedIsAnswered: a stopping server answers what had reached it
// even if its loop was busy until the end, with more sockets ready than one
// wait tells of.
func TestWhatWasReceivedIsAnswered(t *testing.T) {
	busy, release := make(chan struct{}), make(chan struct{})
	srv := newTestServer(wallClock{time.Now()})
	srv.loopCount = 1
	apply(srv, func(s *Settings) { s.MaxClients = 1000 })
	srv.table = newTable(append(rows(), &command{name: "block", arity: 1, group: "server", run: func(s *Session, _ [][]byte) {
		close(busy)
		<-release
	}}))
	srv.counters.cells = make([]cell, srv.table.count+1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	var clients []*client
	for range 2*eventsAtOnce + 1 {
		c := connect(t, l.Addr().String())
		c.send("PING\r\n")
		c.expect("+PONG\r\n")
		clients = append(clients, c)
	}
	connect(t, l.Addr().String()).send("BLOCK\r\n")
	<-busy
	stopped := make(chan struct{})
	go func() {
		srv.Shutdown(context.Background())
		close(stopped)
	}()
	until(t, "the stop is under way", func() bool { return srv.isClosing() })
	time.Sleep(2 * drainFor)
	for _, c := range clients {
		c.send("PING\r\n")
	}
	close(release)
	for _, c := range clients {
		c.expectEnd("+PONG\r\n")
	}
	<-stopped
}

// TestCutBeforeItArrives: a client may be killed before its loop has heard of it.
func TestCutBeforeItArrives(t *testing.T) {
	srv := newTestServer(wallClock{time.Now()})
	srv.loopCount = 1
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	first := connect(t, l.Addr().String())
	first.send("PING\r\n")
	first.expect("+PONG\r\n")
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	client, err := net.Dial("tcp", other.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	nc, err := other.Accept()
	if err != nil {
		t.Fatal(err)
	}
	srv.mu.Lock()
	srv.done.Add(1)
	c := srv.carry(nc)
	srv.conns[c] = struct{}{}
	srv.mu.Unlock()
	c.cut()
	c.start()
	until(t, "it is gone", func() bool { return srv.connections() == 1 })
	first.send("PING\r\n")
	first.expect("+PONG\r\n")
}

// TestNothingIsLeftOpen: after a stop no descriptor and no goroutine is left,
// whatever its connections were at.
func TestNothingIsLeftOpen(t *testing.T) {
	var disk *slowDisk
	files, goroutines := openFiles(t), runtime.NumGoroutine()
	carried(t, func(srv *Server) { disk = onSlowDisk(srv) }, func(t *testing.T, srv *Server, addr string) {
		idle, half, gated, full := connect(t, addr), connect(t, addr), connect(t, addr), connect(t, addr)
		idle.send("PING\r\n")
		idle.expect("+PONG\r\n")
		half.send("*1\r\n$4\r\nPI")
		gated.send("SAVE\r\n")
		go full.Write(bytes.Repeat([]byte("COMMAND\r\n"), 1<<20)) // its answers are not read
		disk.untilAsked(t, 1)
		ctx, cancel := context.WithTimeout(context.Background(), shortly)
		defer cancel()
		srv.Shutdown(ctx)
		disk.settle(1, nil)
		for _, c := range []*client{idle, half, gated, full} {
			c.Close()
		}
		until(t, "every descriptor is closed", func() bool { return openFiles(t) <= files })
	})
	until(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// openFiles is how many descriptors the process has open. The Go poller's own
// are there from the first listener on, so one is opened before.
func openFiles(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(entries)
}
