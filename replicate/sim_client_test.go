package replicate

import (
	"fmt"
	"slices"
	"time"

	"github.com/rlserver/rlserver/engine"
)

// A simKey is a key that clients want more of than its limit lets through.
type simKey struct {
	name  []byte
	rate  int64 // tokens a second
	burst int64
	lim   engine.Limit
}

func (k *simKey) setLimit(rate, burst int64) {
	lim, err := engine.ParseLimit(fmt.Append(nil, rate), fmt.Append(nil, burst))
	if err != nil {
		panic(err)
	}
	k.rate, k.burst, k.lim = rate, burst, lim
}

// A reply is a grant that has not left the node yet.
type reply struct {
	grant
	gen   uint64
	round uint64
	gated bool
	done  bool
}

// A grant is a positive answer that has left.
type grant struct {
	acked     [simNodes]bool // all who had to, if all had to
	key, cost int64
	at, left  Time  // of the decision, and of the last byte
	clock     int64 // of the decision, ms
	node      int
	term      uint64
	seq       int
}

const replyTimeout = time.Second

// load sends acquires: mostly to whom a Sentinel names, some to
// whoever answered last, some to anyone.
func (w *world) load() {
	if !w.loading {
		return
	}
	var to int
	switch k := w.rng.IntN(10); {
	case k < 6:
		to = w.sentinels[w.rng.IntN(simSentinels)].current()
	case k < 8:
		to = w.ledger.lastNode
	default:
		to = w.rng.IntN(simNodes)
	}
	key, cost := int64(w.rng.IntN(len(w.conf.keys))), int64(1+w.rng.IntN(2))
	w.datagram(clientHost, to, func() {
		if p := w.nodes[to].proc; p != nil {
			p.later(func() { p.acquire(key, cost) })
		}
	})
	w.after(w.between(0, 2*w.conf.pace), w.load)
}

// misc changes other things than the keys that are counted: entries come and
// go, and named limits.
func (w *world) misc() {
	if !w.loading {
		return
	}
	w.after(w.between(0, 100*time.Millisecond), w.misc)
	p := w.anyLeader()
	if p == nil || p.paused || !p.doors.Open || w.now >= p.doors.Until {
		return
	}
	key := fmt.Appendf(nil, "x:%d", w.rng.IntN(30))
	switch w.rng.IntN(6) {
	case 0:
		w.mustLimit(p, key)
	case 1:
		p.store.Limits().Delete(key)
	case 2, 3:
		tx := p.store.Lock(p.clock(), key)
		tx.Delete(key)
		tx.Unlock()
	default:
		k := &w.conf.keys[0]
		value, d, err := engine.Acquire(nil, k.lim, nil, p.clock(), engine.Op{Cost: 1})
		if err != nil {
			panic(err)
		}
		tx := p.store.Lock(p.clock(), key)
		tx.Put(key, 1, value, d.ResetAfter+int64(w.rng.IntN(60_000)))
		tx.Unlock()
	}
}

func (w *world) mustLimit(p *proc, name []byte) {
	lim, err := engine.ParseExpression(fmt.Appendf(nil, "%d:7", 1+w.rng.IntN(9)))
	if err == nil {
		_, err = p.store.Limits().Set(name, lim)
	}
	if err != nil {
		panic(err)
	}
}

// acquire is dispatch and handler of one command.
func (p *proc) acquire(key, cost int64) {
	w := p.w
	d := p.doors
	if !d.Open || w.now >= d.Until || d.Acks > 0 && d.Short {
		return
	}
	k := &w.conf.keys[key]
	clock := p.clock()
	tx := p.store.Lock(clock, k.name)
	var old []byte
	if e, ok := tx.Get(k.name); ok {
		old = e.Value
	}
	value, dec, err := engine.Acquire(nil, k.lim, old, clock, engine.Op{Cost: cost})
	if err != nil {
		panic(err)
	}
	if dec.Allowed > 0 {
		tx.Put(k.name, 1, value, dec.ResetAfter)
	}
	round := tx.Shipped()
	tx.Unlock()
	if dec.Allowed == 0 {
		return
	}
	w.ledger.seq++
	r := &reply{
		grant: grant{key: key, cost: cost, at: w.now, clock: clock, node: p.host.id, term: p.node.term, seq: w.ledger.seq},
		gen:   d.Generation, round: round, gated: d.Acks > 0,
	}
	p.waits = append(p.waits, r)
	if r.gated {
		p.tell(Wanted{})
	}
	// Between the decision and the write others run, or the process is stopped.
	w.after(w.between(0, 2*time.Millisecond), func() { p.later(func() { p.tryLeave(r) }) })
}

// tryLeave writes a reply if it may leave now.
func (p *proc) tryLeave(r *reply) {
	w := p.w
	if r.done {
		return
	}
	if w.conf.fault != noGateLease && (p.doors.Generation != r.gen || !p.doors.Open || w.now >= p.doors.Until) {
		r.done = true
		return
	}
	if r.gated && !p.gate.Done(r.round) {
		return
	}
	r.done = true
	r.left = w.now
	if w.conf.acks == AckAll {
		for i, h := range w.nodes {
			x := p.node.lead.known[h.peer().ID]
			r.acked[i] = x != nil && x.counts
		}
	}
	w.ledger.granted(r.grant)
}

func (p *proc) tryWaiting() {
	if p.dead || p.paused {
		return
	}
	for _, r := range p.waits {
		if r.gated {
			p.tryLeave(r)
		}
	}
}

func (p *proc) timeouts() {
	p.waits = slices.DeleteFunc(p.waits, func(r *reply) bool { return r.done || p.w.now-r.at > replyTimeout })
}

type frameOf struct {
	replid string
	number uint64
}

// A ledger is what an onlooker knows who sees everything.
type ledger struct {
	w        *world
	cutAt    map[frameOf]Time
	grants   []grant
	seq      int
	lastNode int
	opens    []opening
	begun    map[*proc][]attempt // since it decided last
}

// An opening is a node that begins to decide with content from elsewhere.
type opening struct {
	node      int
	term      uint64
	at        Time
	contentAt Time
	partial   bool // the content is not whole: nothing is promised but what others had
	disk      bool // it is from the disk: the same
	reachable []Time
}

// An attempt is how things stood when a promotion began.
type attempt struct {
	at     Time
	others [simNodes]*proc // those that could be reached
	have   [simNodes]Time
	stale  bool
}

func (l *ledger) granted(g grant) {
	l.grants = append(l.grants, g)
	l.lastNode = g.node
}

func (w *world) reaches(a, b int) bool {
	const quick = 20 * time.Millisecond
	return !w.cut[a][b] && !w.cut[b][a] && w.slow[a][b] < quick && w.slow[b][a] < quick
}

// promoting notes how things stand when a node begins to ask the others what they
// have.
func (l *ledger) promoting(p *proc) {
	w := l.w
	a := attempt{at: w.now, stale: p.node.stale()}
	for i, h := range w.nodes {
		o := h.proc
		if o == nil || o == p || o.paused || !w.reaches(p.host.id, i) || !p.node.knows(h.peer().ID) {
			continue
		}
		if o.node.whole && o.node.up.full == "" && !o.node.stale() {
			a.others[i], a.have[i] = o, o.contentTime()
		}
	}
	l.begun[p] = append(l.begun[p], a)
}

// knows says whether a node counts another one among its group.
func (n *Node) knows(id string) bool {
	return n.lead.known[id] != nil || slices.ContainsFunc(n.kin, func(p Peer) bool { return p.ID == id })
}

func (p *proc) setDoors(d Doors) {
	was := p.doors
	p.doors = d
	if d.Role == Leading && was.Role != Leading {
		p.w.logf("n%d leads in term %d, open %v", p.host.id, p.node.term, d.Open)
	}
	if d.Role == Promoting && was.Role != Promoting || d.Role == Leading && was.Role == Following {
		p.w.ledger.promoting(p)
	}
	if d.Open && !was.Open {
		p.w.ledger.opened(p)
	} else if was.Open && !d.Open {
		p.contentAt = p.w.now
		p.w.logf("n%d closes", p.host.id)
	}
	if d.Generation != was.Generation {
		p.tryWaiting()
	}
}

func (l *ledger) opened(p *proc) {
	w := l.w
	w.logf("n%d opens in term %d", p.host.id, p.node.term)
	o := opening{node: p.host.id, term: p.node.term, at: w.now, contentAt: p.contentAt}
	attempts := l.begun[p]
	delete(l.begun, p)
	o.partial = p.node.partial
	o.disk = len(attempts) == 0
	for _, a := range attempts {
		o.disk = o.disk || a.stale
		for i, other := range a.others {
			if other == nil || w.nodes[i].proc != other || other.paused || !w.reaches(p.host.id, i) || w.cutAt[i][p.host.id] > a.at || w.cutAt[p.host.id][i] > a.at || other.pausedAt > a.at {
				continue
			}
			o.reachable = append(o.reachable, a.have[i])
		}
	}
	l.opens = append(l.opens, o)
}

// overlap says which two nodes decided at the same time, if any.
func (l *ledger) overlap() string {
	type lead struct {
		node        int
		term        uint64
		first, last Time
	}
	var leads []lead
	for _, g := range l.grants {
		i := slices.IndexFunc(leads, func(x lead) bool { return x.node == g.node && x.term == g.term })
		if i < 0 {
			leads = append(leads, lead{g.node, g.term, g.at, g.left})
			continue
		}
		leads[i].first, leads[i].last = min(leads[i].first, g.at), max(leads[i].last, g.left)
	}
	for i, a := range leads {
		for _, b := range leads[i+1:] {
			if a.node != b.node && a.first <= b.last && b.first <= a.last {
				return fmt.Sprintf("n%d (term %d, %.4f to %.4f) and n%d (term %d, %.4f to %.4f) decided at the same time",
					a.node, a.term, (a.first - simStart).Seconds(), (a.last - simStart).Seconds(),
					b.node, b.term, (b.first - simStart).Seconds(), (b.last - simStart).Seconds())
			}
		}
	}
	return ""
}

// over says which key was granted more than failovers excuse, if any.
func (l *ledger) over() string {
	slices.SortFunc(l.grants, func(a, b grant) int { return a.seq - b.seq })
	for key := range l.w.conf.keys {
		k := &l.w.conf.keys[key]
		debt := l.debt(int64(key), k)
		var excused int64
		for i := range l.opens {
			lost, why := l.lost(&l.opens[i], int64(key))
			if why != "" {
				return why
			}
			o := &l.opens[i]
			lag := (o.at - o.contentAt).Milliseconds()
			if o.partial {
				excused += lost
				continue
			}
			excused += min(lost, k.burst+(k.rate*lag+999)/1000)
		}
		if debt > excused*1000 {
			return fmt.Sprintf("key %s: %d.%03d tokens too many, %d excused", k.name, debt/1000, debt%1000, excused)
		}
	}
	return ""
}

// debt is how far a bucket that nobody forgets would have been overdrawn, in
// thousandths of a token.
func (l *ledger) debt(key int64, k *simKey) (most int64) {
	credit, last, lastAt := k.burst*1000, int64(0), Time(0)
	for _, g := range l.grants {
		if g.key != key {
			continue
		}
		if last != 0 {
			// A node started again has its own machine's clock, which may be behind.
			passed := max(g.clock-last, (g.at - lastAt + time.Millisecond - 1).Milliseconds())
			credit = min(k.burst*1000, credit+passed*k.rate)
		}
		last, lastAt = g.clock, g.at
		credit -= g.cost * 1000
		most = max(most, -credit)
	}
	return most
}

// lost is how much of a key was granted that a node began without, or why that
// breaks a promise.
func (l *ledger) lost(o *opening, key int64) (sum int64, why string) {
	for _, g := range l.grants {
		if g.key != key || g.at <= o.contentAt || g.seq == 0 || g.at >= o.at || g.node == o.node && g.term == o.term {
			continue
		}
		sum += g.cost
		if l.w.conf.acks == 0 {
			continue
		}
		say := fmt.Sprintf("n%d opens in term %d at %.4f without a grant of n%d at %.4f, its content is of %.4f",
			o.node, o.term, (o.at - simStart).Seconds(), g.node, (g.at - simStart).Seconds(), (o.contentAt - simStart).Seconds())
		if g.acked[o.node] && !o.partial && !o.disk {
			return 0, say + ", though it had acked, as all had"
		}
		for _, have := range o.reachable {
			if have >= g.at {
				return 0, say + ", though one who had acked could be reached"
			}
		}
	}
	return sum, ""
}
