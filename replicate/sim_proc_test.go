package replicate

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rlserver/rlserver/shard"
)

func nodeAddr(i int) string { return fmt.Sprintf("10.0.0.%d:6390", i) }

func addrHost(addr string) int {
	for i := range simNodes {
		if nodeAddr(i) == addr {
			return i
		}
	}
	return -1
}

// A host is a machine with a node on it, what is on its disk, and its clock.
type host struct {
	w        *world
	id       int
	skew     int64 // ms, of its wall clock
	proc     *proc
	accepted uint64

	state   string                  // as written
	disk    map[string]shard.Change // what persist holds, by space and key
	diskAt  Time                    // of the round written last
	clockAt int64                   // of the store then, ms
	setBack int64
	clean   bool // the last stop
	everRan bool
}

func (h *host) peer() Peer { return Peer{fmt.Sprintf("node%d", h.id), nodeAddr(h.id)} }

// A proc is one run of the server's process.
type proc struct {
	host     *host
	w        *world
	node     *Node
	store    *shard.Store
	toDisk   *shard.Feed
	ship     *shard.Feed
	gate     Gate
	doors    Doors
	base     int64 // of the store's clock
	dead     bool
	paused   bool
	pausedAt Time
	held     []func() // what came while it was paused
	queue    []Message
	busy     bool
	byLink   map[LinkID]*conn
	walks    map[LinkID]*simWalk
	waits    []*reply
	closes   int
	steps    int

	// Where the store's content is from, for the oracles.
	contentAt Time // all that was decided before by who led then is in it
	setBack   int64
	began     Time
	turn      int // of the opening it decides in
}

type simWalk struct {
	walk   *shard.Walk
	limits []shard.Change
}

func (h *host) start() {
	w := h.w
	p := &proc{host: h, w: w, byLink: map[LinkID]*conn{}, walks: map[LinkID]*simWalk{}}
	p.store = shard.New(shard.Config{Shards: 1, Grace: 3000})
	p.toDisk, p.ship = p.store.NewFeed(), p.store.NewFeed()
	p.ship.Off()
	clock := simWall + (w.now - simStart).Milliseconds() + h.skew
	var entries, limits []shard.Change
	for _, c := range h.disk {
		if c.Space == shard.LimitSpace {
			limits = append(limits, c)
		} else {
			entries = append(entries, c)
		}
	}
	if err := p.store.Limits().Load(limits); err != nil {
		panic(err)
	}
	load := p.store.Loader(clock, clock+simSkew)
	for _, c := range entries {
		if err := load.Add(c); err != nil {
			panic(err)
		}
	}
	if err := load.Flush(); err != nil {
		panic(err)
	}
	p.contentAt, p.began = h.diskAt, w.now
	p.setBack = h.setBack + max(h.clockAt-clock-simSkew, 0)
	p.base = clock - w.now.Milliseconds()
	state := State{}
	if h.state != "" {
		var err error
		if state, err = ParseState(h.state); err != nil {
			panic(err)
		}
		if w.conf.fault == forgetUnclean && state.Unclean {
			state.Unclean, state.Lead = false, state.Term
		}
	} else if h.id > 0 {
		state.Primary = nodeAddr(0)
	}
	p.node = New(Config{
		Self: h.peer(), Mine: func(a string) bool { return a == nodeAddr(h.id) },
		NewID: func() string { w.ids++; return fmt.Sprintf("%040d", w.ids) },
		Acks:  w.conf.acks, FenceAfter: w.conf.fenceAfter, RingBytes: w.conf.ringBytes,
	})
	if w.conf.ringBytes != 0 {
		p.node.stage = 1000
	}
	h.proc = p
	w.logf("n%d starts, clean %v, primary %q", h.id, h.clean || !h.everRan, state.Primary)
	p.tell(Start{State: state, Clean: h.clean || !h.everRan, Clock: clock})
	h.everRan, h.clean = true, false
	p.tick(w.between(0, simTick))
	p.save()
}

// simSkew is max-clock-skew, ms.
const simSkew = 1000

const simTick = 5 * time.Millisecond

func (p *proc) tick(wait Time) {
	p.w.after(wait, func() {
		if p.dead {
			return
		}
		if !p.paused {
			m := Tick{}
			m.Dirty, m.Bytes = p.ship.Backlog()
			p.tell(m)
			if p.w.rng.IntN(20) == 0 {
				clock := p.clock()
				if p.w.conf.fault == ownClock && p.doors.Role == Following {
					clock += 2500
				}
				p.store.Sweep(clock, time.Hour)
			}
			p.timeouts()
		}
		p.tick(simTick)
	})
}

// save writes rounds to the disk, as persist does.
func (p *proc) save() {
	p.w.after(p.w.conf.saveEvery, func() {
		if p.dead {
			return
		}
		if !p.paused {
			p.flush()
		}
		p.save()
	})
}

func (p *proc) flush() {
	h := p.host
	r := p.toDisk.Cut()
	if r.Cleared {
		for k, c := range h.disk {
			if c.Space == shard.KeySpace {
				delete(h.disk, k)
			}
		}
	}
	for {
		told := r.Next(100)
		if told == nil {
			break
		}
		for _, c := range told {
			k := string(c.Space) + string(c.Key)
			c.Key, c.Value = bytes.Clone(c.Key), bytes.Clone(c.Value)
			if c.Kind == 0 {
				delete(h.disk, k)
			} else {
				h.disk[k] = c
			}
		}
	}
	h.diskAt = min(p.w.now, p.contentTime())
	h.clockAt, h.setBack = p.clock(), p.setBack
}

// contentTime is up to when the store has all that was decided.
func (p *proc) contentTime() Time {
	if p.doors.Open {
		return p.w.now
	}
	return p.contentAt
}

// stop ends the process, cleanly or not.
func (h *host) stop(clean bool) {
	p := h.proc
	if p == nil {
		return
	}
	h.w.logf("n%d stops, clean %v", h.id, clean)
	if clean {
		p.flush()
	}
	h.clean = clean
	p.dead = true
	h.proc = nil
	for _, c := range h.w.connsOf(p) {
		c.breakOff(p)
	}
}

func (w *world) connsOf(p *proc) (all []*conn) {
	for c := range w.conns {
		if c.ends[0].p == p || c.ends[1].p == p {
			all = append(all, c)
		}
	}
	return sortConns(all)
}

func (p *proc) clock() int64 { return p.base + p.w.now.Milliseconds() }

// hold does something now, or when the process goes on.
func (p *proc) hold(do func()) bool {
	if p.dead {
		return true
	}
	if p.paused {
		p.held = append(p.held, do)
		return true
	}
	return false
}

func (p *proc) pause() {
	p.w.logf("n%d is stopped", p.host.id)
	p.paused, p.pausedAt = true, p.w.now
}

func (p *proc) resume() {
	if p.dead || !p.paused {
		return
	}
	p.w.logf("n%d goes on", p.host.id)
	p.paused = false
	held := p.held
	p.held = nil
	// Which goroutine runs first is chance.
	if p.w.chance(0.5) {
		p.tryWaiting()
	}
	for _, do := range held {
		do()
	}
	p.tryWaiting()
}

// tell has the node take a step, and what follows from it.
func (p *proc) tell(m Message) {
	if p.hold(func() { p.tell(m) }) {
		return
	}
	p.queue = append(p.queue, m)
	if p.busy {
		return
	}
	p.busy = true
	for len(p.queue) > 0 {
		m := p.queue[0]
		p.queue = p.queue[1:]
		from, takes := p.takes(m)
		effects := p.node.Step(p.w.now, m)
		if from != nil {
			p.setBack = from.setBack
		}
		if takes {
			p.contentAt = from.contentTime()
		}
		for _, e := range effects {
			p.do(e)
		}
		p.noteContent()
		if p.steps++; p.steps%16 == 0 && p.node.started {
			if s := p.node.asState(); s.String() != p.node.state.String() {
				panic(fmt.Sprintf("seed %d: after %T the state is not persisted", p.w.seed, m))
			}
		}
	}
	p.busy = false
}

// takes says whose content a message completes, if it does, and whether it is
// taken for a promotion.
func (p *proc) takes(m Message) (from *proc, promoted bool) {
	r, ok := m.(Received)
	c := p.byLink[r.Link]
	if !ok || r.Frame.kind != typeWhole || c == nil || p.node.links[r.Link] == nil {
		return nil, false
	}
	return c.ends[1-c.side(p)].p, p.node.takesFrom(p.node.links[r.Link])
}

func (p *proc) do(e Effect) {
	w := p.w
	switch e := e.(type) {
	case Send:
		if c := p.byLink[e.Link]; c != nil {
			if w.conf.fault == noFence && len(e.Raw) > frameHead && e.Raw[4] == byte(typePull) && e.Raw[6] == wireVersion {
				return
			}
			if w.conf.fault == noTake && e.Raw[4] == byte(typeFull) && e.Raw[6] == wireVersion {
				p.queue = append(p.queue, Closed{Link: e.Link})
				return
			}
			c.write(c.side(p), e.Raw, false)
		}
	case Dial:
		if w.conf.fault == noPull && e.Command[0] == "RL.PULL" {
			w.after(time.Millisecond, func() { p.tell(Closed{Link: e.Link}) })
			return
		}
		w.connect(p, e)
	case Hangup:
		if c := p.byLink[e.Link]; c != nil {
			c.write(c.side(p), nil, true)
			c.ends[c.side(p)].shut = true
			delete(p.byLink, e.Link)
		}
		delete(p.walks, e.Link)
	case Cut:
		p.cut(e)
	case BeginWalk:
		if head := (frameOf{p.node.replid, p.node.log.head()}); head.replid != "" && w.ledger.cutAt[head] == 0 {
			w.ledger.cutAt[head] = p.contentTime()
		}
		p.walks[e.Link] = &simWalk{walk: p.ship.Walk(), limits: p.store.Limits().Changes()}
	case ReadChunk:
		p.readChunk(e)
	case Feed:
		if e.On {
			p.ship.On()
		} else {
			p.ship.Off()
		}
	case StoreFollows:
		if w.conf.fault != ownClock {
			p.store.Follow(e.On)
		}
	case Apply:
		p.apply(e)
	case SetClock:
		p.base = e.Base
	case Released:
		p.gate.Release(e.Number)
		p.tryWaiting()
	case Doors:
		p.setDoors(e)
	case CloseClients:
		p.closes++
	case Persist:
		p.host.state = e.State.String()
	case Note:
		w.logf("n%d: %s", p.host.id, e.Text)
	default:
		panic(fmt.Sprintf("effect %T", e))
	}
}

func (p *proc) cut(e Cut) {
	r := p.ship.Cut()
	raw, _ := appendRound(nil, changesHead{term: e.Term, number: e.Number, clock: e.Clock, later: e.Later}, r)
	number := e.Number
	if len(raw) == 0 {
		number--
	} else {
		p.w.ledger.cutAt[frameOf{p.node.replid, e.Number}] = p.contentTime()
	}
	p.gate.Cut(r.Number, number)
	p.queue = append(p.queue, RoundCut{raw})
}

func (p *proc) readChunk(e ReadChunk) {
	walk := p.walks[e.Link]
	batch, more := walk.limits, true
	if walk.limits = nil; len(batch) == 0 {
		batch, more = walk.walk.Next()
	}
	p.queue = append(p.queue, ChunkRead{e.Link, appendChunks(nil, e.Clock, batch), more})
}

func (p *proc) apply(e Apply) {
	do := func() {
		if err := p.store.Apply(e.Wipe, e.Changes); err != nil {
			panic(err)
		}
	}
	if p.w.conf.fault == ackEarly {
		// A worker of its own applies later, and a promotion does not wait for it.
		e.Changes = cloneChanges(e.Changes)
		p.w.after(300*time.Millisecond, func() {
			if !p.dead && p.doors.Role == Following {
				do()
			}
		})
	} else {
		do()
	}
}

// noteContent notes up to when the content is, after a step.
func (p *proc) noteContent() {
	if p.node.role == Leading || !p.node.whole || p.node.up.full != "" || p.node.replid == "" {
		return
	}
	if at, ok := p.w.ledger.cutAt[frameOf{p.node.replid, p.node.log.head()}]; ok {
		p.contentAt = at
	}
}

func cloneChanges(changes []shard.Change) []shard.Change {
	all := make([]shard.Change, len(changes))
	for i, c := range changes {
		c.Key, c.Value = bytes.Clone(c.Key), bytes.Clone(c.Value)
		all[i] = c
	}
	return all
}

// links notes the dialed end of a connection, if it is still wanted.
func (p *proc) links(c *conn, s int) bool {
	l := p.node.links[c.ends[s].link]
	if p.dead || l == nil {
		return false
	}
	p.byLink[l.id] = c
	return true
}

// accept is the server's side of RL.SYNC and RL.PULL.
func (p *proc) accept(c *conn, from Peer, command []string) {
	if p.hold(func() { p.accept(c, from, command) }) || c.dead {
		return
	}
	link := c.ends[1].link
	p.byLink[link] = c
	c.ends[1].lined = true
	offset, _ := strconv.ParseUint(command[2], 10, 64)
	term, _ := strconv.ParseUint(command[3], 10, 64)
	replid := command[1]
	if p.w.conf.fault == crossHistory && p.node.replid != "" && replid != "?" {
		replid = p.node.replid
	}
	if command[0] == "RL.SYNC" {
		p.tell(Attach{link, from, replid, offset, term})
	} else {
		p.tell(Asked{link, from, replid, offset, term})
	}
}

// receive takes bytes as they come.
func (p *proc) receive(e *end, raw []byte) {
	raw = bytes.Clone(raw)
	if p.hold(func() { p.receive(e, raw) }) || e.shut {
		return
	}
	e.in = append(e.in, raw...)
	for !e.shut {
		if !e.lined {
			line, rest, ok := bytes.Cut(e.in, []byte("\r\n"))
			if !ok {
				return
			}
			e.lined, e.in = true, rest
			p.tell(Line{e.link, string(line)})
			continue
		}
		f, need, err := nextFrame(e.in)
		if err != nil {
			panic(fmt.Sprintf("seed %d: %v", p.w.seed, err))
		}
		if need > 0 {
			return
		}
		e.in = e.in[len(f.raw):]
		p.tell(Received{e.link, f})
	}
}

func (p *proc) status() Status { return p.node.Status(p.w.now) }

// summary is one line about a node, for a failure's trace.
func (h *host) summary() string {
	if h.proc == nil {
		return fmt.Sprintf("n%d down", h.id)
	}
	s := h.proc.status()
	return strings.TrimSpace(fmt.Sprintf("n%d role %d term %d open %v whole %v offset %d primary %q link %v replicas %+v",
		h.id, s.Role, s.Term, h.proc.doors.Open, h.proc.doors.Whole, s.Offset, s.Primary, s.Link, s.Replicas))
}

func newHost(w *world, id int) *host {
	return &host{w: w, id: id, skew: int64(w.rng.IntN(4000)) - 2000, disk: map[string]shard.Change{}}
}
