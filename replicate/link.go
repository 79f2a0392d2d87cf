package replicate

import (
	"slices"
)

// A link is a connection to another node.
type link struct {
	id   LinkID
	kind linkKind
	peer Peer
	sending
	heard Time   // when something came last
	parts []byte // of a frame that has not come whole
	// quiet: what comes counts no more, but for the end of a pull.
	quiet bool
	relay LinkID // the link of who asked, to which that end is to be told
}

// patience is how long nothing may be heard.
func (l *link) patience() Time {
	if l.quiet {
		return quietMost
	}
	return silence
}

type linkKind byte

const (
	toPrimary linkKind = iota + 1 // dialed by a replica
	toReplica                     // its other end
	toAsked                       // dialed by a node being promoted
	toAsker                       // its other end
)

func (n *Node) addLink(id LinkID, kind linkKind, peer Peer) *link {
	l := &link{id: id, kind: kind, peer: peer, heard: n.now}
	n.links[id] = l
	return l
}

func (n *Node) dial(kind linkKind, addr string, command ...string) *link {
	l := n.addLink(n.dialed, kind, Peer{Addr: addr})
	n.dialed += 2
	n.emit(Dial{l.id, addr, command})
	return l
}

// hangup ends a link from our side.
func (n *Node) hangup(l *link) {
	delete(n.links, l.id)
	n.emit(Hangup{l.id})
}

// lost is hangup for what went wrong.
func (n *Node) lost(l *link, format string, a ...any) {
	n.note("link to "+l.peer.Addr+": "+format, a...)
	n.hangup(l)
	n.gone(l, false)
}

// sortedLinks are all links, in the order of their ids: a map's order is
// another each time.
func (n *Node) sortedLinks() []*link {
	all := make([]*link, 0, len(n.links))
	for _, l := range n.links {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *link) int { return int(a.id) - int(b.id) })
	return all
}

func (n *Node) onClosed(m Closed) {
	if l := n.links[m.Link]; l != nil {
		delete(n.links, m.Link)
		n.gone(l, m.Refused)
	}
}

// gone tells those concerned that a link is no more.
func (n *Node) gone(l *link, refused bool) {
	switch l.kind {
	case toPrimary:
		n.primaryGone(l, refused)
	case toReplica:
		n.replicaGone(l)
	}
	n.askedGone(l, refused)
}

func (n *Node) onReceived(m Received) {
	l := n.links[m.Link]
	if l == nil {
		return
	}
	l.heard = n.now
	f := &m.Frame
	var err error
	switch {
	case f.kind == typeAck && l.kind == toReplica:
		err = n.onAck(l, f)
	case f.kind == typePull && l.kind == toReplica:
		err = n.onPull(l, f)
	case f.kind == typeChanges && l.kind == toPrimary, f.kind == typeChanges && l.kind == toAsked:
		err = n.onChanges(l, f)
	case f.kind == typeChunk && n.takesFrom(l):
		err = n.onTakenChunk(l, f)
	case f.kind == typeWhole && n.takesFrom(l):
		err = n.onTakenWhole(l, f)
	case f.kind == typeChunk && l.kind == toPrimary:
		err = n.onChunk(l, f)
	case f.kind == typeWhole && l.kind == toPrimary:
		err = n.onWhole(l, f)
	case f.kind == typeFull && l.kind == toAsker:
		err = n.onFull(l, f)
	case f.kind == typeBeat && l.kind == toPrimary:
		err = n.onBeat(l, f)
	case f.kind == typePulled && l.kind == toPrimary, f.kind == typePulled && l.kind == toAsked:
		err = n.onPulled(l, f)
	case l.kind == toAsker:
		// It was a replica's link, and has acks under way.
	default:
		err = errFrame
	}
	if err != nil && n.links[l.id] == l {
		n.lost(l, "%v", err)
	}
}

// send writes to a link and counts what is in flight.
func (n *Node) send(l *link, raw []byte) {
	l.flight += len(raw)
	n.emit(Send{l.id, raw})
}
