package replicate

import (
	"fmt"
	"slices"

	"github.com/rlserver/rlserver/shard"
)

// following is what a replica knows of its primary.
type following struct {
	primary string // address
	link    *link
	synced  bool   // the answer to RL.SYNC has come
	full    string // history of a full sync of which nothing was applied yet
	from    uint64 // its number
	lead    lead   // of what the primary sends
	fresh   bool   // no clock was heard on this link yet
	stamp   uint64 // of the last beat
	heard   Time   // when the primary said something last; 0 = never
	downAt  Time   // since when there is no link
	redial  Time
	backoff Time
	// settleAt: a node that was deposed does not follow before; probe is the cut
	// that shows whether commands under way then changed anything.
	settling bool
	settleAt Time
	probe    uint64
	// hold: a node that has answered a pull does not go back to its primary before.
	hold    Time
	ackedAt Time
	owes    bool           // the ack of a frame nobody waits for
	changes []shard.Change // room
}

// follow makes the node a replica of addr, or of another one than until now.
func (n *Node) follow(addr string) {
	if n.up.link != nil {
		n.hangup(n.up.link)
	}
	settling, at := n.up.settling, n.up.settleAt
	n.up = following{primary: addr, downAt: n.now, settling: settling, settleAt: at, changes: n.up.changes}
	n.role, n.behind = Following, true
	n.touch()
}

func (n *Node) tickFollowing() {
	if n.role != Following {
		return
	}
	if n.up.settling {
		n.tickSettling()
		return
	}
	n.payAck()
	if n.up.link == nil && n.now >= n.up.redial && n.now >= n.up.hold {
		replid, offset := n.replid, n.log.head()
		if !n.whole || replid == "" {
			replid, offset = "?", 0
		}
		n.up.link = n.dial(toPrimary, n.up.primary, "RL.SYNC", replid, fmt.Sprint(offset), fmt.Sprint(n.term))
		n.up.synced, n.up.full, n.up.fresh = false, "", true
	}
}

// tickSettling looks, once nobody decides any more, whether the store is still
// what the last frame left.
func (n *Node) tickSettling() {
	switch {
	case n.now < n.up.settleAt || n.up.probe != 0:
	case !n.feed:
		n.endSettling()
	default:
		n.up.probe = n.cut()
	}
}

func (n *Node) endSettling() {
	n.up.settling, n.up.probe = false, 0
	n.feedOn(false)
	n.emit(StoreFollows{true})
}

func (n *Node) primaryGone(l *link, refused bool) {
	if n.up.link != l {
		return
	}
	n.up.link = nil
	n.up.downAt = n.now
	n.up.backoff = min(max(2*n.up.backoff, redialFirst), redialMost)
	n.up.redial = n.now + n.up.backoff
}

func (n *Node) onLine(m Line) {
	l := n.links[m.Link]
	if l == nil {
		return
	}
	l.heard = n.now
	if l.kind == toAsked {
		n.onAskedLine(l, m.Text)
		return
	}
	if l.kind != toPrimary || n.up.synced {
		n.lost(l, "an answer to no question: %.80q", m.Text)
		return
	}
	a, err := readSyncAnswer(m.Text)
	switch {
	case err != nil, !a.full && !n.whole, !n.believable(a.term):
		n.lost(l, "it answers %.200q", m.Text)
		return
	case a.term < n.term:
		n.lost(l, "it leads in term %d, which is over: this node knows of %d", a.term, n.term)
		return
	}
	n.raise(a.term)
	n.up.synced, n.up.backoff, n.up.heard, n.up.lead = true, 0, n.now, a.lead
	if !a.full {
		n.replid, n.replid2, n.end2 = a.replid, "", 0
		n.note("follows %s on after %d", n.up.primary, n.log.head())
		n.inStep()
		n.acknowledge()
		return
	}
	n.up.full, n.up.from = a.replid, a.number
	n.note("full sync from %s", n.up.primary)
}

// beginFull forgets what the store had when the first of a full sync is there.
func (n *Node) beginFull() {
	if n.up.full == "" {
		return
	}
	n.replid, n.replid2, n.end2 = n.up.full, "", 0
	n.up.full = ""
	n.whole = false
	n.log.reset(n.up.from + 1)
	n.apply(Apply{Wipe: shard.WipeAll})
}

// onChanges takes a part of a frame, and applies the frame when it has come
// whole.
func (n *Node) onChanges(l *link, f *frame) error {
	if n.ignores(l) {
		return nil
	}
	h, _, err := readChangesHead(f)
	if err != nil {
		return err
	}
	if l.kind == toPrimary {
		n.beginFull()
		n.up.heard = n.now
		n.hearClock(h.clock)
	}
	if len(l.parts)+len(f.raw) > maxRoundBytes {
		return fmt.Errorf("%w: longer than %d bytes", errFrame, maxRoundBytes)
	}
	l.parts = append(l.parts, f.raw...)
	if h.more {
		return nil
	}
	raw := l.parts
	l.parts = nil
	switch {
	case h.number <= n.log.head() && l.kind == toAsked:
		return nil // another one had it too
	case h.number != n.log.next:
		return fmt.Errorf("%w: frame %d after %d", errFrame, h.number, n.log.head())
	}
	h, n.up.changes, err = readRound(raw, n.up.changes[:0])
	if err != nil {
		return err
	}
	wipe := shard.WipeNothing
	if h.wipe {
		wipe = shard.WipeKeys
	}
	n.apply(Apply{wipe, n.up.changes})
	n.log.append(raw, n.now)
	if l.kind == toPrimary {
		n.inStep()
		if n.up.owes = h.later; h.later {
			n.payAck()
		} else {
			n.acknowledge()
		}
	}
	return nil
}

// ignores says that what comes on a link counts no more: another node is being
// promoted, or this one is and has said so on another link.
func (n *Node) ignores(l *link) bool {
	return l.quiet || l.kind == toPrimary && n.up.link != l
}

func (n *Node) onChunk(l *link, f *frame) error {
	if n.ignores(l) {
		return nil
	}
	n.up.heard = n.now
	n.beginFull()
	if n.whole {
		return errFrame
	}
	clock, changes, err := readChunk(f, n.up.changes[:0])
	if err != nil {
		return err
	}
	n.up.changes = changes
	n.hearClock(clock)
	n.apply(Apply{shard.WipeNothing, changes})
	return nil
}

func (n *Node) onWhole(l *link, f *frame) error {
	if n.ignores(l) {
		return nil
	}
	number, err := readWhole(f)
	if err != nil {
		return err
	}
	n.up.heard = n.now
	n.beginFull()
	if n.whole || number != n.log.head() {
		return errFrame
	}
	n.whole = true
	n.note("full sync done, at %d", number)
	n.inStep()
	n.acknowledge()
	return nil
}

func (n *Node) onBeat(l *link, f *frame) error {
	if n.ignores(l) {
		return nil
	}
	b, err := readBeat(f)
	if err == nil && !n.believable(b.term) {
		err = errFrame
	}
	if err != nil {
		return err
	}
	if b.term < n.term && n.promo != nil {
		return nil // it was sent before this node's pull had arrived
	}
	if b.term < n.term {
		return fmt.Errorf("term %d is over: this node knows of %d", b.term, n.term)
	}
	n.raise(b.term)
	n.up.heard = n.now
	n.hearClock(b.clock)
	n.up.stamp, n.up.lead = b.stamp, b.lead
	n.meetKin(b.peers)
	n.inStep()
	n.acknowledge()
	return nil
}

// meetKin notes who the other nodes of the group are.
func (n *Node) meetKin(peers []Peer) {
	kin := slices.DeleteFunc(peers, func(p Peer) bool { return p.ID == n.c.Self.ID })
	if !slices.Equal(kin, n.kin) {
		n.kin = kin
		n.touch()
	}
}

// inStep notes whose content this node has once it has all that the lead began
// with.
func (n *Node) inStep() {
	if n.up.link == nil || !n.up.synced || n.up.full != "" || !n.whole || n.log.head() < n.up.lead.from {
		return
	}
	if n.content.term != n.up.lead.term || n.behind {
		n.content, n.behind, n.all = n.up.lead, false, false
		n.touch()
	}
}

// payAck acknowledges what nobody waits for, now and then.
func (n *Node) payAck() {
	if n.up.owes && n.now-n.up.ackedAt >= ackEvery {
		n.acknowledge()
	}
}

// acknowledge says what the store has, after the effects that made it have it.
// Before a full sync is complete it has nothing.
func (n *Node) acknowledge() {
	if n.up.link == nil || n.promo != nil {
		return
	}
	a := ack{stamp: n.up.stamp}
	if n.whole && n.up.full == "" {
		a.number = n.log.head()
	}
	n.up.ackedAt, n.up.owes = n.now, false
	n.send(n.up.link, appendAck(nil, a))
}

// hearClock brings this node's clock in step with the primary's. Of all that is
// heard on a link what was least under way counts: it says the latest time.
func (n *Node) hearClock(clock int64) {
	base := clock - n.now.Milliseconds()
	if n.up.fresh || base > n.clockBase {
		n.up.fresh = false
		n.clockBase = base
		n.emit(SetClock{base})
	}
}

// maxTermStep is how far terms of two nodes may be apart: what is more no lead has come to.
const maxTermStep = 1 << 32

// believable says whether another node may know of a term. Terms are kept and told on, so one near the end of numbers would be the last.
func (n *Node) believable(term uint64) bool { return term <= n.term+maxTermStep }

// raise notes a term.
func (n *Node) raise(term uint64) {
	if term > n.term {
		n.term = term
		n.touch()
		n.persist()
	}
}
