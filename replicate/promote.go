package replicate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rlserver/rlserver/shard"
)

// unfencedWait is how long after the last word of the primary a promoted node
// waits that could not fence it, though it may be alive: until then a Sentinel
// has told it, or it has lost its lease.
const unfencedWait = 4 * time.Second

// A promotion is the time between REPLICAOF NO ONE and the first decision. A
// node that was started asks in the same way what it lacks, but deposes nobody and
// decides later.
type promotion struct {
	began   Time
	primary string // who led until now
	start   bool
	asked   map[LinkID]bool
	askedAt Time // last
	again   int  // how often a node was asked again, since the link broke
	found   []*found
	taking  *found
	fenced  bool // the primary decides no more
	last    bool // and has sent its last frames: nobody has any more
	took    bool // all of another node's content
	led     bool // somebody else leads
}

// A found is the answer of a node whose frames do not follow on those of this
// one: all it has may be had.
type found struct {
	link *link
	pulled
	staged []byte // chunks that are not applied yet
	begun  bool   // the store is of this content, in part
}

// compare orders contents by their age, the youngest last.
func (f *found) compare(g *found) int {
	return cmp.Or(cmp.Compare(f.lead, g.lead), cmp.Compare(f.flags&flagAll, g.flags&flagAll), cmp.Compare(f.head, g.head))
}

// maxAgain bounds promotion.again.
const maxAgain = 8

// stageMost is how much of another node's content is kept until it has come
// whole. More is applied as it comes: if the link then ends a part is left.
const stageMost = 64 << 20

func (n *Node) onLead() {
	if n.role != Following {
		return
	}
	n.knowKin()
	n.watch.untold = true
	n.watch.judgedSince(n.now, n.c.FenceAfter)
	n.promote(n.up.primary)
}

func (n *Node) promote(primary string) {
	n.role = Promoting
	n.touch()
	n.shut()
	n.promo = &promotion{began: n.now, primary: primary, asked: map[LinkID]bool{}}
	n.raise(n.term + 1)
	n.note("is being promoted, in term %d", n.term)
	n.up.settling = false
	n.promo.fenced = primary == ""
	if l := n.up.link; l != nil && n.up.synced {
		n.promo.asked[l.id], n.promo.askedAt = true, n.now
		n.send(l, appendPull(nil, pull{n.term, n.c.Self}))
	} else {
		if l != nil {
			n.hangup(l)
		}
		n.up.link = nil
		if primary != "" {
			n.askPeer(primary)
		}
	}
	for _, p := range n.lead.peers() {
		if p.Addr != primary {
			n.askPeer(p.Addr)
		}
	}
	n.tickPromotion()
}

// askAround asks the other nodes, after a start, who leads and what this one
// lacks.
func (n *Node) askAround() {
	n.role = Promoting
	n.touch()
	n.promo = &promotion{began: n.now, start: true, fenced: true, asked: map[LinkID]bool{}}
	for _, p := range n.lead.peers() {
		n.askPeer(p.Addr)
	}
	n.tickPromotion()
}

// knowKin takes the other nodes of the group for replicas of this one.
func (n *Node) knowKin() {
	n.lead = leading{known: map[string]*replica{}, asked: n.lead.asked, done: n.lead.done, alone: n.now}
	for _, p := range n.kin {
		if len(n.lead.known) < maxPeers {
			n.lead.known[p.ID] = &replica{peer: p, counts: p.Addr != n.up.primary, seen: n.now}
		}
	}
}

// askPeer dials a node and asks it for what is newer.
func (n *Node) askPeer(addr string) {
	replid, term := n.replid, n.term
	if !n.whole || replid == "" {
		replid = "?"
	}
	if n.promo.start {
		term = 0
	}
	l := n.dial(toAsked, addr, "RL.PULL", replid, fmt.Sprint(n.log.head()), fmt.Sprint(term))
	n.promo.asked[l.id], n.promo.askedAt = true, n.now
}

func (n *Node) onAskedLine(l *link, text string) {
	if text != "+PULL" {
		n.lost(l, "it answers %.200q", text)
	}
}

// onPulled is the end of what an asked node had.
func (n *Node) onPulled(l *link, f *frame) error {
	a, err := readPulled(f)
	if err == nil && !n.believable(a.term) {
		err = errFrame
	}
	if err != nil {
		return err
	}
	p := n.promo
	switch {
	case p == nil:
		n.relayed(l, a)
		return nil
	case a.flags&flagStale != 0:
		// Another promotion got further. Sentinel wants this one now.
		n.raise(a.term)
		n.askAgain()
		return nil
	case a.flags&flagLed != 0:
		p.led = true
		if d := n.watch.doubt; d != nil && !d.led {
			d.led = true
			n.warn("%s leads, or follows who does: this node waits to be told whom to follow", l.peer.Addr)
		}
		n.answered(l)
		return nil
	}
	if a.term >= n.term && p.start {
		n.raise(a.term + 1)
	}
	p.fenced = p.fenced || a.flags&flagFenced != 0 || l.peer.Addr == p.primary
	switch {
	case a.flags&flagOther == 0:
		n.content.term = max(n.content.term, a.lead)
		n.touch()
		p.last = p.last || a.flags&flagSure != 0
	case a.flags&flagWhole != 0 && n.younger(&a):
		p.found = append(p.found, &found{link: l, pulled: a})
	}
	n.answered(l)
	return nil
}

func (n *Node) answered(l *link) {
	if d := n.watch.doubt; d != nil && d.start && !n.promo.led {
		d.heard[l.peer.Addr] = true
	}
	delete(n.promo.asked, l.id)
	n.tickPromotion()
}

// younger says whether another content has more than this node's.
func (n *Node) younger(a *pulled) bool {
	if !n.whole || a.lead != n.content.term {
		return !n.whole || a.lead > n.content.term
	}
	return !n.all && (a.flags&flagAll != 0 || a.head > n.log.head())
}

// take asks for all that the node has whose content is the youngest, if it is
// younger than this one's.
func (n *Node) take() bool {
	p := n.promo
	var best *found
	for _, f := range p.found {
		if n.younger(&f.pulled) && (best == nil || f.compare(best) > 0) {
			best = f
		}
	}
	if best == nil {
		return false
	}
	n.note("takes all from %s, which has frames up to %d of the lead of term %d", best.link.peer.Addr, best.head, best.lead)
	p.taking = best
	best.link.heard = n.now
	n.send(best.link, appendFull(nil))
	return true
}

// takesFrom says whether a link brings all that another node has.
func (n *Node) takesFrom(l *link) bool {
	return n.promo != nil && n.promo.taking != nil && n.promo.taking.link == l
}

func (n *Node) onTakenChunk(_ *link, f *frame) error {
	t := n.promo.taking
	t.staged = append(t.staged, f.raw...)
	if len(t.staged) < n.stage {
		return nil
	}
	return n.applyTaken(t)
}

// applyTaken makes the store what has come of another one.
func (n *Node) applyTaken(t *found) error {
	if !t.begun {
		t.begun, n.up.fresh = true, false
		n.whole = false
		n.replid, n.replid2, n.end2 = t.replid, "", 0
		if t.flags&flagFenced != 0 {
			// Commands that were under way may have changed something after its last frame.
			n.replid = ""
		}
		n.log.reset(t.head + 1)
		n.apply(Apply{Wipe: shard.WipeAll})
	}
	raw := t.staged
	t.staged = nil
	for len(raw) > 0 {
		f, need, err := nextFrame(raw)
		if err != nil || need > 0 {
			return errFrame
		}
		clock, changes, err := readChunk(&f, nil)
		if err != nil {
			return err
		}
		n.hearClock(clock)
		n.apply(Apply{shard.WipeNothing, changes})
		raw = raw[len(f.raw):]
	}
	return nil
}

func (n *Node) onTakenWhole(l *link, f *frame) error {
	number, err := readWhole(f)
	if err != nil {
		return err
	}
	p := n.promo
	t := p.taking
	if number != t.head {
		return errFrame
	}
	if err := n.applyTaken(t); err != nil {
		return err
	}
	n.whole, n.content.term, n.unclean, n.all = true, t.lead, false, false
	n.touch()
	p.taking, p.found = nil, nil
	p.last, p.took = t.flags&flagSure != 0, true
	n.note("has all that %s had", l.peer.Addr)
	n.tickPromotion()
	return nil
}

func (n *Node) hangupAsked(l *link) {
	if n.up.link == l {
		n.up.link = nil
	}
	n.hangup(l)
}

// askAgain begins a promotion anew, in a higher term.
func (n *Node) askAgain() {
	began, primary := n.promo.began, n.promo.primary
	n.dropAsked()
	n.promo = nil
	n.role = Following
	n.touch()
	n.up.primary = primary
	n.onLead()
	n.promo.began = began
}

func (n *Node) dropAsked() {
	for _, l := range n.sortedLinks() {
		if n.promo.asked[l.id] || l.kind == toAsked || l.kind == toPrimary {
			n.hangupAsked(l)
		}
	}
}

// askedGone notes that an asked node will not answer.
func (n *Node) askedGone(l *link, refused bool) {
	p := n.promo
	if p == nil {
		return
	}
	p.found = slices.DeleteFunc(p.found, func(f *found) bool { return f.link == l })
	if refused && l.peer.Addr == p.primary && p.asked[l.id] {
		p.fenced = true // its process is gone, and starts in doubt
	}
	broke := p.asked[l.id] && n.now-p.began < pullWait || n.takesFrom(l)
	delete(p.asked, l.id)
	if n.takesFrom(l) {
		p.taking = nil
	}
	if broke && !refused && p.again < maxAgain {
		p.again++
		n.askPeer(l.peer.Addr)
	}
	n.tickPromotion()
}

// tickPromotion opens the doors when all that can be had is there and the
// primary decides no more, as far as can be known.
func (n *Node) tickPromotion() {
	p := n.promo
	if p == nil {
		return
	}
	switch {
	case p.taking != nil:
		return
	case p.last:
	case n.waitsForAnswers():
		return
	case n.take():
		return
	case p.start:
		n.endAsking()
		return
	case p.fenced:
	case n.up.heard == 0 && n.now-p.began < unfencedWait:
		return // it never heard the primary, so that its silence says nothing
	case n.up.heard != 0 && p.began-n.up.heard < n.c.FenceAfter && n.now-n.up.heard < unfencedWait:
		return
	}
	n.open()
}

// waitsForAnswers says whether who was asked may still answer in time.
func (n *Node) waitsForAnswers() bool {
	p := n.promo
	silent := n.up.heard != 0 && p.began-n.up.heard >= n.c.FenceAfter
	for id := range p.asked {
		wait := pullWait
		if l := n.links[id]; silent && l != nil && l.peer.Addr == p.primary {
			wait = silentWait
		}
		if n.now-p.askedAt < wait {
			return true
		}
	}
	return false
}

// endAsking ends the questions after a start: in doubt still, the node has what
// the others had.
func (n *Node) endAsking() {
	d, led, took := n.watch.doubt, n.promo.led, n.promo.took
	n.dropAsked()
	n.promo, n.role = nil, Leading
	n.touch()
	if took && n.feed {
		n.dropReplicas()
		n.beginHistory()
	}
	n.lead.release = n.log.head()
	d.asked, d.askAt = !led, n.now+askEvery
}

// open makes a promoted node the primary.
func (n *Node) open() {
	n.dropAsked()
	began := n.promo.began
	n.promo, n.role = nil, Leading
	n.touch()
	n.replid2, n.end2 = n.replid, n.log.head()
	n.replid = n.c.NewID()
	n.partial = !n.whole
	switch {
	case n.partial:
		n.warn("leads with a part of the content only: a full sync was under way")
		n.whole = true
		n.beginHistory()
	case n.stale():
		n.warn("leads with what was on its disk: it has followed nobody since it was started")
		n.beginHistory()
	case n.replid2 == "":
		n.beginHistory()
	}
	n.up = following{changes: n.up.changes}
	n.emit(StoreFollows{false})
	n.feedOn(true)
	n.beginLead()
	n.note("leads in term %d, from %d, after %v", n.term, n.log.head(), n.now-began)
	n.watchLease()
}

// beginLead notes that from now on the content is of this node's own lead.
func (n *Node) beginLead() {
	n.dropTakers()
	n.lead.alone, n.lead.release = n.now, n.log.head()
	n.content = lead{n.term, n.log.head()}
	n.unclean, n.behind, n.all = false, false, false
	n.touch()
}
