package resp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

// slowDisk is durability that waits until a test says how it ends. Each SAVE
// asks for a round of its own.
type slowDisk struct {
	noDisk
	mu            sync.Mutex
	cond          sync.Cond
	saved         uint64 // the last round there is
	asked         uint64 // the last one that somebody waits for
	durable, lost uint64
	err           error // why those up to lost are
	told          func()
}

// onSlowDisk gives a server a slow disk.
func onSlowDisk(srv *Server) *slowDisk {
	d := &slowDisk{told: srv.gatesMayOpen}
	d.cond.L = &d.mu
	srv.durability = d
	return d
}

func (d *slowDisk) Save() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.saved++
	return d.saved
}

func (d *slowDisk) Durable() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.durable
}

func (d *slowDisk) Ready(round uint64) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ready(round)
}

func (d *slowDisk) ready(round uint64) (bool, error) {
	d.asked = max(d.asked, round)
	switch {
	case round <= d.durable:
		return true, nil
	case round <= d.lost:
		return true, d.err
	}
	return false, nil
}

func (d *slowDisk) Wait(round uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if ready, err := d.ready(round); ready {
			return err
		}
		d.cond.Wait()
	}
}

// settle ends all rounds up to one.
func (d *slowDisk) settle(round uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.durable = round
	} else {
		d.lost, d.err = round, err
	}
	d.cond.Broadcast()
	d.told()
}

// untilAsked waits until somebody waits for a round.
func (d *slowDisk) untilAsked(t *testing.T, round uint64) {
	t.Helper()
	until(t, "the disk is waited for", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.asked >= round
	})
}

// TestGate: a reply that waits for its round holds up nobody else; if the round
// fails, the connection ends without a byte.
func TestGate(t *testing.T) {
	var disk *slowDisk
	prepare := func(srv *Server) { disk = onSlowDisk(srv) }
	carried(t, prepare, func(t *testing.T, srv *Server, addr string) {
		other, good, bad := connect(t, addr), connect(t, addr), connect(t, addr)
		good.send("SAVE\r\nPING\r\n")
		disk.untilAsked(t, 1)
		good.send("ECHO later\r\n")
		for range 10 {
			other.send("PING\r\n")
			other.expect("+PONG\r\n")
		}
		good.SetReadDeadline(time.Now().Add(shortly / 10))
		if b, err := good.r.ReadByte(); err == nil {
			t.Fatalf("got %q before the round was durable", b)
		}
		good.SetReadDeadline(time.Now().Add(patience))
		disk.settle(1, nil)
		good.expect("+OK\r\n+PONG\r\n$5\r\nlater\r\n")

		bad.send("PING\r\n")
		bad.expect("+PONG\r\n")
		bad.send("PING\r\nSAVE\r\n")
		disk.untilAsked(t, 2)
		disk.settle(2, errors.New("no space left on the device"))
		bad.expectEnd("")
		until(t, "it is forgotten", func() bool { return srv.connections() == 2 })

		gone := connect(t, addr)
		gone.send("SAVE\r\n")
		disk.untilAsked(t, 3)
		gone.Close()
		other.send("PING\r\n")
		other.expect("+PONG\r\n")
		disk.settle(3, nil)
		until(t, "one that hung up is forgotten", func() bool { return srv.connections() == 2 })
	})
}

// TestGateAtTheEnd: a stopping server does not wait for the disk longer than it
// was told to, and what the disk says later does no harm.
func TestGateAtTheEnd(t *testing.T) {
	var disk *slowDisk
	prepare := func(srv *Server) { disk = onSlowDisk(srv) }
	goroutines := runtime.NumGoroutine()
	carried(t, prepare, func(t *testing.T, srv *Server, addr string) {
		c := connect(t, addr)
		c.send("SAVE\r\n")
		disk.untilAsked(t, 1)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		srv.Shutdown(ctx)
		c.expectEnd("")
		disk.settle(1, nil)
		srv.done.Wait()
	})
	until(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// TestGateAfterADelay: a reply that is to come late waits for its round as well.
func TestGateAfterADelay(t *testing.T) {
	var disk *slowDisk
	carried(t, func(srv *Server) { disk = onSlowDisk(srv) }, func(t *testing.T, srv *Server, addr string) {
		srv.accounts.set("u", []string{"on", ">p"})
		for round := uint64(1); round <= 2; round++ {
			c := connect(t, addr)
			c.send("SAVE\r\nAUTH u wrong\r\nPING\r\n")
			if round == 1 {
				disk.untilAsked(t, round)
			} else {
				until(t, "the password is looked at", func() bool { return srv.counters.authFailures.Load() == round })
			}
			disk.settle(round, nil)
			c.expect("+OK\r\n-" + errWrongPass + "\r\n+PONG\r\n")
		}
	})
}

// promising is a server whose replies wait for every change, and the rounds of
// its store.
func promising(t *testing.T) (*Server, *shard.Feed, *troubledDisk) {
	t.Helper()
	return promisingThat(t, shard.Config{Promise: shard.Changes})
}

func promisingThat(t *testing.T, c shard.Config) (*Server, *shard.Feed, *troubledDisk) {
	t.Helper()
	store := shard.New(c)
	feed, disk := store.NewFeed(), &troubledDisk{}
	disk.feed = feed
	srv := New(Config{Store: store, Clock: standingClock{}, Durability: disk, Options: noOptions{}, Log: slog.New(slog.DiscardHandler),
		Settings: Settings{MaxClients: 1, MaxBulk: 64 << 10}, Shutdown: func(bool) {}, Extra: func() []any { return nil }})
	srv.SetLoading(false)
	return srv, feed, disk
}

// troubledDisk is in trouble when a test says so.
type troubledDisk struct {
	askedDisk
	err     error
	durable uint64
}

func (d *troubledDisk) Trouble() error  { return d.err }
func (d *troubledDisk) Durable() uint64 { return d.durable }

// TestWhatWaits: a change waits for its round, whatever made it; a denial, a
// look, a refusal waits for nothing.
func TestWhatWaits(t *testing.T) {
	srv, feed, _ := promising(t)
	c := newTalker(t, srv)
	for _, try := range []struct {
		line  string
		waits bool
	}{
		{"RL.ACQUIRE a 1/1h 1", true},
		{"RL.ACQUIRE a 1/1h 1", false},        // denied
		{"RL.ACQUIRE a 1/1h 1 COST 0", false}, // allowed or not, it takes nothing
		{"RL.ACQUIRE a 1/1h 1 FORCE", true},
		{"RL.PEEK a", false},
		{"RL.ACQUIRE a ten 1", false},
		{"RL.REFUND a 1", true},
		{"RL.REFUND none 1", false},
		{"RL.ACQUIREALL x 1/1h:5 1 y 1/1h:5 1", true},
		{"RL.ACQUIREALL x 1/1h:5 9 y 1/1h:5 1", false},
		{"RL.PENALIZE a 1/1h 1 10s", true},
		{"RL.PENALIZE a 1/1h 1 1s", false}, // one that is longer holds
		{"DEL a none", true},
		{"DEL a", false},
		{"RL.FIXED f 1 1h", true},
		{"RL.FIXED f 1 1h", false},
		{"RL.RESET MATCH nothing*", false},
		{"RL.RESET MATCH f*", true},
		{"RL.LIMIT SET up adaptive:1..5:20", true},
		{"RL.FEEDBACK up OK", true},
		{"RL.FEEDBACK none OK", false},
		{"RL.LIMIT GET up", false},
		{"FLUSHALL", true},
		{"MULTI", false},
		{"RL.PEEK b", false},
		{"EXEC", false},
		{"MULTI", false},
		{"RL.PEEK b", false},
		{"RL.ACQUIRE b 1/1h 1", false}, // only queued
		{"RL.PEEK b", false},
		{"EXEC", true},
		{"PING", false},
	} {
		round, in := feed.Round(), frame(strings.Fields(try.line)...)
		for len(in) > 0 || c.s.turn != nil {
			in = in[c.s.Feed(in):]
		}
		if want := map[bool]uint64{true: round}[try.waits]; c.s.round != want {
			t.Errorf("%s: %q waits for round %d, want %d", try.line, c.s.Output(), c.s.round, want)
		}
		c.s.Written()
		for r := feed.Cut(); r.Next(1) != nil; {
		}
	}
}

// TestMisconf: while the disk is in trouble, what would change something is
// refused before it does; the rest is answered, and all is when the disk is well.
func TestMisconf(t *testing.T) {
	srv, feed, disk := promising(t)
	c := newTalker(t, srv)
	if got := c.raw("RL.ACQUIRE a 1/1h 2"); got[0] != '*' {
		t.Fatal(got)
	}
	disk.err = fmt.Errorf("not on disk: %w", &fs.PathError{Op: "sync", Path: "/srv/secret/000002.log", Err: syscall.ENOSPC})
	const refused = "-MISCONF Errors writing to the data directory: no space left on device\r\n"
	changes := srv.store.Stats().Changes
	for line, want := range map[string]string{
		"RL.ACQUIRE a 1/1h 2": refused, "RL.ACQUIREALL a 1/1h:2 1": refused, "DEL a": refused, "FLUSHALL": refused, "RL.RESET MATCH *": refused,
		"RL.LIMIT SET n 1:2": refused, "CL.THROTTLE t 1 1 60": refused, "RL.FEEDBACK n OK": refused,
		"RL.PEEK a": "*5", "EXISTS a": ":1", "PING": "+PONG", "RL.LIMIT GET n": "$-1", "RL.ACQUIRE a": "-ERR wrong number",
	} {
		if got := c.raw(line); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	if got, want := c.all("MULTI", "PING", "RL.ACQUIRE a 1/1h 2", "EXEC"),
		"+OK\r\n+QUEUED\r\n"+refused+"-EXECABORT Transaction discarded because of previous errors.\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	disk.err = nil
	c.all("MULTI", "RL.ACQUIRE a 1/1h 2")
	disk.err = errors.New("the disk hangs")
	if got, want := c.raw("EXEC"), "-EXECABORT Transaction discarded because of: MISCONF Errors writing to the data directory: the disk hangs\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := c.all("MULTI", "PING", "EXEC"); got != "+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n" {
		t.Errorf("%q", got)
	}
	if n := srv.store.Stats().Changes - changes; n != 0 || feed.Round() != 1 {
		t.Errorf("%d changes by what was refused", n)
	}
	disk.err = nil
	if got := c.raw("RL.ACQUIRE a 1/1h 2"); !strings.HasPrefix(got, "*5\r\n:1\r\n") {
		t.Errorf("when the disk is well: %q", got)
	}
}

// TestMisconfAhead: where the disk is ahead, what it is ahead of goes on while it
// is in trouble, if that has become durable; so do denials. The rest is refused
// before anything changes.
func TestMisconfAhead(t *testing.T) {
	srv, feed, disk := promisingThat(t, shard.Config{Promise: shard.Ahead, Block: engine.DefaultBlock})
	c := newTalker(t, srv)
	for _, line := range []string{"RL.ACQUIRE a 1/1h 80", "RL.ACQUIRE b 1/1h 80", "RL.ACQUIRE empty 1/1h 1", "RL.FIXED w 80 1h", "RL.LOG l 80 1h", "CL.THROTTLE t 79 1 3600"} {
		if got := c.raw(line); got[0] != '*' {
			t.Fatal(got)
		}
	}
	for r := feed.Cut(); r.Next(1) != nil; {
	}
	c.raw("RL.ACQUIRE late 1/1h 80") // in a round that does not become durable
	disk.durable, disk.err = 1, syscall.EIO
	const refused, goes, denied = "-MISCONF Errors writing to the data directory: input/output error\r\n", "*5\r\n:1\r\n", "*5\r\n:0\r\n"
	changes := srv.store.Stats().Changes
	for _, try := range []struct {
		line, want string
		changes    uint64
	}{
		{"RL.ACQUIRE a 1/1h 80", goes, 1},
		{"RL.ACQUIRE a 1/1h 80 COST 9", goes, 1}, // a block of ten, beside the first
		{"RL.ACQUIRE a 1/1h 80", refused, 0},
		{"RL.ACQUIRE new 1/1h 80", refused, 0},
		{"RL.ACQUIRE late 1/1h 80", refused, 0},
		{"RL.ACQUIRE empty 1/1h 1", denied, 0},
		{"RL.ACQUIRE b 1/1h 90", refused, 0},
		{"RL.ACQUIREALL b 1/1h:80 1 w fixed:80/1h 1", "*4\r\n:1\r\n", 2},
		{"RL.ACQUIREALL b 1/1h:80 1 new 1/1h:80 1", refused, 0},
		{"RL.FIXED w 80 1h", goes, 1},
		{"RL.LOG l 80 1h", refused, 0},
		{"CL.THROTTLE t 79 1 3600", "*5\r\n:0\r\n", 1},
		{"RL.PENALIZE b 1/1h 80 5s", refused, 0},
		{"RL.REFUND b 1", refused, 0},
		{"DEL b", refused, 0},
		{"MULTI", "+OK", 0},
		{"RL.ACQUIRE b 1/1h 80", refused, 0},
		{"DISCARD", "+OK", 0},
	} {
		if got := c.raw(try.line); !strings.HasPrefix(got, try.want) {
			t.Errorf("%s: %q, want %q", try.line, got, try.want)
		}
		if c.s.round > disk.durable {
			t.Errorf("%s: waits for round %d", try.line, c.s.round)
		}
		if n := srv.store.Stats().Changes - changes; n != try.changes {
			t.Errorf("%s: %d changes, want %d", try.line, n, try.changes)
		}
		changes = srv.store.Stats().Changes
	}
}

// TestTroubleIsNoReason: where nothing is promised, decisions go on.
func TestTroubleIsNoReason(t *testing.T) {
	srv := newTestServer(standingClock{})
	srv.durability = &troubledDisk{err: syscall.EIO}
	if got := newTalker(t, srv).raw("RL.ACQUIRE a 1/1h 2"); !strings.HasPrefix(got, "*5\r\n:1\r\n") {
		t.Errorf("%q", got)
	}
}
