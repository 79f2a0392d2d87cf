package replicate

import (
	"fmt"
	"time"
)

// unfencedWait is how long after the last word of the primary a promoted node
// waits that could not fence it, though it may be alive: until then a Sentinel
// has told it, or it has lost its lease.
const unfencedWait = 4 * time.Second

// A promotion is the time between REPLICAOF NO ONE and the first decision.
type promotion struct {
	began   Time
	primary string // who led until now
	asked   map[LinkID]bool
	fenced  bool // the primary decides no more
	last    bool // and has sent its last frames: nobody has any more
}

func (n *Node) onLead() {
	if n.role != Following {
		return
	}
	n.role = Promoting
	n.touch()
	n.shut()
	n.knowSiblings()
	n.raise(n.term + 1)
	n.promo = &promotion{began: n.now, primary: n.up.primary, asked: map[LinkID]bool{}}
	n.note("is being promoted, in term %d", n.term)
	n.up.settling = false
	if n.up.primary == "" {
		n.promo.fenced = true
	}
	if l := n.up.link; l != nil && n.up.synced {
		n.promo.asked[l.id] = true
		n.send(l, appendPull(nil, pull{n.term, n.c.Self}))
	} else {
		if l != nil {
			n.hangup(l)
		}
		n.up.link = nil
		n.askPeer(n.up.primary)
	}
	for _, p := range n.lead.peers() {
		n.askPeer(p.Addr)
	}
	n.tickPromotion()
}

// knowSiblings takes those who followed the same primary for replicas of this
// node.
func (n *Node) knowSiblings() {
	n.lead = leading{known: map[string]*replica{}, asked: n.lead.asked, done: n.lead.done, alone: n.now}
	for _, s := range n.up.peers {
		if s.ID != n.c.Self.ID && len(n.lead.known) < maxPeers {
			n.lead.known[s.ID] = &replica{peer: s, counts: true, seen: n.now}
		}
	}
}

// askPeer dials a node and asks it for what is newer.
func (n *Node) askPeer(addr string) {
	replid := n.replid
	if !n.whole {
		replid = "?"
	}
	l := n.dial(toAsked, addr, "RL.PULL", replid, fmt.Sprint(n.log.head()), fmt.Sprint(n.term))
	n.promo.asked[l.id] = true
}

func (n *Node) onAskedLine(l *link, text string) {
	if text != "+PULL" {
		n.lost(l, "it answers %.200q", text)
	}
}

// onPulled is the end of what an asked node had.
func (n *Node) onPulled(l *link, f *frame) error {
	p, err := readPulled(f)
	if err != nil {
		return err
	}
	if n.promo == nil {
		n.relayed(l, p)
		return nil
	}
	if p.flags&flagStale != 0 {
		// Another promotion got further. Sentinel wants this one now.
		n.raise(p.term)
		n.askAgain()
		return nil
	}
	if p.flags&flagOther != 0 && p.head > n.log.head() {
		n.warn("%s has frames up to %d, which do not follow on %d", l.peer.Addr, p.head, n.log.head())
	}
	if p.flags&flagFenced != 0 {
		n.promo.fenced = true
		n.promo.last = n.promo.last || p.flags&flagOther == 0
	}
	delete(n.promo.asked, l.id)
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
	if n.promo == nil || !n.promo.asked[l.id] {
		return
	}
	delete(n.promo.asked, l.id)
	if refused && l.peer.Addr == n.promo.primary {
		n.promo.fenced = true // its process is gone, and starts in doubt
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
	waited := n.now - p.began
	switch {
	case p.last:
	case len(p.asked) > 0 && waited < pullWait:
		return
	case p.fenced:
	case n.up.heard != 0 && p.began-n.up.heard < n.c.FenceAfter && n.now-n.up.heard < unfencedWait:
		return
	}
	n.open()
}

// open makes a promoted node the primary.
func (n *Node) open() {
	n.dropAsked()
	began := n.promo.began
	n.promo, n.role = nil, Leading
	n.touch()
	n.replid2, n.end2 = n.replid, n.log.head()
	n.replid = n.c.NewID()
	switch {
	case !n.whole:
		n.warn("leads with a part of the content only: a full sync was under way")
		n.whole = true
		n.beginHistory()
	case n.replid2 == "":
		n.warn("leads with what was on its disk: it has followed nobody since it was started")
		n.beginHistory()
	}
	n.lead.alone, n.lead.release = n.now, n.log.head()
	n.up = following{changes: n.up.changes}
	n.emit(StoreFollows{false})
	n.feedOn(true)
	n.note("leads in term %d, from %d, after %v", n.term, n.log.head(), n.now-began)
	n.watchLease()
}
