package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A slowLink is a proxy before a server: what goes through it comes later, at so
// many bytes a second at most, and may be cut off in the middle of anything.
type slowLink struct {
	addr  string
	delay atomic.Int64 // ns, each way
	rate  atomic.Int64 // bytes a second each way; 0 = no bound
	taken atomic.Int64 // connections that came through

	to    string
	lis   net.Listener
	mu    sync.Mutex
	open  map[net.Conn]bool
	tasks sync.WaitGroup
}

// piece is how much goes through at a time: little, so that a cut is within a frame.
const piece = 1000

func startSlowLink(t *testing.T, to string) *slowLink {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &slowLink{addr: lis.Addr().String(), to: to, lis: lis, open: map[net.Conn]bool{}}
	l.tasks.Add(1)
	go l.accept()
	t.Cleanup(func() {
		lis.Close()
		l.cut()
		l.tasks.Wait()
	})
	return l
}

func (l *slowLink) accept() {
	defer l.tasks.Done()
	for {
		from, err := l.lis.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", l.to)
		if err != nil {
			from.Close()
			continue
		}
		l.taken.Add(1)
		l.mu.Lock()
		l.open[from], l.open[to] = true, true
		l.mu.Unlock()
		l.tasks.Add(2)
		go l.pass(from, to)
		go l.pass(to, from)
	}
}

// cut breaks all connections that there are.
func (l *slowLink) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		c.Close()
	}
	clear(l.open)
}

type passing struct {
	due time.Time
	b   []byte
}

// pass carries one direction. What is under way on the long way is in a queue.
func (l *slowLink) pass(from, to net.Conn) {
	defer l.tasks.Done()
	way := make(chan passing, 1000)
	l.tasks.Add(1)
	go func() {
		defer l.tasks.Done()
		defer to.Close()
		for p := range way {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.b); err != nil {
				from.Close()
			}
			if rate := l.rate.Load(); rate > 0 {
				time.Sleep(time.Duration(len(p.b)) * time.Second / time.Duration(rate))
			}
		}
	}()
	defer close(way)
	for {
		b := make([]byte, piece)
		n, err := from.Read(b)
		if n > 0 {
			way <- passing{time.Now().Add(time.Duration(l.delay.Load())), b[:n]}
		}
		if err != nil {
			return
		}
	}
}

// sends gives one call to each of so many keys, in pipelines.
func (c *testConn) sends(t *testing.T, from, to int) {
	t.Helper()
	const depth = 500
	for ; from < to; from += depth {
		var ask strings.Builder
		for i := from; i < min(from+depth, to); i++ {
			ask.WriteString(frame("RL.ACQUIRE", fmt.Sprintf("key:%d", i), "1/30d", "100"))
		}
		if _, err := io.WriteString(c.nc, ask.String()); err != nil {
			t.Fatal(err)
		}
		for i := from; i < min(from+depth, to); i++ {
			if r, err := readReply(c.r); err != nil || len(r.items) != 5 {
				t.Fatalf("%v, %v", r.lines(), err)
			}
		}
	}
}

// TestSlowLink has a replica behind a link that is slow, far and breaks. The primary
// answers meanwhile and keeps no more for it than it may; with repl-ack 1 it waits
// for the way there and back; a break costs a partial resync; in the end both have
// the same.
func TestSlowLink(t *testing.T) {
	const far, slow, keys = 30 * time.Millisecond, 50_000, 40_000
	a := startTest(t, nil)
	link := startSlowLink(t, a.addr)
	host, port, _ := net.SplitHostPort(link.addr)
	b := startTest(t, []string{"--replicaof", host + " " + port})
	ca, cb := dial(t, a.addr), dial(t, b.addr)
	up := func() bool { return cb.section("replication")["master_link_status"] == "up" }
	until(t, "the replica is in step", up)
	same := func(what string) {
		t.Helper()
		until(t, what+": the replica has all keys", func() bool { return up() && cb.do("DBSIZE").text == ca.do("DBSIZE").text })
		until(t, what+": the replica has the last state", func() bool {
			return cb.do("RL.PEEK", "last").ints()[2] == ca.do("RL.PEEK", "last").ints()[2]
		})
		for i := 0; i < keys; i += 977 {
			key := fmt.Sprintf("key:%d", i)
			if x, y := ca.do("RL.GET", key).lines(), cb.do("RL.GET", key).lines(); strings.Join(x, " ") != strings.Join(y, " ") {
				t.Fatalf("%s: %s is %q on the primary, %q on the replica", what, key, x, y)
			}
		}
	}

	// The way is long.
	link.delay.Store(int64(far))
	ca.do("CONFIG", "SET", "repl-ack", "1", "repl-ack-on-timeout", "refuse", "repl-ack-timeout", "20s")
	for range 3 {
		began := time.Now()
		if got := ca.do("RL.ACQUIRE", "last", "1/30d", "1000000"); len(got.items) != 5 || time.Since(began) < 2*far {
			t.Errorf("repl-ack 1, the way there and back is %v: %q after %v", 2*far, got.lines(), time.Since(began))
		}
	}
	ca.do("CONFIG", "SET", "repl-ack", "0")

	// It carries far less than what changes, and callers notice nothing.
	link.delay.Store(0)
	link.rate.Store(slow)
	for n := range 5 {
		ca.sends(t, n*keys/5, (n+1)*keys/5)
		ca.sends(t, 0, keys/5) // hot ones
	}
	if had := cb.do("DBSIZE").text; had == ca.do("DBSIZE").text { // it takes a minute at this rate
		t.Error("callers have waited for a slow replica: it has all", had)
	}
	ca.do("RL.ACQUIRE", "last", "1/30d", "1000000")
	link.rate.Store(0)
	same("after a slow time")

	// It breaks, in the middle of frames.
	before := ca.section("stats")
	link.rate.Store(4_000_000)
	for n := range 10 {
		taken := link.taken.Load()
		ca.sends(t, n*keys/10, (n+1)*keys/10)
		link.cut()
		until(t, "the replica comes again", func() bool { return link.taken.Load() > taken && up() })
	}
	ca.do("RL.ACQUIRE", "last", "1/30d", "1000000")
	link.rate.Store(0)
	same("after breaks")
	after := ca.section("stats")
	t.Logf("syncs of the primary before the breaks: full %s, partial %s; after: full %s, partial %s",
		before["sync_full"], before["sync_partial_ok"], after["sync_full"], after["sync_partial_ok"])
	if before["sync_partial_ok"] == after["sync_partial_ok"] {
		t.Error("no break was mended by a partial resync")
	}
}
