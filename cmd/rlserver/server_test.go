package main

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlserver/rlserver/persist"
	"github.com/rlserver/rlserver/resp"
)

// fakeClock is a server's clock that stands still until it is moved.
type fakeClock struct{ ns atomic.Int64 }

// testStart is where a fake clock starts: 2026-01-01 00:00:00 UTC.
const testStart = 1767225600 * int64(time.Second)

func (c *fakeClock) NowNs() int64 { return c.ns.Load() }

// testServer is a whole node in this process, on a socket, with a data
// directory and a clock of its own.
type testServer struct {
	t     testing.TB
	dir   string
	clock *fakeClock
	other resp.Clock // in its place, if not nil
	node  *node
	addr  string
	args  []string
	disk  []func(*persist.Options) // see startNode
	log   *logText
}

// logText is a log that a test can read while it is written.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startTest starts a node; args are flags in addition to those that keep it
// apart from others. It writes to disk on SAVE and at the stop only, so that
// nothing happens in the background.
func startTest(t testing.TB, args []string) *testServer {
	t.Helper()
	s := &testServer{t: t, dir: t.TempDir(), clock: &fakeClock{}, log: &logText{}}
	s.clock.ns.Store(testStart)
	s.begin(args)
	return s
}

// startWith is startTest with another clock.
func startWith(t testing.TB, clock resp.Clock, args []string) *testServer {
	t.Helper()
	s := &testServer{t: t, dir: t.TempDir(), other: clock, log: &logText{}}
	s.begin(args)
	return s
}

func (s *testServer) begin(args []string) {
	s.t.Helper()
	s.args = append([]string{"--port", "0", "--http-addr", "", "--dir", s.dir, "--durability", "shutdown", "--backup-dir", s.t.TempDir()}, args...)
	s.up()
	s.t.Cleanup(func() { s.down() })
}

func (s *testServer) up() {
	s.t.Helper()
	inv, err := parseInvocation(s.args, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	log := newLogger(s.log, "text", new(slog.LevelVar))
	clock := s.other
	if clock == nil {
		clock = s.clock
	}
	if s.node, err = startNode(inv.config, clock, log, s.disk...); err != nil {
		s.t.Fatal(err)
	}
	s.addr = s.node.addrs[0]
}

func (s *testServer) down() {
	s.t.Helper()
	if s.node == nil {
		return
	}
	if err := s.node.stop(true); err != nil {
		s.t.Error(err)
	}
	s.node = nil
	if strings.Contains(s.log.String(), "fault in a command") {
		s.t.Error(s.log.String())
	}
}

// restart stops the node in order and starts it again on its directory.
func (s *testServer) restart() {
	s.t.Helper()
	s.down()
	s.up()
}

// advance moves the clock and lets the sweep see it.
func (s *testServer) advance(d time.Duration) {
	s.clock.ns.Add(int64(d))
	s.node.store.Sweep(s.clock.NowNs()/1e6, time.Second)
}
