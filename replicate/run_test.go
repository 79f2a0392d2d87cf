package replicate

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlserver/rlserver/shard"
)

// A testNode is a Runner with a listener that understands no more than a peer
// says.
type testNode struct {
	t      *testing.T
	run    *Runner
	store  *shard.Store
	l      net.Listener
	base   atomic.Int64
	mu     sync.Mutex
	saved  State
	closed atomic.Int64
}

var testStarted = time.Now()

func testNow() Time { return Time(time.Hour) + Time(time.Since(testStarted)) }

func (n *testNode) addr() string { return n.l.Addr().String() }

func startTestNode(t *testing.T, id string, primary string, acks AckMode) *testNode {
	t.Helper()
	return startTestNodeAs(t, id, State{Primary: primary}, acks)
}

func startTestNodeAs(t *testing.T, id string, state State, acks AckMode) *testNode {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &testNode{t: t, l: l, store: shard.New(shard.Config{Grace: 3000})}
	n.store.NewFeed()
	feed := n.store.NewFeed()
	feed.Off()
	n.base.Store(time.Now().UnixMilli() - testNow().Milliseconds())
	n.run = NewRunner(Options{
		Config: Config{
			Self: Peer{id, n.addr()}, Mine: func(a string) bool { return a == n.addr() },
			NewID: func() string { return fmt.Sprintf("%016x%024x", rand.Uint64(), rand.Uint64()) },
			Acks:  acks, FenceAfter: FenceAfter,
		},
		Store: n.store, Feed: feed, State: state, Clean: true, Now: testNow,
		Clock: n.clock, SetClock: n.base.Store,
		Save: func(s State) error {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.saved = s
			return nil
		},
		CloseClients: func() { n.closed.Add(1) },
		Login:        func() (string, string) { return "", "" },
		Log:          slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	go n.serve()
	t.Cleanup(func() {
		l.Close()
		n.run.Stop()
	})
	return n
}

func (n *testNode) clock() int64 { return n.base.Load() + testNow().Milliseconds() }

func (n *testNode) serve() {
	for {
		nc, err := n.l.Accept()
		if err != nil {
			return
		}
		go n.greet(nc)
	}
}

func (n *testNode) greet(nc net.Conn) {
	in := bufio.NewReader(nc)
	var from Peer
	for {
		args, err := readCommand(in)
		if err != nil {
			nc.Close()
			return
		}
		switch args[0] {
		case "REPLCONF":
			from = Peer{args[6], net.JoinHostPort(args[4], args[2])}
			io.WriteString(nc, "+OK\r\n")
		default:
			rest, _ := in.Peek(in.Buffered())
			if err := n.run.Serve(nc, rest, from, args); err != nil {
				nc.Close()
			}
			return
		}
	}
}

func readCommand(in *bufio.Reader) (args []string, err error) {
	line, err := readLine(in)
	if err != nil {
		return nil, err
	}
	count, _ := strconv.Atoi(strings.TrimPrefix(line, "*"))
	for range count {
		if _, err = readLine(in); err != nil {
			return nil, err
		}
		if line, err = readLine(in); err != nil {
			return nil, err
		}
		args = append(args, line)
	}
	return args, nil
}

// change does one write and returns the round its reply waits for.
func (n *testNode) change(key string, value []byte) uint64 {
	tx := n.store.Lock(n.clock(), []byte(key))
	tx.Put([]byte(key), 1, value, 1000)
	round := tx.Shipped()
	tx.Unlock()
	return round
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("it did not come to be that " + what)
		}
	}
}

// TestRunner has three nodes over real sockets: full sync of what was there,
// frames, acks, a planned failover and the return of the old primary.
func TestRunner(t *testing.T) {
	a := startTestNode(t, "a", "", 1)
	for i := range 3000 {
		a.change(fmt.Sprint("old:", i), bucket(t, a.clock(), 1))
	}
	if !a.run.Doors().Open || !a.run.Doors().Short {
		t.Errorf("a primary alone, that needs one ack: %+v", a.run.Doors())
	}
	b, c := startTestNode(t, "b", a.addr(), 1), startTestNode(t, "c", a.addr(), 1)
	nodes := []*testNode{a, b, c}
	eventually(t, "both follow", func() bool { return b.run.Status().Link && c.run.Status().Link && a.run.Status().Replicas[0].Online })

	// While another goroutine writes on, each reply waits for one of them.
	stop, wrote := make(chan struct{}), make(chan int)
	go func() {
		i := 0
		for ; ; i++ {
			select {
			case <-stop:
				wrote <- i
				return
			default:
				a.change(fmt.Sprint("k", i%1000), bucket(t, a.clock(), int64(1+i%100)))
			}
		}
	}()
	for i := range 200 {
		round := a.change(fmt.Sprint("gated", i), bucket(t, a.clock(), 1))
		eventually(t, "an ack came", func() bool { return a.run.Ready(round) })
	}
	close(stop)
	<-wrote
	same := func(x, y *testNode) bool { return reflect.DeepEqual(content(x.store), content(y.store)) }
	eventually(t, "all have the same", func() bool { return same(a, b) && same(a, c) })

	b.run.Do(Lead{})
	eventually(t, "b leads", func() bool { return b.run.Doors().Open })
	if a.run.Doors().Open || a.closed.Load() != 1 || a.run.Doors().Role != Following {
		t.Errorf("the old primary: %+v, closed its clients %d times", a.run.Doors(), a.closed.Load())
	}
	c.run.Do(Follow{b.addr()})
	eventually(t, "a and c follow b", func() bool { return a.run.Status().Link && c.run.Status().Link && c.run.Status().Primary == b.addr() })
	for i := range 1000 {
		b.change(fmt.Sprint("new:", i), bucket(t, b.clock(), 1))
	}
	eventually(t, "all have the same again", func() bool { return same(a, b) && same(b, c) })
	for i, n := range nodes {
		if s := n.run.Status(); s.Term != 2 {
			t.Errorf("node %d is in term %d", i, s.Term)
		}
	}
	n := b.run.Status()
	if n.Replid2 == "" || n.Replid == n.Replid2 {
		t.Errorf("histories %q and %q", n.Replid, n.Replid2)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.saved.Primary != "" || b.saved.Term != 2 || len(b.saved.Replicas) != 2 {
		t.Errorf("saved %+v", b.saved)
	}
}

// TestRunnerTakes has a node promoted that has nothing: it takes all from a
// replica of the primary, which hears of it from that replica only.
func TestRunnerTakes(t *testing.T) {
	a := startTestNode(t, "a", "", 0)
	for i := range 3000 {
		a.change(fmt.Sprint("old:", i), bucket(t, a.clock(), 1))
	}
	b := startTestNode(t, "b", a.addr(), 0)
	eventually(t, "b follows", func() bool { return b.run.Status().Link })
	c := startTestNodeAs(t, "c", State{Primary: "127.0.0.1:1", Replicas: []Peer{{"b", b.addr()}}}, 0)
	if s := c.run.Status(); s.Priority(100) != 100+stalePriority || c.run.Doors().Whole {
		t.Errorf("a replica that was started: %+v", s)
	}
	c.run.Do(Lead{})
	eventually(t, "c leads", func() bool { return c.run.Doors().Open })
	if n := len(content(c.store)); n != 3000 {
		t.Errorf("c has %d entries", n)
	}
	// c had not to wait for a: nobody listens where it knew a primary.
	eventually(t, "a follows c", func() bool { return a.run.Status().Link && a.run.Status().Primary == c.addr() })
	c.change("new", bucket(t, c.clock(), 1))
	eventually(t, "both have the same", func() bool { return reflect.DeepEqual(content(a.store), content(c.store)) })
}
