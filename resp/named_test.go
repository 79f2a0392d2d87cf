package resp

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

// askedDisk notes what was asked of it.
type askedDisk struct {
	noDisk
	feed *shard.Feed
}

func (d askedDisk) Save() uint64 { return d.feed.Round() }

// TestLimitsWaitAtTheGate: what changed a named limit is answered when its round
// is durable; what changed nothing waits for nothing.
func TestLimitsWaitAtTheGate(t *testing.T) {
	store := shard.New(shard.Config{})
	disk := askedDisk{feed: store.NewFeed()}
	disk.feed.Cut().Next(1)
	srv := New(Config{Store: store, Clock: standingClock{}, Durability: disk, Options: noOptions{}, Log: slog.New(slog.DiscardHandler), LimitsFile: "limits.conf",
		Settings: Settings{MaxClients: 1, MaxBulk: 64 << 10}, Shutdown: func(bool) {}, Extra: func() []any { return nil }})
	srv.SetLoading(false)
	if _, err := store.Limits().SetFile([]shard.NamedLimit{{Name: "of:file", Limit: engine.Limit{Algorithm: engine.Bucket, P: 1, Q: 1, Capacity: 1}}}); err != nil {
		t.Fatal(err)
	}
	c := newTalker(t, srv)
	for _, try := range []struct {
		line, want string
		round      uint64
	}{
		{"RL.LIMIT DEL a", ":0", 0},
		{"RL.LIMIT SET a ten", "-ERR limit \"ten\"", 0},
		{"RL.LIMIT SET of:file 10:20", "-ERR limit of:file belongs to the limits-file \"limits.conf\"", 0},
		{"RL.LIMIT DEL of:file", "-ERR limit of:file belongs to the limits-file \"limits.conf\"", 0},
		{"RL.LIMIT SET a 10:20", "+OK", 2},
		{"RL.LIMIT GET a", "$5\r\n10:20", 0},
		{"RL.LIMIT DEL a", ":1", 2},
	} {
		c.s.Feed(frame(strings.Fields(try.line)...))
		if got := string(c.s.Output()); !strings.HasPrefix(got, try.want) || c.s.round != try.round {
			t.Errorf("%s: %q waits for round %d, want %q and %d", try.line, got, c.s.round, try.want, try.round)
		}
		c.s.Written()
	}
}

// TestNoLimitTells: whatever is asked for, the error fits a line and names what
// would help.
func TestNoLimitTells(t *testing.T) {
	long := strings.Repeat("n", shard.MaxLimitName)
	for name, want := range map[string]string{
		"a": "a nor *:", "a:b": "a:b nor a:*, *:", "a:b:c:d": "a:b:c:d nor a:b:c:*, a:b:*, a:*:", "*": "limit *:", "a:*": "a:* nor *:", "a:": "a: nor a:*, *:",
		"::": ":: nor ::*, :*, *:", long: "RL.LIMIT SET name 10:20", long + "n": "limit name", "": "limit name", "a b": `limit name "a b"`,
	} {
		if err := noLimit([]byte(name), "10:20"); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > maxErrorBytes-len("ERR ") {
			t.Errorf("%.20q: %v", name, err)
		}
	}
}

// TestLimitsChangeUnderCalls sets and deletes limits while sessions name them:
// each answer is that of one of them, whole, or that there is none.
func TestLimitsChangeUnderCalls(t *testing.T) {
	srv := newTestServer(standingClock{})
	const rounds = 400
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			c := newTalker(t, srv)
			for i := range rounds {
				key := fmt.Sprint("key:", (i+w)%7)
				for _, line := range []string{"RL.ACQUIRE " + key + " @wb:list", "RL.PEEK " + key, "RL.REFUND " + key + " 1", "RL.GET " + key,
					"RL.ACQUIREALL " + key + " @wb:list 1 other @wb:list 1"} {
					if out := c.raw(line); strings.HasPrefix(out, "-") && !strings.HasPrefix(out, "-ERR there is no limit") &&
						!strings.HasPrefix(out, "-ERR key 0: there is no limit") && !strings.HasPrefix(out, "-ERR key 1: there is no limit") &&
						!strings.HasPrefix(out, "-WRONGTYPE") {
						t.Errorf("%s: %q", line, out)
					}
				}
			}
		})
	}
	wg.Go(func() {
		c := newTalker(t, srv)
		for i := range rounds {
			for _, line := range []string{"RL.LIMIT SET wb:list 1000:1000000", "RL.LIMIT LIST", "RL.LIMIT SET wb:* log:1000/1m", "RL.LIMIT DEL wb:list",
				"RL.LIMIT SET * 10:20", "RL.LIMIT DEL wb:*", "RL.LIMIT DEL *"} {
				if out := c.raw(line); strings.HasPrefix(out, "-") {
					t.Errorf("%s: %q", line, out)
				}
			}
			if i%50 == 0 {
				srv.store.Sweep(1767225600000+int64(i)*100_000, time.Millisecond)
			}
		}
	})
	wg.Wait()
}

// namedPipeline is n RL.ACQUIRE commands on n keys under one name.
func namedPipeline(n int, name string) []byte {
	var in []byte
	for i := range n {
		in = append(in, frame("RL.ACQUIRE", fmt.Sprintf("key:%012d", i), "@"+name)...)
	}
	return in
}

// BenchmarkAcquireNamed is BenchmarkAcquire with @name: the limit of the name
// itself, and that of the last of its groups. It must not allocate.
func BenchmarkAcquireNamed(b *testing.B) {
	for _, set := range []string{"wb:orders:list", "*"} {
		b.Run(set, func(b *testing.B) {
			srv := newTestServer(wallClock{time.Now()})
			newTalker(b, srv).raw("RL.LIMIT SET " + set + " 10:20")
			s := srv.newSession("test", "test")
			const depth, keys = 32, 100_000
			in := namedPipeline(keys, "wb:orders:list")
			size := len(in) / keys
			for at := 0; at < len(in); at += size {
				s.Feed(in[at : at+size]) // the keys are there
				s.Written()
			}
			b.ReportAllocs()
			b.ResetTimer()
			at := 0
			for i := 0; i < b.N; i += depth {
				s.Feed(in[at : at+depth*size])
				s.Written()
				at = (at + depth*size) % (len(in) - depth*size)
				at -= at % size
			}
		})
	}
}

// TestNamesDoNotAllocate: nor does a call with the longest name there can be.
func TestNamesDoNotAllocate(t *testing.T) {
	name := strings.Repeat("n", shard.MaxLimitName-2) + ":n"
	for _, set := range []string{name, "*"} {
		srv := newTestServer(standingClock{})
		newTalker(t, srv).raw("RL.LIMIT SET " + set + " 10:1000000")
		s := srv.newSession("test", "test")
		in := frame("RL.ACQUIRE", "key", "@"+name)
		s.Feed(in)
		s.Written()
		if n := testing.AllocsPerRun(100, func() { s.Feed(in); s.Written() }); n != 0 {
			t.Errorf("a call under %.5s allocates %v times", set, n)
		}
	}
}

// RL.LIMIT LIST works in turns that others are served between, and tells the
// limits as they were when it began.
func TestLimitListInTurns(t *testing.T) {
	const limits = 5000
	srv := newTestServer(tickingClock{new(int64)}) // five looks at the clock end a turn
	c, other := newTalker(t, srv), newTalker(t, srv)
	var list []shard.NamedLimit
	for i := range limits {
		n := shard.NamedLimit{Name: fmt.Sprintf("limit:%04d", i)}
		if err := n.Parse([]byte("10:20")); err != nil {
			t.Fatal(err)
		}
		list = append(list, n)
	}
	if _, err := srv.store.Limits().SetFile(list); err != nil {
		t.Fatal(err)
	}
	for pattern, found := range map[string]int{"*": limits, "*9": limits / 10, "nosuch": 0, "*" + strings.Repeat("?0", 50): 0} {
		c.s.Feed(frame("RL.LIMIT", "LIST", "MATCH", pattern))
		turns, counted := 1, false
		for ; c.s.turn != nil; turns++ {
			if out := c.s.Output(); len(out) != 0 {
				t.Fatalf("%q is answered before the command is done", out)
			}
			if got := other.raw(fmt.Sprintf("RL.LIMIT SET more:%d 1:1", turns)); got != "+OK\r\n" {
				t.Fatalf("another client gets %q", got)
			}
			counted = counted || c.s.keeps() > 0
			c.s.Feed(nil)
		}
		out := string(c.s.Output())
		c.s.Written()
		if want := fmt.Sprintf("*%d\r\n", 2*found); !strings.HasPrefix(out, want) || strings.Count(out, "limit:") != found {
			t.Errorf("%s: %.100q, want %d limits", pattern, out, found)
		}
		if found > 0 && (!strings.Contains(out, "$10\r\nlimit:0009\r\n$5\r\n10:20\r\n") || strings.Contains(out, "more:") || !counted) {
			t.Errorf("%s: %.100q", pattern, out)
		}
		if c.s.keeps() != 0 {
			t.Errorf("%s: %d bytes are still counted", pattern, c.s.keeps())
		}
		if least := limits / lookCost / 5; turns < least {
			t.Errorf("%s: done in %d turns, want at least %d", pattern, turns, least)
		}
		for i := range turns {
			other.raw(fmt.Sprintf("RL.LIMIT DEL more:%d", i))
		}
	}
}
