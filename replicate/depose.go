package replicate

import (
	"fmt"
	"strings"
	"time"
)

const (
	// pullHold is how long a replica that has answered a pull does not go back to
	// its primary: it is about to be told to follow who asked.
	pullHold = 3 * time.Second
	// quietMost ends a link that serves an answered pull.
	quietMost = 10 * time.Second
)

// A deposition is the end of this node's lead: the last round is cut, told to
// those who are to have it, and then it follows another.
type deposition struct {
	to    string // address of who leads now
	link  *link  // of who asked, nil if nobody did
	cut   uint64 // the last one
	flags byte   // of the answer to who asked
}

func (n *Node) onFollow(addr string) {
	switch {
	case n.c.Mine(addr):
		n.warn("is told to follow itself, and does not")
	case n.depose != nil:
		n.depose.to = addr
	case n.role != Following:
		n.abdicate(addr, nil)
	case addr != n.up.primary:
		n.note("follows %s", addr)
		n.follow(addr)
	default:
		n.up.hold = 0
	}
}

// abdicate closes the doors at once and makes the node a replica of to.
func (n *Node) abdicate(to string, by *link) {
	if n.depose != nil {
		return
	}
	n.shut()
	n.depose = &deposition{to: to, link: by, cut: n.lead.done}
	switch d := n.watch.doubt; {
	case n.role != Leading || d != nil && d.start:
	case d != nil:
		n.depose.flags = flagFenced
	default:
		n.depose.flags = flagFenced | flagSure
	}
	if n.promo != nil {
		n.dropAsked()
		n.promo = nil
	} else if n.feed {
		n.depose.cut = n.cut()
	}
	n.deposeCut(false)
}

// deposeCut goes on when a round was cut.
func (n *Node) deposeCut(changed bool) {
	switch {
	case n.depose != nil && n.lead.done >= n.depose.cut:
		n.endDeposition()
	case n.role == Following && n.up.settling:
		if changed && n.replid != "" {
			n.note("commands under way have changed something after the last frame")
			n.replid, n.replid2 = "", ""
		}
		if n.up.probe != 0 && n.lead.done >= n.up.probe {
			n.endSettling()
		}
	}
}

func (n *Node) endDeposition() {
	d, led := n.depose, n.role == Leading
	n.depose = nil
	if l := d.link; l != nil && n.links[l.id] == l {
		n.retireLink(l)
		n.answerPull(l, d.flags)
		n.answerAsker(d)
	}
	n.dropReplicas()
	n.kin = n.lead.peers()
	n.lead.known = map[string]*replica{}
	n.behind = true
	n.touch()
	n.watch.doubt = nil
	n.emit(CloseClients{})
	n.note("follows %s from now on", d.to)
	n.follow(d.to)
	n.up.settling, n.up.settleAt = led, n.now+settle
	if !led {
		n.endSettling()
	}
}

// answerAsker gives who is being promoted the last frames and the end on its own
// link too, if this node has heard of it on another's first: of a link that is hung
// up what was sent may be lost.
func (n *Node) answerAsker(d *deposition) {
	for _, l := range n.sortedLinks() {
		if l.kind == toReplica && l.peer.ID == n.asker.ID {
			n.retireLink(l)
			n.answerPull(l, d.flags)
		}
	}
}

// retireLink makes a replica's link one that only serves the pull.
func (n *Node) retireLink(l *link) {
	if l.kind == toReplica {
		n.replicaGone(l)
	}
	l.kind, l.quiet, l.heard = toAsker, true, n.now
}

// answerPull sends what is newer than what the other side has, and the end.
func (n *Node) answerPull(l *link, flags byte) {
	if l.state != live {
		flags |= flagOther
		l.state = live
		l.next = n.log.next
	}
	if n.whole && n.up.full == "" {
		flags |= flagWhole
	}
	if n.all {
		flags |= flagAll
	}
	l.pulled = &pulled{n.term, n.log.head(), n.content.term, n.replid, flags}
	n.pump(l)
}

// onFull begins to send all that there is to who is being promoted. Nothing is
// applied meanwhile, or the link ends.
func (n *Node) onFull(l *link, f *frame) error {
	started := n.role == Leading && n.watch.doubt != nil && n.watch.doubt.start
	if len(f.body) > 0 || l.state != idle || !n.whole || n.up.full != "" || n.role != Following && !started {
		return errFrame
	}
	n.note("%s takes all that this node has", l.peer.Addr)
	l.state = walking
	n.emit(BeginWalk{l.id})
	n.pump(l)
	return nil
}

// onAsked is a pull on a connection of its own.
func (n *Node) onAsked(m Asked) {
	if len(n.links) >= maxLinks || !n.believable(m.Term) {
		n.emit(Hangup{m.Link})
		return
	}
	l := n.addLink(m.Link, toAsker, m.From)
	l.quiet = true
	n.send(l, []byte("+PULL\r\n"))
	if n.whole && n.up.full == "" && m.Replid == n.replid && n.replid != "" && n.log.follows(m.Offset) {
		l.state, l.next = live, m.Offset+1
	}
	if m.Term == 0 {
		n.onQuestion(l)
		return
	}
	n.pulledBy(l, pull{m.Term, m.From})
}

// onQuestion answers a node that was started: it wants to know who leads, and
// what it lacks, and deposes nobody.
func (n *Node) onQuestion(l *link) {
	d := n.watch.doubt
	leads := n.role == Leading && (d == nil || !d.start) || n.role == Promoting && !n.promo.start
	led := n.role == Following && n.up.link != nil && n.up.synced && !strings.EqualFold(n.up.primary, l.peer.Addr)
	if leads || led || n.depose != nil {
		n.answerPull(l, flagLed)
		return
	}
	n.answerPull(l, 0)
}

// onPull is a pull on the link of a replica.
func (n *Node) onPull(l *link, f *frame) error {
	p, err := readPull(f)
	if err != nil {
		return err
	}
	if !n.believable(p.term) {
		return errFrame
	}
	if p.by.ID == n.c.Self.ID {
		return fmt.Errorf("%w: a pull by this node", errFrame)
	}
	n.pulledBy(l, p)
	return nil
}

// pulledBy obeys a node that is being promoted: from now on nothing counts that
// comes from a lower term.
func (n *Node) pulledBy(l *link, p pull) {
	if p.term < n.term || p.term == n.term && p.by.ID != n.asker.ID {
		n.answerPull(l, flagStale)
		return
	}
	n.asker = p.by
	n.raise(p.term)
	n.note("%s is being promoted in term %d", p.by.Addr, p.term)
	if n.role == Leading {
		n.abdicate(p.by.Addr, l)
		return
	}
	if n.role == Promoting {
		n.abdicate(p.by.Addr, nil)
	}
	n.answerPull(l, 0)
	n.behind = true
	n.touch()
	up := n.up.link
	if up == nil {
		return
	}
	n.up.link, n.up.hold = nil, n.now+pullHold
	n.up.downAt = n.now
	if !n.up.synced {
		n.hangup(up)
		return
	}
	// The primary may hear of it here only.
	up.quiet, up.relay = true, l.id
	n.send(up, appendPull(nil, p))
}

// relayed is the end of a pull that was passed on to the primary: it decides no
// more, and who asked is told.
func (n *Node) relayed(l *link, p pulled) {
	if l.relay == 0 {
		return
	}
	if to := n.links[l.relay]; to != nil && p.flags&flagFenced != 0 {
		n.send(to, appendPulled(nil, pulled{term: p.term, head: p.head, flags: flagFenced | flagOther}))
	}
	n.hangup(l)
}
