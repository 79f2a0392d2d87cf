package replicate

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlserver/rlserver/shard"
)

// Options are what a Runner works with. All but Dial are needed.
type Options struct {
	Config
	Store *shard.Store
	Feed  *shard.Feed // switched off
	State State       // as saved last
	Clean bool        // State and the store are of a clean stop, or there was none before

	// Now is the time since the machine was started. It counts what the machine
	// was suspended for.
	Now func() Time
	// Clock is the store's clock, ms since the epoch; SetClock makes it base + Now.
	Clock    func() int64
	SetClock func(base int64)
	// Save writes the state to disk.
	Save func(State) error
	// CloseClients ends the connections of clients.
	CloseClients func()
	// Login returns the user and the password to present to a primary, empty = none.
	Login func() (user, password string)
	// Dial connects to a node; nil is plain TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	Log  *slog.Logger
}

// A Runner runs a Node: it has the sockets, the clock and the goroutines. Its
// methods may be called from any goroutine.
type Runner struct {
	o     Options
	node  *Node // of loop alone, as is what follows
	queue []Message
	conns map[LinkID]*peerConn
	walks map[LinkID]*walk
	gate  Gate
	round uint64 // cut last
	tick  *time.Timer

	scratch []byte // frames are made in it
	direct  int    // how often this step may still write to a socket by itself

	tasks  chan func()
	wanted chan struct{} // holds one
	stop   chan struct{}
	done   chan struct{}

	doors    atomic.Pointer[Doors]
	status   atomic.Pointer[Status]
	acked    atomic.Uint64 // rounds that enough replicas have
	sent     atomic.Uint64 // rounds whose frames status.Offset counts
	accepted atomic.Uint64 // link ids given to connections that came
	mu       sync.Mutex
	notify   func()
	states   chan State    // to be saved: holds the latest
	saved    chan struct{} // closed when the last one is
}

// A walk is a full sync under way: named limits first, then entries.
type walk struct {
	limits []shard.Change
	walk   *shard.Walk
}

const (
	// tickFast is the pace while changes are told to replicas, tickSlow otherwise.
	tickFast = time.Millisecond
	tickSlow = 10 * time.Millisecond
	// saveAgain is the wait after the role could not be saved, saveTries how often
	// it is tried.
	saveAgain = time.Second
	saveTries = 60
	// directMost is how often a step writes to sockets by itself.
	directMost = 8
	// keepScratch bounds the room for frames that is kept, bytes.
	keepScratch = 1 << 20
	// backlog is how many tasks may wait for the loop.
	backlog = 256
)

// NewRunner starts a node. It has taken its first step when NewRunner returns.
func NewRunner(o Options) *Runner {
	r := &Runner{
		o: o, node: New(o.Config), conns: map[LinkID]*peerConn{}, walks: map[LinkID]*walk{},
		tasks: make(chan func(), backlog), wanted: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		tick: time.NewTimer(tickSlow), states: make(chan State, 1), saved: make(chan struct{}),
	}
	go r.saveAll()
	if r.o.Dial == nil {
		r.o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		}
	}
	r.doors.Store(&Doors{})
	r.step(Start{State: o.State, Clean: o.Clean, Clock: o.Clock()})
	go r.loop()
	return r
}

// Stop ends the node and all its links.
func (r *Runner) Stop() {
	close(r.stop)
	<-r.done
	close(r.states)
	<-r.saved
}

// Doors are the doors as put last.
func (r *Runner) Doors() *Doors { return r.doors.Load() }

// Status is what the node is, at most a tick old.
func (r *Runner) Status() Status { return *r.status.Load() }

// Ready says whether enough replicas have a round of the feed. If not, it sees
// to it that they get it soon.
func (r *Runner) Ready(round uint64) bool {
	if r.acked.Load() >= round {
		return true
	}
	r.want()
	return false
}

// Shipped is the number of a frame that whoever has it has a round of the feed
// too, if that was cut. It sees to it that it soon is, and that replicas ack it.
func (r *Runner) Shipped(round uint64) (number uint64, ok bool) {
	shipped := r.sent.Load() >= round
	st := r.status.Load()
	if !shipped || slices.ContainsFunc(st.Replicas, func(p ReplicaStatus) bool { return p.Online && p.Acked < st.Offset }) {
		r.want()
	}
	if !shipped {
		return 0, false
	}
	return st.Offset, true
}

// want has the loop see to acks.
func (r *Runner) want() {
	select {
	case r.wanted <- struct{}{}:
	default:
	}
}

// Having is how many replicas are known to have all frames up to a number.
func (r *Runner) Having(number uint64) (replicas int) {
	for _, p := range r.status.Load().Replicas {
		if p.Online && p.Acked >= number {
			replicas++
		}
	}
	return replicas
}

// Notify has f called whenever Ready may answer otherwise than before, or the
// doors have changed. f must not wait.
func (r *Runner) Notify(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notify = f
}

func (r *Runner) told() {
	r.mu.Lock()
	f := r.notify
	r.mu.Unlock()
	if f != nil {
		f()
	}
}

// Tell tells the node a message and does not wait for what it does.
func (r *Runner) Tell(m Message) { r.post(func() { r.step(m) }) }

// Do tells the node a message and returns when it has taken the step.
func (r *Runner) Do(m Message) {
	done := make(chan struct{})
	if r.post(func() { r.step(m); close(done) }) {
		select {
		case <-done:
		case <-r.done:
		}
	}
}

// post has something done by the loop, unless it has ended.
func (r *Runner) post(task func()) bool {
	select {
	case r.tasks <- task:
		return true
	case <-r.stop:
		return false
	}
}

func (r *Runner) loop() {
	defer close(r.done)
	for {
		select {
		case task := <-r.tasks:
			task()
		case <-r.wanted:
			r.step(Wanted{})
		case <-r.tick.C:
			r.ticked()
		case <-r.stop:
			for _, c := range r.conns {
				c.close()
			}
			return
		}
	}
}

func (r *Runner) ticked() {
	m, next := Tick{}, tickSlow
	if r.node.feed {
		next = tickFast
		m.Dirty, m.Bytes = r.o.Feed.Backlog()
	}
	r.step(m)
	r.tick.Reset(next)
}

// step has the node take a step, and what follows from it.
func (r *Runner) step(m Message) {
	r.queue, r.direct = append(r.queue, m), directMost
	for len(r.queue) > 0 {
		m := r.queue[0]
		r.queue = r.queue[1:]
		effects := r.node.Step(r.o.Now(), m)
		r.shutFirst(effects)
		for _, e := range effects {
			r.carryOut(e)
		}
	}
	r.queue = nil
	st := r.node.Status(r.o.Now())
	r.status.Store(&st)
	r.sent.Store(r.round)
}

// shutFirst closes the doors, if a step does, before anything else of it is carried
// out: a round that is cut then has all that is answered.
func (r *Runner) shutFirst(effects []Effect) {
	for _, e := range effects {
		if d, ok := e.(Doors); ok && d.Generation != r.doors.Load().Generation {
			d.Open = false
			r.doors.Store(&d)
		}
	}
}

func (r *Runner) carryOut(e Effect) {
	switch e := e.(type) {
	case Send:
		r.send(e)
	case Dial:
		r.dial(e)
	case Hangup:
		if c := r.conns[e.Link]; c != nil {
			c.finish()
			delete(r.conns, e.Link)
		}
		delete(r.walks, e.Link)
	case Cut:
		r.cut(e)
	case BeginWalk:
		r.walks[e.Link] = &walk{r.o.Store.Limits().Changes(), r.o.Feed.Walk()}
	case ReadChunk:
		r.readChunk(e)
	case Apply:
		if err := r.o.Store.Apply(e.Wipe, e.Changes); err != nil {
			r.o.Log.Error("a primary told what this version does not understand", "err", err)
		}
	case Released:
		r.gate.Release(e.Number)
		r.released()
	case Doors:
		r.doors.Store(&e)
		r.told()
	default:
		r.carryOutRare(e)
	}
}

func (r *Runner) carryOutRare(e Effect) {
	switch e := e.(type) {
	case Feed:
		if e.On {
			r.o.Feed.On()
		} else {
			r.o.Feed.Off()
		}
		r.tick.Reset(tickFast)
	case StoreFollows:
		r.o.Store.Follow(e.On)
	case SetClock:
		r.o.SetClock(e.Base)
	case CloseClients:
		r.o.CloseClients()
	case Persist:
		r.save(e.State)
	case Note:
		if e.Warn {
			r.o.Log.Warn(e.Text)
		} else {
			r.o.Log.Info(e.Text)
		}
	default:
		panic("replicate: an effect that nobody carries out")
	}
}

// save has the state written, the latest of several. The loop does not wait for
// the disk, that may take seconds: whoever is started again is in doubt anyway,
// see doc.go.
func (r *Runner) save(s State) {
	select {
	case <-r.states:
	default:
	}
	r.states <- s
}

// saveAll writes states until there are no more.
func (r *Runner) saveAll() {
	defer close(r.saved)
	for s := range r.states {
		for failed := 0; ; failed++ {
			err := r.o.Save(s)
			if err == nil {
				break
			}
			if failed == 0 {
				r.o.Log.Error("cannot save the role", "err", err)
			}
			select {
			case <-r.stop:
				failed = saveTries
			case <-time.After(saveAgain):
			}
			if failed >= saveTries || len(r.states) > 0 {
				break
			}
		}
	}
}

// send writes to a link: a step writes some by itself, to wake nobody for a frame each millisecond, and then comes to an end
// though the socket would take all that there is.
func (r *Runner) send(e Send) {
	c := r.conns[e.Link]
	if c == nil {
		return
	}
	if sent := c.send(e.Raw, r.direct > 0); sent > 0 {
		r.direct--
		r.queue = append(r.queue, Sent{e.Link, sent})
	}
}

func (r *Runner) cut(e Cut) {
	round := r.o.Feed.Cut()
	// The log keeps the frame: it gets one of its own that is no longer than it has to be.
	scratch, _ := appendRound(r.scratch[:0], changesHead{term: e.Term, number: e.Number, clock: e.Clock, later: e.Later}, round)
	raw := bytes.Clone(scratch)
	if r.scratch = scratch; cap(scratch) > keepScratch {
		r.scratch = nil
	}
	number := e.Number
	if len(raw) == 0 {
		number--
	}
	r.round = round.Number
	r.gate.Cut(round.Number, number)
	r.released()
	r.queue = append(r.queue, RoundCut{raw})
}

func (r *Runner) released() {
	if done := r.gate.done; done > r.acked.Load() {
		r.acked.Store(done)
		r.told()
	}
}

func (r *Runner) readChunk(e ReadChunk) {
	w := r.walks[e.Link]
	if w == nil {
		return
	}
	batch, more := w.limits, true
	if w.limits = nil; len(batch) == 0 {
		batch, more = w.walk.Next()
	}
	if !more {
		delete(r.walks, e.Link)
	}
	r.queue = append(r.queue, ChunkRead{e.Link, appendChunks(nil, e.Clock, batch), more})
}
