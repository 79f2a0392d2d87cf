package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlserver/rlserver/replicate"
	"github.com/rlserver/rlserver/resp"
	"github.com/rlserver/rlserver/shard"
)

// replication joins the wire with who leads and follows.
type replication struct {
	n        *node
	feed     *shard.Feed
	run      atomic.Pointer[replicate.Runner] // nil until the data is loaded
	path     string
	id       string
	addr     string       // that this node announces
	refuse   atomic.Bool  // a reply that replicas did not acknowledge in time is not sent
	patience atomic.Int64 // how long they have, ns
	warned   atomic.Int64 // since boot, ns: no warning about TLS before

	mu     sync.Mutex
	notify func()
	asked  []ackAsked  // replies that wait, by round
	latest uint64      // round asked for
	given  uint64      // round that was waited for long enough
	late   uint64      // how often
	look   *time.Timer // at who has waited for long enough; nil = nobody waits
}

type ackAsked struct {
	round uint64
	at    time.Time
}

// roleFile is where the role is kept, in the data directory.
const roleFile = "role"

// warnEvery is the least time between two warnings about the same.
const warnEvery = time.Minute

var errNoAcks = errors.New("too few replicas acknowledged a change within repl-ack-timeout")

// ackModes are the values of repl-ack that are no number.
var ackModes = map[string]replicate.AckMode{"majority": replicate.AckMajority, "all": replicate.AckAll}

// newReplication takes the second feed of the node's store, that is off until a
// replica comes.
func newReplication(n *node, v Values) *replication {
	r := &replication{n: n, feed: n.store.NewFeed(), path: filepath.Join(v.Dir, roleFile)}
	r.feed.Off()
	r.configure(v)
	n.config.OnSet(func(v Values) error {
		r.configure(v)
		return nil
	}, "repl-ack", "repl-ack-timeout", "repl-ack-on-timeout", "fence-after")
	// Read when they are needed.
	n.config.OnSet(func(Values) error { return nil }, "masteruser", "masterauth", "replica-priority")
	return r
}

// configure puts the options in force that may change live.
func (r *replication) configure(v Values) {
	r.refuse.Store(v.ReplAckOnTimeout == "refuse")
	r.patience.Store(int64(v.ReplAckTimeout))
	r.mu.Lock()
	if r.look != nil {
		r.look.Reset(r.pace())
	}
	r.mu.Unlock()
	if run := r.run.Load(); run != nil {
		run.Do(replicate.Configure{Acks: ackMode(v), FenceAfter: v.FenceAfter})
	}
}

// ackMode is repl-ack.
func ackMode(v Values) replicate.AckMode {
	if mode, ok := ackModes[v.ReplAck]; ok {
		return mode
	}
	k, _ := strconv.Atoi(v.ReplAck)
	return replicate.AckMode(k)
}

// start begins to lead or to follow. The data is loaded.
func (r *replication) start(v Values, clean bool) error {
	id, state, err := r.readState(v)
	if err != nil {
		return err
	}
	r.id, r.addr = id, announced(v, r.n.doors)
	run := replicate.NewRunner(replicate.Options{
		Config: replicate.Config{
			Self: replicate.Peer{ID: id, Addr: r.addr}, Mine: r.mine, NewID: newHistoryID, Acks: ackMode(v), FenceAfter: v.FenceAfter,
		},
		Store: r.n.store, Feed: r.feed, State: state, Clean: clean,
		Now: sinceBoot, Clock: func() int64 { return r.n.clock.NowNs() / 1e6 }, SetClock: r.n.clock.setBase,
		Save: r.save, CloseClients: func() { r.n.srv.CloseClients() }, Log: r.n.log,
		Dial: r.dial,
		Login: func() (string, string) {
			v := r.n.config.Values()
			return v.MasterUser, string(v.MasterAuth)
		},
	})
	r.run.Store(run)
	r.configure(r.n.config.Values()) // it may have changed while the data was loaded
	run.Notify(r.changed)
	r.changed()
	return nil
}

// stop ends leading or following. No client is answered any more.
func (r *replication) stop() {
	if run := r.run.Load(); run != nil {
		r.handOn(run)
		run.Stop()
	}
}

// handOnWithin is how long a server that stops waits for its replicas.
const handOnWithin = time.Second

// handOn waits until the replicas that are in step have all changes: one of them
// may be promoted when this server has stopped.
func (r *replication) handOn(run *replicate.Runner) {
	round := r.n.store.Shipping()
	if round == 0 {
		return
	}
	for end := time.Now().Add(handOnWithin); time.Now().Before(end); time.Sleep(time.Millisecond) {
		frame, ok := run.Shipped(round)
		if ok && run.Having(frame) >= run.Having(0) {
			return
		}
	}
	r.n.log.Warn("stops before all replicas have the last changes")
}

func newHistoryID() string {
	var b [20]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// readState reads the role kept, or makes it of the options when the node is
// started first.
func (r *replication) readState(v Values) (id string, s replicate.State, err error) {
	text, err := os.ReadFile(r.path)
	switch {
	case os.IsNotExist(err):
		if host, port, ok := strings.Cut(v.ReplicaOf, " "); ok {
			s.Primary = net.JoinHostPort(host, port)
		}
		return newHistoryID(), s, nil
	case err != nil:
		return "", s, err
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	id, ok := strings.CutPrefix(first, "node ")
	if s, err = replicate.ParseState(rest); err == nil && !ok {
		err = errors.New("its first line names no node")
	}
	if err != nil {
		return "", s, fmt.Errorf("cannot understand %s: %w (remove it to have replicaof decide whom this node follows)", r.path, err)
	}
	return id, s, nil
}

// save keeps the role: the file is the old or the new one, whatever happens.
func (r *replication) save(s replicate.State) error {
	tmp := r.path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString("node " + r.id + "\n" + s.String())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, r.path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(r.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// dial connects to another node.
func (r *replication) dial(ctx context.Context, addr string) (net.Conn, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil || !r.n.config.Values().TLSReplication {
		return nc, err
	}
	secure := tls.Client(nc, r.n.certs.toNode())
	if err := secure.HandshakeContext(ctx); err != nil {
		nc.Close()
		if now := sinceBoot(); time.Duration(r.warned.Load()) <= now {
			r.warned.Store(int64(now + warnEvery))
			r.n.log.Warn("no TLS with another node", "addr", addr, "err", err)
		}
		return nil, err
	}
	return secure, nil
}

// announced is the address at which others reach this node: the first of those
// where TLS is spoken, or of those where it is not, if there is one.
func announced(v Values, doors []door) string {
	host, port := "", "0"
	for _, d := range doors {
		if h, p, err := net.SplitHostPort(d.Addr().String()); err == nil && (port == "0" || d.secure && v.TLSReplication) {
			host, port = h, p
			if d.secure == v.TLSReplication {
				break
			}
		}
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = outsideIP()
	}
	if v.ReplicaAnnounceIP != "" {
		host = v.ReplicaAnnounceIP
	}
	if v.ReplicaAnnouncePort != 0 {
		port = strconv.Itoa(v.ReplicaAnnouncePort)
	}
	return net.JoinHostPort(host, port)
}

// outsideIP is an address of this machine that others may know.
func outsideIP() string {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}

// mine says whether an address is this node's, by whatever name.
func (r *replication) mine(addr string) bool {
	if addr == r.addr {
		return true
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	_, own, _ := net.SplitHostPort(r.addr)
	ips, err := net.LookupIP(host)
	if err != nil || port != own {
		return false
	}
	local, _ := net.InterfaceAddrs()
	for _, ip := range ips {
		for _, a := range local {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
				return true
			}
		}
	}
	return false
}

// changed is called when the doors or the acks have.
func (r *replication) changed() {
	if run := r.run.Load(); run != nil {
		r.n.srv.SetShipping(run.Doors().Acks > 0)
	}
	r.mu.Lock()
	f := r.notify
	r.mu.Unlock()
	if f != nil {
		f()
	}
}

// The methods of resp.Replication.

const (
	readOnly   = "READONLY You can't write against a read only replica."
	noReplicas = "NOREPLICAS Not enough good replicas to write."
	notReady   = "NOTREADY this node was not stopped cleanly: another one is to be promoted"
	syncing    = "LOADING the data is coming from the primary"
	starting   = "LOADING the server is starting"
)

func (r *replication) Admit() (generation uint64, refusal string) {
	run := r.run.Load()
	if run == nil {
		return 0, starting
	}
	d := run.Doors()
	switch {
	case !open(d):
		return 0, readOnly
	case d.Short && r.refuse.Load():
		return 0, noReplicas
	}
	return d.Generation + 1, ""
}

func open(d *replicate.Doors) bool {
	return d.Open && (d.Until == replicate.Forever || sinceBoot() < d.Until)
}

func (r *replication) Holds(generation uint64) bool {
	d := r.run.Load().Doors()
	return d.Generation+1 == generation && open(d)
}

func (r *replication) Readable() string {
	if run := r.run.Load(); run != nil && !run.Doors().Whole {
		return syncing
	}
	return "" // while the data is loaded that says who may do what
}

func (r *replication) Alive() string {
	if run := r.run.Load(); run != nil && run.Doors().NotReady {
		return notReady
	}
	return ""
}

// Acked lets a reply go when enough replicas have its round, or when that takes
// too long, as repl-ack-on-timeout says.
func (r *replication) Acked(round uint64) (ready bool, err error) {
	run := r.run.Load()
	if run.Ready(round) {
		return true, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if round <= r.given {
		if r.refuse.Load() {
			return true, errNoAcks
		}
		return true, nil
	}
	if round > r.latest {
		r.latest = round
		r.asked = append(r.asked, ackAsked{round, time.Now()})
	}
	if r.look == nil {
		r.look = time.AfterFunc(r.pace(), r.expire)
	}
	return false, nil
}

// pace is how often it is looked who has waited for long enough.
func (r *replication) pace() time.Duration { return time.Duration(r.patience.Load()) / 4 }

// expire gives up on rounds that were waited for long enough.
func (r *replication) expire() {
	run := r.run.Load()
	r.mu.Lock()
	now, gave := time.Now(), false
	for len(r.asked) > 0 {
		a := r.asked[0]
		if !run.Ready(a.round) {
			if now.Sub(a.at) < time.Duration(r.patience.Load()) {
				break
			}
			r.given, gave = a.round, true
			r.late++
		}
		r.asked = r.asked[1:]
	}
	if len(r.asked) > 0 {
		r.look.Reset(r.pace())
	} else {
		r.look = nil
	}
	late, f := r.late, r.notify
	r.mu.Unlock()
	if gave {
		r.n.log.Warn(errNoAcks.Error(), "refused", r.refuse.Load(), "so_far", late)
		if f != nil {
			f()
		}
	}
}

func (r *replication) Await(round uint64) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		if ready, err := r.Acked(round); ready {
			return err
		}
		time.Sleep(wait)
	}
}

func (r *replication) Shipped(round uint64) (frame uint64, ok bool) {
	if run := r.run.Load(); run != nil && round > 0 {
		return run.Shipped(round)
	}
	return 0, true
}

func (r *replication) Having(frame uint64) int {
	if run := r.run.Load(); run != nil {
		return run.Having(frame)
	}
	return 0
}

func (r *replication) Notify(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notify = f
}

func (r *replication) Lead() {
	if run := r.run.Load(); run != nil {
		run.Do(replicate.Lead{})
	}
}

func (r *replication) Follow(host, port string) {
	if run := r.run.Load(); run != nil {
		run.Do(replicate.Follow{Addr: net.JoinHostPort(host, port)})
	}
}

func (r *replication) Take(nc net.Conn, have []byte, from resp.Announced, args []string) {
	run := r.run.Load()
	if run == nil || run.Serve(nc, have, replicate.Peer{ID: from.ID, Addr: net.JoinHostPort(from.IP, from.Port)}, args) != nil {
		nc.Close()
	}
}

func (r *replication) Rewrite() error { return nil } // every change of the role is kept at once

func (r *replication) Role() resp.Role {
	run := r.run.Load()
	if run == nil {
		return resp.Role{Leads: true}
	}
	st := run.Status()
	role := resp.Role{Leads: st.Role != replicate.Following, Offset: int64(st.Offset), State: linkState(&st)}
	if !role.Leads {
		host, port, _ := net.SplitHostPort(st.Primary)
		role.Host = host
		role.Port, _ = strconv.ParseInt(port, 10, 64)
		return role
	}
	for _, p := range st.Replicas {
		if host, port, err := net.SplitHostPort(p.Addr); err == nil && p.Attached {
			role.Replicas = append(role.Replicas, resp.Announced{ID: strconv.FormatUint(p.Acked, 10), IP: host, Port: port})
		}
	}
	return role
}

func linkState(st *replicate.Status) string {
	switch {
	case st.Link:
		return "connected"
	case st.Syncing:
		return "sync"
	case st.DownSince != 0:
		return "connect"
	}
	return "connecting"
}

var _ resp.Replication = (*replication)(nil)

// Hello passes on what a Sentinel published: its ip, port, id and epoch, then the
// name, ip, port and epoch of the primary as it has them.
func (r *replication) Hello(text string) {
	w := strings.Split(text, ",")
	run := r.run.Load()
	if len(w) != 8 || run == nil {
		return
	}
	epoch, err := strconv.ParseUint(w[7], 10, 64)
	if err != nil {
		return
	}
	run.Tell(replicate.Hello{Sentinel: w[2], From: net.JoinHostPort(w[0], w[1]), Name: w[4], Addr: net.JoinHostPort(w[5], w[6]), Epoch: epoch})
}

func (r *replication) Contact(sentinel string) (arrived func()) {
	at := sinceBoot()
	return func() {
		if run := r.run.Load(); run != nil {
			run.Tell(replicate.Contact{Sentinel: sentinel, At: at})
		}
	}
}
