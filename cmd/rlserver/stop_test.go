package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// left asks how many tokens a key has, under the limit all these tests use.
func left(t testing.TB, addr, key string) int64 {
	t.Helper()
	got := dial(t, addr).do("RL.PEEK", key, "1/30d", "1000000", "COST", "0").ints()
	if got == nil {
		t.Fatal("RL.PEEK answers no decision")
	}
	return got[2]
}

// TestStopKeepsState: each orderly way to stop writes the state, whatever the
// durability, and one that was told not to does not.
func TestStopKeepsState(t *testing.T) {
	t.Parallel()
	signal := func(sig syscall.Signal) func(*process, *testConn) {
		return func(p *process, _ *testConn) { p.signal(sig) }
	}
	shutdown := func(words ...string) func(*process, *testConn) {
		return func(p *process, c *testConn) {
			if got := c.do(append([]string{"SHUTDOWN"}, words...)...); got.mark != closed {
				p.t.Errorf("SHUTDOWN %q: reply %q, want the end of the connection", words, got.lines())
			}
		}
	}
	for _, c := range []struct {
		name string
		end  func(*process, *testConn)
		kept bool
	}{
		{"SIGTERM", signal(syscall.SIGTERM), true},
		{"SIGINT", signal(syscall.SIGINT), true},
		{"SHUTDOWN", shutdown(), true},
		{"shutdown save now force", shutdown("save", "NOW", "Force"), true},
		{"SHUTDOWN NOSAVE", shutdown("NOSAVE"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, t.TempDir(), "--durability", "shutdown")
			conn := dial(t, p.addr)
			conn.do("RL.ACQUIRE", "k", "1/30d", "1000000", "COST", "400000")
			conn.do("RL.ACQUIRE", "gone", "1/30d", "1000000")
			conn.do("DEL", "gone")
			if got := conn.do("SHUTDOWN", "PERHAPS"); got.mark != '-' {
				t.Errorf("SHUTDOWN PERHAPS: %q, want an error", got.lines())
			}
			c.end(p, conn)
			if code := p.exit(); code != exitOK {
				t.Errorf("exit code %d:\n%s", code, p.out.String())
			}
			p = start(t, p.dir)
			want := int64(1000000)
			if c.kept {
				want = 600000
			}
			if got := left(t, p.addr, "k"); got != want {
				t.Errorf("%d tokens after the restart, want %d", got, want)
			}
			if got := left(t, p.addr, "gone"); got != 1000000 {
				t.Errorf("the deleted key has %d tokens after the restart", got)
			}
		})
	}
}

// stopWithin is how long SIGTERM may take with clients at work: 5 s by the promise, and it takes a tenth of one; the rest
// is for a busy machine. A client that holds the stop up does so until shutdown-timeout, which the tests set to
// heldUp.
const (
	stopWithin = 30 * time.Second
	heldUp     = "120"
)

// TestStopAnswersWhatCame: commands that were in the server's hands when it was
// told to stop are answered, all of them.
func TestStopAnswersWhatCame(t *testing.T) {
	t.Parallel()
	const clients, each = 64, 1000 // a write of about 50 KB fits what a socket holds unread
	p := start(t, t.TempDir(), "--shutdown-timeout", heldUp)
	conns := make([]*testConn, clients)
	for i := range conns {
		conns[i] = dial(t, p.addr)
		conns[i].do("PING") // accepted, not only connected
	}
	pipeline := strings.Repeat(frame("RL.ACQUIRE", "k", "1/30d", "1000000"), each)
	for _, c := range conns {
		if _, err := io.WriteString(c.nc, pipeline); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	p.signal(syscall.SIGTERM)
	var answered atomic.Int64
	var readers sync.WaitGroup
	for _, c := range conns {
		readers.Go(func() {
			for {
				got, err := readReply(c.r)
				if err != nil {
					return
				}
				if len(got.ints()) == 5 {
					answered.Add(1)
				}
			}
		})
	}
	readers.Wait()
	if code := p.exit(); code != exitOK || time.Since(begun) > stopWithin {
		t.Errorf("exit code %d after %v", code, time.Since(begun))
	}
	if got := answered.Load(); got != clients*each {
		t.Errorf("%d of %d commands were answered", got, clients*each)
	}
	p = start(t, p.dir)
	if got := 1000000 - left(t, p.addr, "k"); got != clients*each {
		t.Errorf("%d tokens were taken for %d commands", got, clients*each)
	}
}

// TestStopUnderLoad: clients go on sending while the server stops. What it
// executed it has answered, so the tokens gone after a restart are exactly the
// admissions that clients have seen.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), "--shutdown-timeout", heldUp)
	var admitted atomic.Int64
	var load sync.WaitGroup
	for i := range 16 {
		c := dial(t, p.addr)
		load.Go(func() { acquireForever(c, 1+i%8*4, &admitted) })
	}
	p.await("load", func() bool { return admitted.Load() > 20000 })
	begun := time.Now()
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitOK || time.Since(begun) > stopWithin {
		t.Errorf("exit code %d after %v", code, time.Since(begun))
	}
	load.Wait()
	p = start(t, p.dir)
	if gone, seen := 1000000-left(t, p.addr, "k"), admitted.Load(); gone != seen {
		t.Errorf("%d tokens are gone, clients have seen %d admissions", gone, seen)
	}
}

// acquireForever sends pipelines of the given depth without waiting for the
// answers, and counts the admissions it reads, until the connection ends.
func acquireForever(c *testConn, depth int, admitted *atomic.Int64) {
	batch := []byte(strings.Repeat(frame("RL.ACQUIRE", "k", "1/30d", "1000000"), depth))
	slots := make(chan struct{}, 4) // pipelines under way
	over := make(chan struct{})
	go func() {
		defer close(over)
		for n := 0; ; n++ {
			got, err := readReply(c.r)
			if err != nil {
				return
			}
			if d := got.ints(); len(d) == 5 && d[0] == 1 {
				admitted.Add(1)
			}
			if n%depth == depth-1 {
				<-slots
			}
		}
	}()
	for {
		select {
		case slots <- struct{}{}:
		case <-over:
			return
		}
		if _, err := c.nc.Write(batch); err != nil {
			<-over // what was answered is still read
			return
		}
	}
}

// TestStopIsNotHeldUp: a client that is idle, one in the middle of a command,
// one that does not read and one that keeps sending do not keep the server.
func TestStopIsNotHeldUp(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), "--shutdown-timeout", heldUp)
	dial(t, p.addr).do("PING")
	io.WriteString(dial(t, p.addr).nc, "*3\r\n$10\r\nRL.ACQ")
	deaf := dial(t, p.addr)
	deaf.nc.(*net.TCPConn).SetReadBuffer(1 << 10)
	deaf.nc.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)) // until both directions are full
	line := bytes.Repeat([]byte("ECHO "+strings.Repeat("x", 1000)+"\r\n"), 100)
	for {
		if _, err := deaf.nc.Write(line); err != nil {
			break
		}
	}
	chatty := dial(t, p.addr)
	go func() {
		for {
			if _, err := fmt.Fprint(chatty.nc, "PING\r\n"); err != nil {
				return
			}
		}
	}()
	go io.Copy(io.Discard, bufio.NewReader(chatty.nc))
	begun := time.Now()
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitOK || time.Since(begun) > stopWithin {
		t.Errorf("exit code %d after %v:\n%s", code, time.Since(begun), p.out.String())
	}
}

// TestStopDropsLongCommands: commands that go through many long keys with a
// pattern that takes long do not keep the server, whatever shutdown-timeout is.
func TestStopDropsLongCommands(t *testing.T) {
	t.Parallel()
	const keys, clients = 3000, 8
	p := start(t, t.TempDir(), "--shutdown-timeout", heldUp)
	var calls []string
	for i := range keys {
		calls = append(calls, frame("RL.ACQUIRE", strings.Repeat("a", 1000)+fmt.Sprint(i), "1/1h:5"))
	}
	c := dial(t, p.addr)
	go io.WriteString(c.nc, strings.Join(calls, ""))
	for range keys {
		if got, err := readReply(c.r); err != nil || len(got.items) != 5 {
			t.Fatalf("%q, %v", got.lines(), err)
		}
	}
	for range clients {
		c := dial(t, p.addr)
		io.WriteString(c.nc, strings.Repeat(frame("KEYS", "*"+strings.Repeat("a", 500)+"b"), 20)+frame("PING"))
	}
	begun := time.Now()
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitOK || time.Since(begun) > stopWithin {
		t.Errorf("exit code %d after %v:\n%s", code, time.Since(begun), p.out.String())
	}
}

// TestAskedAgain: signals that come at once are one wish, a later one is another.
func TestAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals, begun := make(chan os.Signal), time.Now()
		go func() {
			for _, after := range []time.Duration{0, sameWish / 2, sameWish} {
				time.Sleep(after - time.Since(begun))
				signals <- syscall.SIGINT
			}
		}()
		askedAgain(signals)
		if took := time.Since(begun); took != sameWish {
			t.Errorf("asked again after %v", took)
		}
	})
}

// TestTwoSignalsAtOnce stop the server as one does.
func TestTwoSignalsAtOnce(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), "--durability", "shutdown")
	dial(t, p.addr).do("RL.ACQUIRE", "k", "1/30d", "1000000", "COST", "400000")
	p.signal(syscall.SIGINT)
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, p.out.String())
	}
	if got := left(t, start(t, p.dir).addr, "k"); got != 600000 {
		t.Errorf("%d tokens after the restart", got)
	}
}
