package replicate

import "slices"

func (n *Node) onAck(l *link, f *frame) error {
	a, err := readAck(f)
	if err != nil {
		return err
	}
	r := n.lead.known[l.peer.ID]
	if r == nil || r.link != l || a.number > n.log.head() {
		return errFrame
	}
	r.stamp = max(r.stamp, Time(min(a.stamp, uint64(n.now))))
	r.seen = n.now
	if a.number > 0 {
		// A replica acks numbers only when it is whole.
		r.online = true
		r.acked = max(r.acked, a.number)
	}
	n.releaseAcked()
	return nil
}

// onWanted has all that was changed until now acknowledged at once. A beat asks for the acks of frames whose could wait.
func (n *Node) onWanted() {
	n.lead.wanted = true
	n.cut()
	if n.role != Leading || n.needed() > 0 {
		return
	}
	for _, l := range n.sortedLinks() {
		if r := n.lead.known[l.peer.ID]; l.kind == toReplica && r != nil && r.link == l && r.online && r.acked < n.log.head() && l.flight < flightBytes {
			n.beatTo(l)
		}
	}
}

// needed is how many replicas must have a change before its reply leaves.
func (n *Node) needed() int {
	switch n.c.Acks {
	case AckMajority:
		return (1 + len(n.lead.known)) / 2
	case AckAll:
		k := 0
		for _, r := range n.lead.known {
			if r.counts {
				k++
			}
		}
		return k
	}
	return int(n.c.Acks)
}

// attached is how many replicas can ack.
func (n *Node) attached() (k int) {
	for _, r := range n.lead.known {
		if r.link != nil && r.online {
			k++
		}
	}
	return k
}

// releaseAcked tells up to which frame enough replicas have all. What a replica
// has acked it has applied, whether it is attached now or not.
func (n *Node) releaseAcked() {
	if n.role != Leading {
		return
	}
	k := n.needed()
	to := n.log.head()
	if k > 0 {
		acks := make([]uint64, 0, len(n.lead.known))
		for _, r := range n.lead.known {
			if r.counts || n.c.Acks != AckAll {
				acks = append(acks, r.acked)
			}
		}
		if len(acks) < k {
			return
		}
		slices.Sort(acks)
		to = acks[len(acks)-k]
	}
	if to > n.lead.release {
		n.lead.release = to
		n.emit(Released{to})
	}
}

// A Gate holds the replies back that wait for acks. It knows which frame each
// round of the feed became.
type Gate struct {
	cuts     []gateCut
	released uint64 // frame
	done     uint64 // round
}

type gateCut struct{ round, number uint64 }

// Cut notes that a round of the feed was cut and that number is the frame that
// came last, its own or, if it was empty, an older one.
func (g *Gate) Cut(round, number uint64) {
	g.cuts = append(g.cuts, gateCut{round, number})
	g.Release(g.released)
}

// Release notes that all frames up to number were acked.
func (g *Gate) Release(number uint64) {
	g.released = max(g.released, number)
	i := 0
	for ; i < len(g.cuts) && g.cuts[i].number <= g.released; i++ {
		g.done = g.cuts[i].round
	}
	g.cuts = g.cuts[i:]
}

// Done says whether a reply to changes in this round may leave.
func (g *Gate) Done(round uint64) bool { return round <= g.done }
