package replicate

import "time"

// A predecessor is the primary in whose place this node was promoted. Sentinels go
// on naming it until the one that did so has seen the promotion and told the others,
// and its epoch may be news to this node, if that one led for a short time only.
type predecessor struct {
	addr  string
	epoch uint64 // since which it led; 0 = not known
	until Time   // after that its name is taken for what it says
}

// namedLate is how long Sentinels may take to name a node that was promoted: one
// that finds itself late does nothing for 30 s.
const namedLate = time.Minute

// succeed notes in whose place this node is about to be promoted.
func (n *Node) succeed() {
	if n.role != Following {
		return
	}
	w := &n.watch
	w.past = predecessor{addr: n.up.primary, until: n.now + namedLate}
	if w.names == n.up.primary {
		w.past.epoch = w.epoch
	}
}

// isPast says whether a hello is about the time before this node's promotion.
func (w *watching) isPast(now Time, h *Hello) bool {
	p := &w.past
	if h.Addr != p.addr || now >= p.until || p.epoch != 0 && h.Epoch != p.epoch {
		return false
	}
	p.epoch = h.Epoch
	return true
}
