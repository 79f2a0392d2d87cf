package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/rlserver/rlserver/persist"
	"github.com/rlserver/rlserver/shard"
)

// loadKeys is more than one block of a table holds.
const loadKeys = 3000

// A stuckDisk is a disk in memory from which, once it is stuck, no part of a
// table is read.
type stuckDisk struct {
	vfs.FS
	after  atomic.Int64 // reads that succeed until it is stuck
	stuck  chan struct{}
	goesOn chan struct{}
}

// newStuckDisk is one with loadKeys keys and a named limit on it, as a stop in
// order leaves them.
func newStuckDisk(t *testing.T) *stuckDisk {
	t.Helper()
	d := &stuckDisk{stuck: make(chan struct{}, 1000), goesOn: make(chan struct{})}
	d.after.Store(1 << 60)
	d.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") && d.after.Add(-1) < 0 {
			select {
			case d.stuck <- struct{}{}:
			default:
			}
			<-d.goesOn
		}
		return nil
	}))
	s := d.server(t)
	s.up()
	c := dial(t, s.addr)
	c.do("RL.LIMIT", "SET", "api", "10:20")
	for i := range loadKeys {
		c.do("RL.ACQUIRE", fmt.Sprintf("key:%d", i), "1/30d", "100")
	}
	c.nc.Close()
	s.down()
	return d
}

// server is one on the disk, not up yet.
func (d *stuckDisk) server(t *testing.T, args ...string) *testServer {
	s := &testServer{t: t, dir: "/data", clock: &fakeClock{}, log: &logText{}}
	s.clock.ns.Store(testStart)
	s.args = append([]string{"--port", "0", "--http-addr", "", "--dir", s.dir, "--durability", "shutdown"}, args...)
	s.disk = []func(*persist.Options){func(o *persist.Options) { o.FS = d }}
	return s
}

// A halfLoaded server is one that is stuck while it loads.
type halfLoaded struct {
	*testServer
	disk    *stuckDisk
	web     string
	signals context.CancelFunc // as a signal ends the load
	started chan error         // gets the end of the start
}

// startStuck starts a server on a disk that is stuck after so many reads of
// those that a start makes, and waits until it is.
func startStuck(t *testing.T, reads int64) *halfLoaded {
	t.Helper()
	d := newStuckDisk(t)
	port, web := freePort(t), net.JoinHostPort("127.0.0.1", freePort(t))
	h := &halfLoaded{testServer: d.server(t, "--port", port, "--http-addr", web), disk: d, web: web, started: make(chan error, 1)}
	h.addr = net.JoinHostPort("127.0.0.1", port)
	inv, err := parseInvocation(h.args, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.signals = cancel
	d.after.Store(reads)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var err error
		h.node, err = startNodeUntil(ctx, inv.config, h.clock, newLogger(h.log, "text", new(slog.LevelVar)), h.testServer.disk...)
		h.started <- err
	}()
	select {
	case <-d.stuck:
	case err := <-h.started:
		t.Fatalf("the start does not get stuck: %v", err)
	}
	t.Cleanup(func() {
		cancel()
		<-ended
		h.down()
	})
	// The web is served last before the load.
	for end := time.Now().Add(readyWithin); ; time.Sleep(time.Millisecond) {
		if nc, err := net.Dial("tcp", web); err == nil {
			nc.Close()
			return h
		}
		if time.Now().After(end) {
			t.Fatal("nobody listens while the data is loaded")
		}
	}
}

// stuckReads is how many reads a start makes until about half of the data is
// there.
func stuckReads(t *testing.T) int64 {
	t.Helper()
	d := newStuckDisk(t)
	d.after.Store(1 << 30)
	db, err := persist.Open(persist.Options{Dir: "/data", FS: d})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	opened := 1<<30 - d.after.Load()
	if _, err := db.Load(shard.New(shard.Config{}), testStart/1e6, testStart/1e6); err != nil {
		t.Fatal(err)
	}
	loaded := 1<<30 - d.after.Load()
	if loaded < opened+10 {
		t.Fatalf("a load makes %d reads", loaded-opened)
	}
	return (opened + loaded) / 2
}

// get fetches a page of the web.
func (h *halfLoaded) get(path string) (code int, body string) {
	h.t.Helper()
	r, err := http.Get("http://" + h.web + path)
	if err != nil {
		h.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// A row is a command or subcommand as COMMAND tells it.
type commandRow struct {
	words   []string
	arity   int
	loading bool
}

func commandRows(t *testing.T, v reply) (rows []commandRow) {
	t.Helper()
	for _, item := range v.items {
		arity, err := strconv.Atoi(item.items[1].text)
		if err != nil {
			t.Fatal(err)
		}
		row := commandRow{words: strings.Split(item.items[0].text, "|"), arity: arity}
		for _, flag := range item.items[2].items {
			row.loading = row.loading || flag.text == "loading"
		}
		subs := item.items[9]
		if len(subs.items) == 0 {
			rows = append(rows, row)
		}
		rows = append(rows, commandRows(t, subs)...)
	}
	return rows
}

// TestWhileLoading: a server that loads says so to whoever asks, and answers
// what needs no data.
func TestWhileLoading(t *testing.T) {
	t.Parallel()
	h := startStuck(t, stuckReads(t))
	const refusal = "LOADING Redis is loading the dataset in memory"
	c := dial(t, h.addr)
	refused := 0
	for _, row := range commandRows(t, c.do("COMMAND")) {
		words := slices.Clone(row.words)
		for len(words) < max(row.arity, -row.arity) {
			words = append(words, "1")
		}
		switch row.words[0] {
		case "shutdown", "quit": // end something
			continue
		}
		got := dial(t, h.addr).do(words...)
		if loading := got.mark == '-' && got.text == refusal; loading == row.loading {
			t.Errorf("%q while loading: %q", words, got.lines())
		}
		if !row.loading {
			refused++
		}
	}
	if refused < 30 {
		t.Errorf("%d commands are refused", refused)
	}
	h.checkInfo(t, c)
	for _, page := range []struct {
		path, body string
		code       int
	}{
		{"/readyz", `^not ready: loading the data: \d+\.\d\d % of about 3000 keys, \d+ s left\n$`, 503},
		{"/healthz", `^ok\n$`, 200},
		{"/metrics", `(?m)^rlserver_loading 1$`, 200},
	} {
		if code, body := h.get(page.path); code != page.code || !regexp.MustCompile(page.body).MatchString(body) {
			t.Errorf("%s while loading: %d, %.300s", page.path, code, body)
		}
	}

	close(h.disk.goesOn)
	if err := <-h.started; err != nil {
		t.Fatal(err)
	}
	if got := c.do("PING"); got.text != "PONG" {
		t.Errorf("PING after the load: %q", got.lines())
	}
	if got := c.do("DBSIZE"); got.text != strconv.Itoa(loadKeys) {
		t.Errorf("DBSIZE after the load: %q", got.lines())
	}
	if info := c.do("INFO", "persistence").text; !strings.Contains(info, "loading:0\r\n") || strings.Contains(info, "loading_") {
		t.Errorf("INFO after the load:\n%s", info)
	}
	if code, body := h.get("/readyz"); code != 200 {
		t.Errorf("/readyz after the load: %d, %s", code, body)
	}
}

// checkInfo looks at INFO of a server that is stuck after some of its data.
func (h *halfLoaded) checkInfo(t *testing.T, c *testConn) {
	t.Helper()
	info := c.do("INFO", "persistence").text
	field := map[string]float64{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			field[name] = n
		}
	}
	now := float64(time.Now().Unix())
	for name, ok := range map[string]bool{
		"loading":                field["loading"] == 1,
		"loading_start_time":     field["loading_start_time"] > now-3600 && field["loading_start_time"] <= now,
		"loading_total_bytes":    field["loading_total_bytes"] > 10*loadKeys,
		"loading_loaded_bytes":   field["loading_loaded_bytes"] > 0 && field["loading_loaded_bytes"] < field["loading_total_bytes"],
		"loading_loaded_perc":    field["loading_loaded_perc"] > 0 && field["loading_loaded_perc"] < 100,
		"loading_eta_seconds":    field["loading_eta_seconds"] >= 0,
		"rl_loading_total_keys":  field["rl_loading_total_keys"] == loadKeys,
		"rl_loading_loaded_keys": field["rl_loading_loaded_keys"] > 0 && field["rl_loading_loaded_keys"] < loadKeys,
	} {
		if _, there := field[name]; !there || !ok {
			t.Errorf("%s is %v in\n%s", name, field[name], info)
		}
	}
}

// TestStopWhileLoading: who asks for the end of a server that loads gets it at
// once, and the data is there at the next start.
func TestStopWhileLoading(t *testing.T) {
	t.Parallel()
	reads := stuckReads(t)
	for name, end := range map[string]func(*halfLoaded){
		"signal": func(h *halfLoaded) { h.signals() },
		"SHUTDOWN": func(h *halfLoaded) {
			if got := dial(t, h.addr).do("SHUTDOWN"); got.mark != closed {
				t.Errorf("SHUTDOWN while loading: %q", got.lines())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startStuck(t, reads)
			end(h)
			close(h.disk.goesOn)
			if err := <-h.started; !errors.Is(err, persist.ErrAborted) {
				t.Fatalf("the start ends with %v", err)
			}
			if _, err := net.Dial("tcp", h.addr); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("somebody listens still: %v", err)
			}
			if text := h.log.String(); strings.Contains(text, "ERROR") {
				t.Errorf("the log has errors:\n%s", text)
			}
			h.disk.after.Store(1 << 60)
			s := h.disk.server(t)
			s.up()
			defer s.down()
			if got := dial(t, s.addr).do("DBSIZE"); got.text != strconv.Itoa(loadKeys) || !s.node.loaded.Clean {
				t.Errorf("%q keys after the next start, %+v", got.lines(), s.node.loaded)
			}
		})
	}
}

// TestProgressIsLogged: at each tick, as long as there is a load.
func TestProgressIsLogged(t *testing.T) {
	log := &logText{}
	tick, done, ended := make(chan time.Time), make(chan struct{}), make(chan struct{})
	loads := make(chan bool, 3)
	for _, on := range []bool{true, true, false} {
		loads <- on
	}
	go func() {
		logProgress(func() (persist.LoadStats, bool) {
			return persist.LoadStats{Percent: "12.50", Keys: 8000, LoadedKeys: 1000, Left: 7}, <-loads
		}, newLogger(log, "text", new(slog.LevelVar)), tick, done)
		close(ended)
	}()
	for range 3 {
		tick <- time.Time{}
	}
	close(done)
	<-ended
	if n := strings.Count(log.String(), "loading  percent=12.50 keys=1000 of=8000 seconds_left=7"); n != 2 {
		t.Errorf("%d lines of progress for 2:\n%s", n, log.String())
	}
}

// loadingRedis starts a Redis that takes a minute to load its keys.
func loadingRedis(t *testing.T) (socket string) {
	dir := t.TempDir()
	first := startRedis(t, "--dir", dir, "--enable-debug-command", "yes")
	if got := converse(t, "unix", first, frame("DEBUG", "POPULATE", "60000")+frame("SAVE")); got != "+OK\r\n+OK\r\n" {
		t.Fatalf("Redis does not save: %q", got)
	}
	// In µs for each key; it looks at clients after each so many bytes.
	return startRedis(t, "--dir", dir, "--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
}

// TestLoadingLikeRedis: while both load, what both know is answered alike.
func TestLoadingLikeRedis(t *testing.T) {
	t.Parallel()
	socket := loadingRedis(t)
	h := startStuck(t, stuckReads(t))
	defer close(h.disk.goesOn)
	for _, s := range []stream{
		{send: frame("PING")},
		{send: frame("PING", "a", "b")},
		{send: frame("ECHO", "x")},
		{send: frame("HELLO", "4")},
		{send: frame("HELLO", "3", "SETNAME", "me") + frame("CLIENT", "GETNAME"), mask: regexp.MustCompile(`(?s)^%.*?\r\n\$2\r\nme`)},
		{send: frame("AUTH", "x")},
		{send: frame("SELECT", "0") + frame("SELECT", "1000")},
		{send: frame("CLIENT", "SETNAME", "me") + frame("CLIENT", "GETNAME") + frame("CLIENT", "NO-EVICT")},
		{send: frame("TIME"), mask: regexp.MustCompile(`\$\d+\r\n\d+`)},
		{send: frame("COMMAND", "COUNT"), mask: regexp.MustCompile(`\d+`)},
		{send: frame("CONFIG", "GET", "nothing") + frame("CONFIG", "RESETSTAT")},
		{send: frame("LASTSAVE"), mask: regexp.MustCompile(`\d+`)},
		{send: frame("SAVE") + frame("BGSAVE") + frame("BGSAVE", "SCHEDULE")},
		{send: frame("SHUTDOWN", "PERHAPS")},
		{send: frame("DBSIZE") + frame("EXISTS", "k") + frame("TYPE", "k") + frame("TTL", "k") + frame("PTTL", "k")},
		{send: frame("DEL", "k") + frame("UNLINK", "k") + frame("FLUSHALL") + frame("FLUSHDB", "ASYNC")},
		{send: frame("SCAN", "0") + frame("KEYS", "*") + frame("RANDOMKEY") + frame("OBJECT", "ENCODING", "k") + frame("MEMORY", "USAGE", "k")},
		{send: frame("EXPIRE", "k", "1") + frame("PERSIST", "k") + frame("TOUCH", "k")},
		{send: frame("HGET", "k", "f") + frame("HGETALL", "k") + frame("HMGET", "k", "f")},
		// Arity is looked at before the load is, and so is whether there is such a command.
		{send: frame("EXISTS") + frame("NONSENSE", "a") + frame("OBJECT", "NONSENSE")},
		{send: frame("MULTI") + frame("PING") + frame("EXEC")},
		{send: frame("MULTI") + frame("ECHO", "x") + frame("EXEC")},
		{send: frame("MULTI") + frame("EXISTS", "k") + frame("EXEC") + frame("DISCARD")},
		{send: frame("WATCH", "k") + frame("UNWATCH")},
		{send: frame("SLOWLOG", "LEN") + frame("ACL", "WHOAMI") + frame("RESET") + frame("QUIT")},
		{send: "PING\r\nECHO x\r\n"},
	} {
		masked := func(answer string) string {
			if s.mask != nil {
				return s.mask.ReplaceAllString(answer, "*")
			}
			return answer
		}
		theirs, ours := masked(converse(t, "unix", socket, s.send)), masked(converse(t, "tcp", h.addr, s.send))
		if ours != theirs {
			t.Errorf("%q while loading:\nours   %q\nRedis's %q", s.send, ours, theirs)
		}
	}
	for name, info := range map[string]string{"Redis's": converse(t, "unix", socket, frame("INFO", "persistence")), "our": converse(t, "tcp", h.addr, frame("INFO", "persistence"))} {
		for _, field := range []string{"loading:1", "loading_start_time:", "loading_total_bytes:", "loading_loaded_bytes:", "loading_loaded_perc:", "loading_eta_seconds:"} {
			if !strings.Contains(info, "\r\n"+field) {
				t.Errorf("%s INFO has no %s\n%s", name, field, info)
			}
		}
	}
}

// TestSignalWhileLoading: a process that is told to stop at any moment of its
// start is gone soon, and loses nothing.
func TestSignalWhileLoading(t *testing.T) {
	t.Parallel()
	const keys, rounds = 10_000, 8
	dir := t.TempDir()
	p := start(t, dir)
	c := dial(t, p.addr)
	for from := 0; from < keys; from += 1000 {
		var batch strings.Builder
		for i := range 1000 {
			batch.WriteString(frame("RL.ACQUIRE", fmt.Sprintf("key:%d", from+i), "1/30d", "1000000"))
		}
		io.WriteString(c.nc, batch.String())
		for range 1000 {
			if _, err := readReply(c.r); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.do("SAVE")
	p.signal(syscall.SIGKILL)
	<-p.exited
	for i := range rounds {
		p := spawn(t, dir)
		time.Sleep(time.Duration(i) * 10 * time.Millisecond) // the moment is what differs; any is good
		p.signal([]syscall.Signal{syscall.SIGTERM, syscall.SIGINT}[i%2])
		select {
		case <-p.exited:
		case <-time.After(exitWithin):
			t.Fatalf("goes on after a signal:\n%s", p.out.String())
		}
		// Before the program has got round to asking for signals it is simply ended by one.
		if code, text := p.code(), p.out.String(); code != exitOK && !(code == -1 && text == "") || strings.Contains(text, "ERROR") {
			t.Errorf("ends with %d:\n%s", code, text)
		}
	}
	p = start(t, dir)
	if got := dial(t, p.addr).do("DBSIZE"); got.text != strconv.Itoa(keys) {
		t.Errorf("%q keys after %d starts that were ended, of %d", got.lines(), rounds, keys)
	}
}
