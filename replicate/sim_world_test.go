package replicate

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"
)

// The simulation runs nodes, Sentinels and clients in virtual time, from a seed
// alone. This file has time and the network.

type event struct {
	at  Time
	seq uint64
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	old[len(old)-1] = event{}
	*e = old[:len(old)-1]
	return x
}

// Hosts: nodes first, then Sentinels, then the clients.
const (
	simNodes     = 3
	simSentinels = 3
	clientHost   = simNodes + simSentinels
	simHosts     = clientHost + 1
)

type world struct {
	seed   uint64
	rng    *rand.Rand
	now    Time
	seq    uint64
	events events
	cut    [simHosts][simHosts]bool // what from sends to to waits
	slow   [simHosts][simHosts]Time
	cutAt  [simHosts][simHosts]Time // when cut was set or lifted last
	conns  map[*conn]bool
	trace  []string
	conf   scenario

	nodes     [simNodes]*host
	sentinels [simSentinels]*simSentinel
	ledger    ledger
	ids       int
	loading   bool

	forced bool   // an operator did what nothing is promised for
	before string // what was wrong before
}

func (w *world) after(d Time, do func()) {
	w.seq++
	heap.Push(&w.events, event{w.now + max(d, 0), w.seq, do})
}

// until runs what is due before a time.
func (w *world) until(t Time) {
	for len(w.events) > 0 && w.events[0].at <= t {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = t
}

func (w *world) logf(format string, a ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%10.4f ", (w.now-simStart).Seconds())+fmt.Sprintf(format, a...))
}

func (w *world) between(lo, hi Time) Time { return lo + Time(w.rng.Int64N(int64(hi-lo)+1)) }

func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// delay is how long one message takes.
func (w *world) delay(from, to int) Time {
	if w.conf.jitter > 0 && w.chance(0.02) {
		return w.slow[from][to] + w.between(0, 10*w.conf.jitter)
	}
	return w.slow[from][to] + w.between(50*time.Microsecond, 50*time.Microsecond+w.conf.jitter)
}

func (w *world) setCut(from, to int, cut bool) {
	if w.cut[from][to] != cut {
		w.cut[from][to], w.cutAt[from][to] = cut, w.now
	}
}

// datagram delivers once or, over a cut, never.
func (w *world) datagram(from, to int, do func()) {
	w.after(w.delay(from, to), func() {
		if !w.cut[from][to] {
			do()
		}
	})
}

// A conn is a connection between two processes: in order, nothing twice; over
// a cut what is under way waits.
type conn struct {
	w    *world
	ends [2]*end
	dead bool
}

type end struct {
	p      *proc
	link   LinkID
	shut   bool // hung up from this side
	lined  bool // the line that comes first was read
	in     []byte
	queue  []segment // under way to this end
	lastAt Time
}

type segment struct {
	raw  []byte
	at   Time
	size int // told to the sender when it has left; 0 for all but the last of a send
	fin  bool
}

func (c *conn) side(p *proc) int {
	if c.ends[0].p == p {
		return 0
	}
	return 1
}

// write sends from side s to the other.
func (c *conn) write(s int, raw []byte, fin bool) {
	from, to := c.ends[s], c.ends[1-s]
	if c.dead || from.shut {
		return
	}
	w := c.w
	to.lastAt = max(to.lastAt, w.now+w.delay(from.p.host.id, to.p.host.id))
	size := len(raw)
	if len(raw) > 1 && w.chance(0.3) {
		k := 1 + w.rng.IntN(len(raw)-1)
		c.enqueue(s, segment{raw: raw[:k], at: to.lastAt})
		raw = raw[k:]
		to.lastAt += w.between(0, time.Millisecond)
	}
	c.enqueue(s, segment{raw: raw, at: to.lastAt, size: size, fin: fin})
}

func (c *conn) enqueue(s int, seg segment) {
	to := c.ends[1-s]
	to.queue = append(to.queue, seg)
	if len(to.queue) == 1 {
		c.w.after(seg.at-c.w.now, func() { c.deliver(s) })
	}
}

// deliver brings the first segment under way to the other side.
func (c *conn) deliver(s int) {
	from, to := c.ends[s], c.ends[1-s]
	w := c.w
	if c.dead {
		return
	}
	if w.cut[from.p.host.id][to.p.host.id] {
		w.after(w.between(20*time.Millisecond, 100*time.Millisecond), func() { c.deliver(s) })
		return
	}
	seg := to.queue[0]
	to.queue = to.queue[1:]
	if len(to.queue) > 0 {
		w.after(max(to.queue[0].at-w.now, 0), func() { c.deliver(s) })
	}
	if seg.size > 0 && !from.shut {
		from.p.tell(Sent{from.link, seg.size})
	}
	if !to.shut {
		to.p.receive(to, seg.raw)
		if seg.fin && !to.shut {
			to.shut = true
			to.p.tell(Closed{Link: to.link})
		}
	}
	if seg.fin {
		c.dead = true
		delete(w.conns, c)
	}
}

// breakOff ends a connection, perhaps in the middle of what is under way. gone
// is a process that died, or nil.
func (c *conn) breakOff(gone *proc) {
	if c.dead {
		return
	}
	w := c.w
	for s := range c.ends {
		to := c.ends[s]
		if len(to.queue) > 0 && !to.shut && to.p != gone && !w.cut[c.ends[1-s].p.host.id][to.p.host.id] {
			raw := to.queue[0].raw
			to.p.receive(to, raw[:w.rng.IntN(len(raw)+1)])
		}
	}
	c.dead = true
	delete(w.conns, c)
	for s := range c.ends {
		e, other := c.ends[s], c.ends[1-s].p.host.id
		if e.p != gone && !e.shut {
			e.shut = true
			w.whenOpen(other, e.p.host.id, 0, func() { e.p.tell(Closed{Link: e.link}) })
		}
	}
}

// whenOpen does something at the other side as soon as it can be reached.
func (w *world) whenOpen(from, to int, wait Time, do func()) {
	w.after(wait+w.delay(from, to), func() {
		if w.cut[from][to] {
			w.whenOpen(from, to, 100*time.Millisecond, do)
			return
		}
		do()
	})
}

// connect is a Dial: the connection, or Closed, comes to p.
func (w *world) connect(p *proc, d Dial) {
	to := addrHost(d.Addr)
	me := p.host.id
	fail := func(wait Time, refused bool) {
		w.after(wait, func() { p.tell(Closed{d.Link, refused}) })
	}
	if to < 0 || to == me {
		fail(time.Millisecond, true)
		return
	}
	w.after(w.delay(me, to), func() {
		target := w.nodes[to]
		if w.cut[me][to] || w.cut[to][me] {
			fail(w.between(time.Second, 2*time.Second), false)
			return
		}
		if target.proc == nil {
			fail(w.delay(to, me), true)
			return
		}
		target.accepted += 2
		c := &conn{w: w, ends: [2]*end{{p: p, link: d.Link}, {p: target.proc, link: LinkID(target.accepted)}}}
		if !p.links(c, 0) {
			return
		}
		w.conns[c] = true
		target.proc.accept(c, p.host.peer(), d.Command)
	})
}
