package replicate

import (
	"fmt"
	"slices"
	"strings"
)

// leading is what a primary knows of its replicas.
type leading struct {
	known   map[string]*replica // by id
	asked   uint64              // cuts asked for
	done    uint64              // cuts answered
	cutAt   Time
	beatAt  Time
	alone   Time   // since when no replica is attached
	release uint64 // as told
	wanted  bool   // somebody waits for an ack of the next frame
}

// A replica is one that follows this node, attached or not.
type replica struct {
	peer   Peer
	link   *link // nil while it is not attached
	online bool  // what it acks is whole content
	counts bool  // for AckAll: it may be promoted with what it has
	acked  uint64
	stamp  Time // of the beat it has answered last
	seen   Time // when it was attached last
}

// sending is how far a link has been sent to.
type sending struct {
	state  sendState
	next   uint64  // number of the frame to send next
	flight int     // bytes sent and not left
	endCut uint64  // the cut after which a full sync is complete
	pulled *pulled // to be sent when all frames up to its head were
}

type sendState byte

const (
	idle    sendState = iota
	walking           // a full sync, more chunks to come
	reading           // the same, a chunk was asked for
	ending            // all chunks were sent, not yet all frames
	live              // frames only
)

// peers are the known replicas, by id.
func (l *leading) peers() []Peer {
	var all []Peer
	for _, r := range l.known {
		all = append(all, r.peer)
	}
	slices.SortFunc(all, func(a, b Peer) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// beginHistory gives what the store is from now on a name of its own. Numbers
// go on above the clock's microseconds, so that those of a younger history are
// larger, whoever began it: Sentinel compares them.
func (n *Node) beginHistory() {
	n.replid, n.replid2, n.end2 = n.c.NewID(), "", 0
	n.log.reset(max(n.log.next, uint64(max(n.clock(), 0))*1000))
	n.content.from = n.log.head()
}

func (n *Node) feedOn(on bool) {
	if n.feed != on {
		n.feed = on
		n.emit(Feed{on})
	}
}

func (n *Node) onAttach(m Attach) {
	refuse := func(format string, a ...any) {
		n.emit(Send{m.Link, fmt.Appendf(nil, "-"+format+"\r\n", a...)})
		n.emit(Hangup{m.Link})
	}
	switch {
	case n.role != Leading || n.depose != nil:
		refuse("ERR this node is no primary now")
		return
	case n.notReady():
		refuse("LOADING this node was not stopped cleanly and does not know yet who leads")
		return
	case !n.admits(&m):
		refuse("LOADING this node does not know yet who leads")
		return
	case !n.believable(m.Term):
		refuse("ERR no node has led in term %d", m.Term)
		return
	case m.From.ID == n.c.Self.ID:
		refuse("ERR a node cannot follow itself")
		return
	case len(n.lead.known) >= maxPeers && n.lead.known[m.From.ID] == nil, len(n.links) >= maxLinks:
		refuse("ERR too many replicas")
		return
	}
	if m.Term > n.term || m.Term == n.term && !n.continues(m.Replid, m.Offset) {
		// It was asked by a node that then did not become the primary, or knows of a
		// lead that this node does not. What it acknowledges is to be younger.
		n.raise(m.Term + 1)
		if d := n.watch.doubt; d == nil || !d.start {
			n.content = lead{n.term, n.log.head()}
			n.touch()
		}
	}
	if !n.feed {
		n.feedOn(true)
		n.beginHistory()
	}
	r := n.lead.known[m.From.ID]
	if r == nil {
		r = &replica{}
		n.lead.known[m.From.ID] = r
		n.replaced(m.From)
	}
	if r.link != nil {
		n.hangup(r.link)
	}
	l := n.addLink(m.Link, toReplica, m.From)
	n.touch()
	*r = replica{peer: m.From, link: l, counts: true, stamp: r.stamp, seen: n.now}
	if n.continues(m.Replid, m.Offset) {
		l.state, l.next = live, m.Offset+1
		r.online, r.acked = true, m.Offset
		n.send(l, appendSyncAnswer(nil, syncAnswer{false, n.replid, m.Offset, n.term, n.content}))
		n.partialSyncs++
		n.note("replica %s goes on after %d", m.From.Addr, m.Offset)
	} else {
		l.state, l.next = walking, n.log.next
		n.send(l, appendSyncAnswer(nil, syncAnswer{true, n.replid, n.log.head(), n.term, n.content}))
		n.emit(BeginWalk{l.id})
		n.fullSyncs++
		n.note("full sync for replica %s, from %d", m.From.Addr, n.log.head())
	}
	n.beatTo(l)
	n.pump(l)
	n.releaseAcked()
}

// replaced forgets who was at the address of a replica that is new: a server without
// the data of the one before it. Nobody else is ever forgotten.
func (n *Node) replaced(by Peer) {
	for id, r := range n.lead.known {
		if id != by.ID && r.link == nil && r.peer.Addr == by.Addr {
			delete(n.lead.known, id)
			n.note("replica %s is another one than before, which is forgotten", by.Addr)
		}
	}
}

// admits says whether a replica may take this node's content for its own: not
// before it was asked whether it has a younger one.
func (n *Node) admits(m *Attach) bool {
	d := n.watch.doubt
	if d != nil && m.Term > n.term {
		n.askFirst(d) // it has obeyed somebody else
	}
	switch {
	case d == nil || !d.start:
		return true
	case d.asked && (d.heard[m.From.Addr] || n.lead.known[m.From.ID] == nil):
		return true
	case d.asked:
		d.asked, d.heard[m.From.Addr] = false, true
	}
	return false
}

// continues says whether the frames after offset are all that a store of this
// history lacks.
func (n *Node) continues(replid string, offset uint64) bool {
	same := replid == n.replid || replid == n.replid2 && replid != "" && offset <= n.end2
	return same && n.log.follows(offset)
}

// pump sends a link what it has room for: frames first, then a chunk.
func (n *Node) pump(l *link) {
	for n.links[l.id] == l && l.state != idle && l.flight < flightBytes {
		if l.next < n.log.next {
			f, ok := n.log.get(l.next)
			if !ok {
				n.lost(l, "it lags by more than the log holds")
				return
			}
			n.send(l, f.raw)
			l.next++
			continue
		}
		if l.pulled != nil {
			n.send(l, appendPulled(nil, *l.pulled))
			l.pulled, l.state = nil, idle
			return
		}
		switch l.state {
		case walking:
			l.state = reading
			n.emit(ReadChunk{l.id, n.clock()})
			return
		case ending:
			if n.lead.done < l.endCut {
				return
			}
			l.state = live
			n.send(l, appendWhole(nil, n.log.head()))
		default:
			return
		}
	}
}

func (n *Node) onChunkRead(m ChunkRead) {
	l := n.links[m.Link]
	if l == nil || l.state != reading {
		return
	}
	if len(m.Raw) > 0 {
		n.send(l, m.Raw)
	}
	l.state = walking
	if !m.More && l.kind == toAsker {
		// Nothing is applied or cut meanwhile.
		l.state = idle
		n.send(l, appendWhole(nil, n.log.head()))
		return
	}
	if !m.More {
		// What changed while the walk was under way is in the rounds up to this one.
		l.state = ending
		l.endCut = n.cut()
	}
	n.pump(l)
}

// cut asks for a cut and returns its number: when so many are done, all that has
// changed until now is in the log.
func (n *Node) cut() uint64 {
	if !n.feed {
		return n.lead.done
	}
	if n.lead.asked > n.lead.done {
		// One is under way and may have passed already.
		return n.lead.asked + 1
	}
	n.lead.asked++
	n.cutAfresh()
	return n.lead.asked
}

func (n *Node) cutAfresh() {
	n.lead.cutAt = n.now
	n.emit(Cut{n.term, n.log.next, n.clock(), !n.lead.wanted && n.needed() == 0})
	n.lead.wanted = false
}

func (n *Node) onRoundCut(m RoundCut) {
	n.lead.done++
	switch {
	case n.role == Following:
		// It only shows whether something has changed: the history has ended before.
	case len(m.Raw) > maxRoundBytes:
		n.warn("a frame of %d bytes is longer than one may be: all replicas are to sync anew", len(m.Raw))
		n.beginHistory()
		n.dropReplicas()
	case len(m.Raw) > 0:
		n.log.append(m.Raw, n.now)
	}
	if n.wantsCut() {
		n.lead.asked++
		n.cutAfresh()
	}
	for _, l := range n.sortedLinks() {
		n.pump(l)
	}
	n.releaseAcked()
	n.deposeCut(len(m.Raw) > 0)
}

// wantsCut says whether somebody waits for a cut that was not asked for, since
// another one was under way.
func (n *Node) wantsCut() bool {
	if n.depose != nil && n.depose.cut > n.lead.asked {
		return true
	}
	for _, l := range n.links {
		if l.endCut > n.lead.asked {
			return true
		}
	}
	return false
}

func (n *Node) dropReplicas() {
	for _, l := range n.sortedLinks() {
		if l.kind == toReplica {
			n.hangup(l)
			n.replicaGone(l)
		}
	}
}

func (n *Node) replicaGone(l *link) {
	if r := n.lead.known[l.peer.ID]; r != nil && r.link == l {
		r.link, r.online, r.seen = nil, false, n.now
	}
	n.lead.alone = n.now
}

func (n *Node) tickLeading(m Tick) {
	if n.role != Leading || n.depose != nil || !n.feed {
		return
	}
	if n.now-n.lead.beatAt >= beatEvery {
		n.lead.beatAt = n.now
		for _, l := range n.sortedLinks() {
			if l.kind == toReplica && l.flight < flightBytes {
				n.beatTo(l)
			}
		}
	}
	if m.Dirty > 0 && n.now-n.lead.cutAt >= coalesce && n.lead.asked == n.lead.done && (m.Dirty >= dirtyMost || m.Bytes >= bytesMost || n.freeLink()) {
		n.cut()
	}
	n.forget()
}

// freeLink says whether a replica has all frames and its connection is free, or
// there is none and a round now and then keeps the log going.
func (n *Node) freeLink() bool {
	any := false
	for _, l := range n.links {
		if l.kind == toReplica {
			any = true
			if l.flight == 0 {
				return true
			}
		}
	}
	return !any && n.now-n.lead.cutAt >= beatEvery
}

func (n *Node) beatTo(l *link) {
	all := append([]Peer{n.c.Self}, n.lead.peers()...)
	n.send(l, appendBeat(nil, &beat{n.term, n.clock(), uint64(n.now), n.log.head(), n.content, all}))
}

// forget switches the feed off when nobody has followed for long.
func (n *Node) forget() {
	for _, l := range n.links {
		if l.kind == toReplica {
			n.lead.alone = n.now
			return
		}
	}
	if n.now-n.lead.alone >= feedLinger && n.lead.asked == n.lead.done {
		n.feedOn(false)
	}
}
