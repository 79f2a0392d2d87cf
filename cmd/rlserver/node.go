package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/observe"
	"github.com/rlserver/rlserver/persist"
	"github.com/rlserver/rlserver/resp"
	"github.com/rlserver/rlserver/shard"
)

// deadlineMargin is added to twice the clock skew before an entry may be looked
// at for dropping, ms.
const deadlineMargin = 1000

// node is one running server: the rooms, wired.
type node struct {
	config  *Config
	clock   *movedClock
	log     *slog.Logger
	store   *shard.Store
	db      *persist.DB
	srv     *resp.Server
	memory  *memory
	repl    *replication
	web     *http.Server
	doors   []door
	certs   *certificates // nil = no TLS
	addrs   []string      // where clients are answered
	webAddr string        // where metrics are served; empty = nowhere
	asked   chan bool     // SHUTDOWN came: whether to save
	began   int64         // the clock when the data directory was opened, Unix ms
	restart restart
	loaded  persist.LoadInfo
	stopped chan struct{} // closed by stop: ends the sweeper

	ready, stopping atomic.Bool
	endLoad         context.CancelFunc // ends the load, if there is one
}

// startNode brings a node up: the directory is locked, clients are answered
// with -LOADING while the data comes in, then served. disk changes, for tests,
// how the directory is opened.
func startNode(config *Config, clock resp.Clock, log *slog.Logger, disk ...func(*persist.Options)) (*node, error) {
	return startNodeUntil(context.Background(), config, clock, log, disk...)
}

// startNodeUntil is startNode for who may want to end the load: it fails with
// persist.ErrAborted when ctx ends before the data is there.
func startNodeUntil(ctx context.Context, config *Config, clock resp.Clock, log *slog.Logger, disk ...func(*persist.Options)) (*node, error) {
	if err := fitFiles(config, openFiles(), log); err != nil {
		return nil, err
	}
	v := config.Values()
	mode, durability, err := chosenModes(v)
	if err != nil {
		return nil, err
	}
	limits, err := readLimitsFile(v.LimitsFile)
	if err != nil {
		return nil, err
	}
	users, err := readACLFile(v.ACLFile)
	if err != nil {
		return nil, err
	}
	logUsers(v, users, log)
	skew := v.MaxClockSkew.Milliseconds()
	n := &node{config: config, clock: &movedClock{of: clock}, log: log, asked: make(chan bool, 1), stopped: make(chan struct{})}
	if n.certs, err = readCertificates(v); err != nil {
		return nil, err
	}
	if n.certs != nil {
		n.certs.log(log)
	}
	n.store = shard.New(shard.Config{Shards: v.Shards, Grace: 2*skew + deadlineMargin, KeepExpired: mode == engine.Trusted,
		Promise: durability.Promise(), Block: engine.DefaultBlock})
	feed := n.store.NewFeed()
	n.repl = newReplication(n, v)
	if err := n.openDisk(v, durability, disk); err != nil {
		return nil, err
	}
	ctx, n.endLoad = context.WithCancel(ctx)
	defer n.endLoad()
	loading := context.AfterFunc(ctx, n.db.Abort)
	if n.doors, err = openDoors(v, n.certs); err != nil {
		return nil, errors.Join(err, n.db.Close())
	}
	n.makeServer(v, mode, users)
	for _, d := range n.doors {
		n.addrs = append(n.addrs, d.Addr().String())
		go n.srv.Serve(d)
	}
	if err := n.startWeb(v.HTTPAddr); err != nil {
		return nil, errors.Join(err, n.abandon())
	}
	changed, err := n.loadLimits(limits)
	if err == nil {
		err = n.load(skew)
	}
	if aborted := !loading(); aborted && err == nil {
		err = persist.ErrAborted
	}
	if err != nil {
		return nil, errors.Join(err, n.abandon())
	}
	n.db.Start(feed, n.store)
	if changed {
		go n.awaitLimits()
	}
	if err := n.repl.start(v, n.loaded.Clean); err != nil {
		return nil, errors.Join(err, n.abandon())
	}
	n.srv.SetLoading(false)
	n.ready.Store(true)
	go n.sweep()
	return n, nil
}

// openDisk opens the data directory, and finds how the run before ended.
func (n *node) openDisk(v Values, durability persist.Mode, disk []func(*persist.Options)) (err error) {
	o := persist.Options{Dir: v.Dir, Mode: durability, Interval: v.SnapshotInterval, Log: n.log}
	for _, change := range disk {
		change(&o)
	}
	if n.db, err = persist.Open(o); err != nil {
		return err
	}
	n.follow(v.UncleanRestart, v.MaxClockSkew.Milliseconds())
	return nil
}

// makeServer makes the wire over the store, and the options that may change live
// reach it.
func (n *node) makeServer(v Values, mode engine.ClockMode, users *resp.UserFile) {
	n.memory = &memory{store: n.store, db: n.db, log: n.log}
	n.srv = resp.New(resp.Config{
		Store: n.store, Clock: n.clock, Durability: n.db, Options: n.config, Settings: settings(v, mode), Log: n.log,
		Version: version, Port: plainPort(n.doors), LimitsFile: v.LimitsFile, Users: users, UserStore: userStore(v.ACLFile),
		Backup: n.backupInto(v.BackupDir), Shutdown: n.askStop, Replication: n.repl, Extra: n.extra,
	})
	n.memory.clients, n.memory.leave = n.srv.ClientMemory, n.srv.LeaveClients
	n.memory.set(v.MaxMemory)
	n.config.OnSet(func(v Values) error {
		n.srv.Apply(settings(v, mode))
		return nil
	}, "requirepass", "protected-mode", "maxclients", "timeout", "tcp-keepalive", "proto-max-bulk-len", "maxmemory-clients",
		"slowlog-log-slower-than", "slowlog-max-len", "shutdown-timeout")
	n.config.OnSet(func(v Values) error {
		n.memory.set(v.MaxMemory)
		return nil
	}, "maxmemory")
}

// settings are the options as sessions obey them.
func settings(v Values, mode engine.ClockMode) resp.Settings {
	return resp.Settings{
		CallerClock: mode, MaxSkew: v.MaxClockSkew.Milliseconds(), Password: string(v.RequirePass), ProtectedMode: v.ProtectedMode,
		MaxClients: v.MaxClients, Timeout: v.Timeout, KeepAlive: v.TCPKeepalive, MaxBulk: v.ProtoMaxBulkLen, MaxClientMemory: int64(v.MaxMemoryClients),
		SlowerThan: time.Duration(v.SlowerThan) * time.Microsecond, SlowLogLen: v.SlowLogLen,
	}
}

// askStop notes that a client asked for the end. It does not block.
func (n *node) askStop(saving bool) {
	if !n.ready.Load() {
		n.endLoad()
	}
	select {
	case n.asked <- saving:
	default:
	}
}

// startWeb serves metrics and health.
func (n *node) startWeb(addr string) error {
	o := observe.New(observe.Options{
		Stats: func() []any {
			return append(n.figures(), n.srv.Stats())
		},
		Ready: n.readiness, Version: version, Revision: revision(), Log: n.log,
	})
	if addr == "" {
		return nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("cannot serve metrics on %s: %w (--http-addr chooses another address, --http-addr \"\" none)", addr, err)
	}
	n.webAddr, n.web = l.Addr().String(), o.Server()
	go n.web.Serve(observe.Newest(l))
	return nil
}

// sweep drops entries past their deadline, a little at a time, and keeps to
// maxmemory, until stop.
func (n *node) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n.memory.turn(n.clock.NowNs()/1e6, time.Now())
		case <-n.stopped:
			return
		}
	}
}

// webStopWithin is how long a scrape under way may take to end.
const webStopWithin = time.Second

// stop ends the node in order: clients are answered, then the last state is
// written (unless saving is false), then the directory is let go.
func (n *node) stop(saving bool) error {
	n.stopping.Store(true)
	n.ready.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), n.config.Values().ShutdownTimeout)
	defer cancel()
	n.srv.Shutdown(ctx)
	n.repl.stop()
	close(n.stopped)
	if n.web != nil {
		ctx, cancel := context.WithTimeout(context.Background(), webStopWithin)
		defer cancel()
		if n.web.Shutdown(ctx) != nil {
			n.web.Close()
		}
	}
	if !saving {
		return nil // as a crash would leave it; the kernel lets go of the directory with the process
	}
	return n.db.Close()
}

// abandon takes a node down that did not come up.
func (n *node) abandon() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n.srv.Shutdown(ctx)
	n.repl.stop()
	if n.web != nil {
		n.web.Close()
	}
	return n.db.Close()
}

// announce tells that clients are served, from loglevel notice on: a person by the banner, a program by a line of the log.
func (n *node) announce(stdout io.Writer) {
	v := n.config.Values()
	switch {
	case v.LogFormat == "json":
		n.log.Info("ready", "version", fullVersion(), "addresses", n.addrs, "metrics", n.webAddr, "dir", v.Dir, "durability", v.Durability, "keys", n.loaded.Keys)
	case levelOf(v.LogLevel) <= slog.LevelInfo:
		fmt.Fprint(stdout, n.banner())
	}
}

// banner is what a person sees at the start.
func (n *node) banner() string {
	v := n.config.Values()
	var b strings.Builder
	var shown []string
	for _, d := range n.doors {
		shown = append(shown, d.String())
	}
	fmt.Fprintf(&b, "rlserver %s is ready on %s\n", fullVersion(), strings.Join(shown, ", "))
	fmt.Fprintf(&b, "  data      %s, durability %s%s\n", v.Dir, v.Durability, n.loadedText())
	if n.webAddr != "" {
		fmt.Fprintf(&b, "  metrics   http://%s/metrics\n", n.webAddr)
	}
	fmt.Fprintf(&b, "  try       redis-cli%s RL.ACQUIRE user:1 1/m 10\n", n.doors[0].cli())
	return b.String()
}

func (n *node) loadedText() string {
	text := ", " + strconv.Itoa(n.loaded.Keys) + " keys loaded"
	if n.loaded.Keys == 1 {
		text = ", 1 key loaded"
	}
	return text
}
