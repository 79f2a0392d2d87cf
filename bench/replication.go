//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// What a replica costs: the primary's CPU beside that without one, what is answered when replies wait for the replica, and
// how late the replica is.

const (
	lagRate  = 100_000              // calls a second of the load under which lag is looked at
	lagEvery = 2 * time.Millisecond // from one look to the next, on average: at random, to meet every phase of what is sent in turns
	tickTime = time.Millisecond     // from one batch of the load to the next
	onceMore = 10 * time.Second     // longest wait for a replica to be in step, or to show a key
)

// What it must reach.
const (
	targetLag      = 5.0     // ms, p99
	targetReplica  = 1.2     // CPU of a primary per call, of that without a replica
	targetReplAck1 = 100_000 // calls/s
)

// A replicated is what was measured of replication.
type replicated struct {
	cells []*measured // in turn: see replicationKinds
	lags  []*lagged   // ours, theirs
}

// A lagged is how late a replica was.
type lagged struct {
	server, command string
	rates           []float64 // calls a second that were answered, by round
	p99             []float64 // ms, by round
	latency         *hdrhistogram.Histogram
}

// A couple is a primary and its replica.
type couple struct{ primary, replica *server }

// replicationKinds are set against one another, the first two and the last two are without and with a replica.
func replicationKinds(o options) []kind {
	all := kinds(o)
	ours, theirs := all[0], all[1]
	// A replica of Redis's waits 5 s for others, unless told otherwise.
	theirs = theirs.with("Redis", "--repl-diskless-sync-delay", "0")
	return []kind{
		ours.with("rlserver"), ours.with("rlserver, a replica"), ours.with("rlserver, repl-ack 1", "--repl-ack", "1", "--repl-ack-on-timeout", "refuse", "--repl-ack-timeout", "10s"),
		theirs, theirs.with("Redis, a replica"),
	}
}

// with returns a server with more arguments.
func (k kind) with(title string, args ...string) kind {
	k.title, k.args = title, append(slices.Clone(k.args), args...)
	return k
}

// following returns the replica of a server.
func (k kind) following(port int) kind {
	if k.name == "rlserver" {
		return k.with(k.title, "--replicaof", fmt.Sprintf("127.0.0.1 %d", port))
	}
	return k.with(k.title, "--replicaof", "127.0.0.1", strconv.Itoa(port))
}

func (b *bench) measureReplication(ctx context.Context) (*replicated, error) {
	r := &replicated{}
	var err error
	if b.options.only.MatchString("replication/cpu") {
		if r.cells, err = b.measureReplicas(ctx); err != nil {
			return nil, fmt.Errorf("replication cpu: %w", err)
		}
	}
	if b.options.only.MatchString("replication/lag") {
		if r.lags, err = b.measureLag(ctx); err != nil {
			return nil, fmt.Errorf("replication lag: %w", err)
		}
	}
	return r, nil
}

// startCouple starts a server and a replica that is in step with it.
func (b *bench) startCouple(ctx context.Context, k kind) (c couple, err error) {
	if c.primary, err = b.startFound(ctx, k); err != nil {
		return c, err
	}
	if c.replica, err = b.startFound(ctx, k.following(c.primary.port)); err != nil {
		c.primary.stop()
		return c, err
	}
	for began := time.Now(); ; time.Sleep(lookEvery) {
		info, err := c.replica.ask("INFO", "replication")
		if err == nil && strings.Contains(info, "master_link_status:up") {
			return c, nil
		}
		if err != nil || time.Since(began) > onceMore {
			c.stop()
			return c, errors.Join(fmt.Errorf("the replica of %s is not in step within %s", k.title, onceMore), err)
		}
	}
}

func (c couple) stop() {
	c.replica.stop()
	c.primary.stop()
}

// measureReplicas takes all primaries once a round.
func (b *bench) measureReplicas(ctx context.Context) (all []*measured, err error) {
	o := *b
	o.options.rounds *= closeRounds
	var servers []*server
	for i, k := range replicationKinds(b.options) {
		s := (*server)(nil)
		if alone := i == 0 || i == 3; alone {
			if s, err = b.startFound(ctx, k); err != nil {
				return nil, err
			}
			defer s.stop()
		} else {
			c, err := b.startCouple(ctx, k)
			if err != nil {
				return nil, err
			}
			defer c.stop()
			s = c.primary
		}
		servers = append(servers, s)
		call := commands(k.name)[0]
		spent := newFrame(call.spent...)
		all = append(all, &measured{latency: newLatency(), cell: cell{server: k.title, command: call.title, depth: batch, frame: newFrame(call.args...), spent: &spent}})
	}
	return all, o.byTurns(ctx, "replication cpu, ", all, func(i int) *server { return servers[i] })
}

// measureLag looks at a replica of each server in turn while its primary is under load.
func (b *bench) measureLag(ctx context.Context) (all []*lagged, err error) {
	var couples []couple
	for _, k := range []kind{replicationKinds(b.options)[1], replicationKinds(b.options)[4]} {
		c, err := b.startCouple(ctx, k)
		if err != nil {
			return nil, err
		}
		defer c.stop()
		couples = append(couples, c)
		l := &lagged{server: k.title, command: "INCR key", latency: newLatency()}
		if k.name == "rlserver" {
			l.command = "RL.ACQUIRE key 1/30d 100"
		}
		all = append(all, l)
	}
	for round := range b.options.rounds + 1 {
		fmt.Fprintf(os.Stderr, "replication lag, round %d of %d\n", round, b.options.rounds)
		for i, c := range couples {
			seen, rate, err := b.lagOf(ctx, c, round)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", all[i].server, err)
			}
			if round > 0 { // the first one makes the keys
				all[i].rates = append(all[i].rates, rate)
				all[i].p99 = append(all[i].p99, milliseconds(seen.ValueAtPercentile(99)))
				all[i].latency.Merge(seen)
			}
		}
	}
	return all, nil
}

// lagOf returns how long after the primary's answer the replica showed what it had changed, looked at
// every lagEvery, and the load meanwhile.
func (b *bench) lagOf(ctx context.Context, c couple, round int) (seen *hdrhistogram.Histogram, rate float64, err error) {
	frames := [3]frame{newFrame("INCR", "incr:%key"), newFrame("INCR", "look:%key"), newFrame("GET", "look:%key")}
	if c.primary.name == "rlserver" {
		frames = [3]frame{slowBucket(c.primary.kind, memoryBurst), newFrame("RL.ACQUIRE", "look:%key", "1/30d", "100"), newFrame("RL.PEEK", "look:%key")}
	}
	stop := make(chan struct{})
	type streamed struct {
		rate float64
		err  error
	}
	ended := make(chan streamed, 1)
	go func() {
		rate, err := c.primary.stream(frames[0], b.options.keys, lagRate, uint64(round), stop)
		ended <- streamed{rate, err}
	}()
	limit := time.Duration(b.options.seconds * float64(time.Second))
	seen, err = c.look(ctx, frames[1], frames[2], round<<24, limit)
	close(stop)
	load := <-ended
	return seen, load.rate, errors.Join(err, load.err)
}

// look changes one key after another on the primary, numbered from first, and asks the replica until it has it.
func (c couple) look(ctx context.Context, change, read frame, first int, limit time.Duration) (*hdrhistogram.Histogram, error) {
	seen := newLatency()
	on, err := c.primary.connect()
	if err != nil {
		return nil, err
	}
	defer on.close()
	at, err := c.replica.connect()
	if err != nil {
		return nil, err
	}
	defer at.close()
	var out []byte
	once := func(to *client, f frame, key int) (any, error) {
		out = f.appendTo(out[:0], key, 0)
		if err := to.send(out); err != nil {
			return nil, err
		}
		return readReply(to.in)
	}
	for key, began := first, time.Now(); time.Since(began) < limit; key++ {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if _, err := once(on, change, key); err != nil {
			return nil, err
		}
		for answered := time.Now(); ; {
			got, err := once(at, read, key)
			if err != nil {
				return nil, err
			}
			waited := time.Since(answered)
			if got != nil {
				seen.RecordValue(int64(waited))
				break
			}
			if waited > onceMore {
				return nil, fmt.Errorf("the replica has not shown a key within %s", onceMore)
			}
		}
		time.Sleep(rand.N(2 * lagEvery))
	}
	return seen, nil
}

// stream sends so many calls a second, on random keys, in a batch each tickTime on a connection of its own, until it is
// stopped. It returns how many a second were answered.
func (s *server) stream(f frame, keys int, perSecond float64, seed uint64, stop <-chan struct{}) (float64, error) {
	c, err := connect(s.port)
	if err != nil {
		return 0, err
	}
	defer unix.Close(c.fd)
	random := rand.New(rand.NewPCG(seed, 3))
	sent, start := 0.0, time.Now()
	for {
		select {
		case <-stop:
			return sent / time.Since(start).Seconds(), nil
		case <-time.After(tickTime):
		}
		for due := perSecond * time.Since(start).Seconds(); sent < due; {
			c.out = c.out[:0]
			n := int64(0)
			for ; n < fullBatch && sent < due; sent++ {
				c.out = f.appendTo(c.out, random.IntN(keys), 0)
				n++
			}
			for rest := c.out; len(rest) > 0; {
				w, err := unix.Write(c.fd, rest)
				if err != nil && err != unix.EINTR {
					return 0, fmt.Errorf("send: %w", err)
				}
				rest = rest[max(w, 0):]
			}
			for want := c.replies.total + n; c.replies.total < want; {
				if err := c.read(); err != nil {
					return 0, err
				}
			}
		}
	}
}
