package replicate

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	// startFence is how long a node that was not stopped cleanly waits for another
	// one to be promoted.
	startFence = 10 * time.Second
	// reopenAfter is how long Sentinels must have been heard, after a silence,
	// before a primary decides again though not all its replicas answer: each says
	// every 2 s whom it takes for the primary.
	reopenAfter = 5 * time.Second
	// forgetSentinel is how long one must not have been heard, while most of them
	// are, until it is taken for removed.
	forgetSentinel = 15 * time.Minute
	maxSentinels   = 64
	// shortID is how much of a Sentinel's id the name of its connection has.
	shortID = 8
)

// watching is what a node knows of Sentinels, which every node is told alike.
type watching struct {
	group     string
	epoch     uint64
	names     string // the primary of that epoch, if it was heard since the start
	past      predecessor
	sentinels map[string]*sentinel // by short id
	doubt     *doubt
	lease     Time // its end, by the contacts until now
	untold    bool // no INFO has said yet that this node was promoted
}

type sentinel struct {
	addr  string // empty: it has not said yet for whom it asks, and does not count
	at    Time   // of the last contact; 0 = none
	since Time   // when this node began to count it
	named Time   // when it last said that this node leads
	known bool   // counted
}

// A doubt is that somebody else may have been promoted.
type doubt struct {
	since  Time
	start  bool            // since the node was started: it may have missed anything
	led    bool            // somebody else seemed to lead
	asked  bool            // the others have been, and this node has what the youngest of them had
	askAt  Time            // not before
	heard  map[string]bool // who has answered then, by address
	steady Time            // since when most Sentinels are heard, 0 = they are not
}

func (w *watching) begin(now Time, s *State) {
	w.group, w.epoch = s.Group, s.Epoch
	for _, p := range s.Sentinels {
		w.sentinels[p.ID] = &sentinel{addr: p.Addr, known: true, since: now}
	}
}

func (w *watching) peers() []Peer {
	var all []Peer
	for id, s := range w.sentinels {
		if s.known {
			all = append(all, Peer{id, s.addr})
		}
	}
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Forever is Doors.Until without Sentinels.
const Forever = Time(1<<63 - 1)

// renew says again when the contact lease ends: at any time before that most of
// the Sentinels had been heard within the last fenceAfter.
func (w *watching) renew(fenceAfter Time) {
	at := make([]Time, 0, maxSentinels)
	for _, s := range w.sentinels {
		if s.known {
			at = append(at, s.at)
		}
	}
	if len(at) == 0 {
		w.lease = Forever
		return
	}
	slices.Sort(at)
	// The majority's oldest contact.
	if oldest := at[len(at)-(len(at)/2+1)]; oldest == 0 {
		w.lease = 0
	} else {
		w.lease = oldest + fenceAfter
	}
}

// watched says whether there are Sentinels.
func (w *watching) watched() bool { return w.lease != Forever }

// watchLease notes at the beginning of a step that the lease has run out since
// the last one, before anything that was heard late makes it valid again.
func (n *Node) watchLease() {
	if n.role == Leading && n.watch.doubt == nil && n.now >= n.watch.lease {
		n.warn("most Sentinels were not heard for %v: no decisions until it is known who leads", n.c.FenceAfter)
		n.doubt()
	}
}

func (n *Node) doubt() {
	n.shut()
	n.watch.doubt = &doubt{since: n.now}
}

// notReady says that another node is to be promoted: this one has lost what the
// others may have.
func (n *Node) notReady() bool {
	d := n.watch.doubt
	return d != nil && d.start && !d.asked && n.unclean && n.watch.watched() && n.now-d.since < startFence && len(n.lead.known) > 0
}

// tryReopen ends a doubt when nobody can have been promoted, see doc.go.
func (n *Node) tryReopen() {
	d := n.watch.doubt
	if d == nil || n.role != Leading || n.depose != nil || n.notReady() {
		return
	}
	if d.start && !d.asked {
		if n.now >= d.askAt {
			n.askAround()
		}
		return
	}
	watched := n.watch.watched()
	if watched && !n.heardSince(d) {
		d.steady = 0
		return
	}
	if d.steady == 0 {
		d.steady = n.now
	}
	wait := reopenAfter
	if !watched {
		wait = startFence
	}
	named := !watched || n.watch.namedSince(d.since)
	switch all := n.allAnswer(d.since) && (named || !d.start); {
	case !all && !(named && n.now-d.steady >= wait):
	case !all && !d.start:
		// Somebody may have been promoted, have decided, and be gone.
		n.askFirst(d)
	default:
		n.endDoubt()
		n.note("decides again, after %v", n.now-d.since)
	}
}

// askFirst has the others asked, as after a start, before the doubt ends.
func (n *Node) askFirst(d *doubt) {
	if !d.start {
		d.start, d.heard = true, map[string]bool{}
		n.raise(n.term + 1)
	}
}

// endDoubt opens the doors. After a start a lead begins with it.
func (n *Node) endDoubt() {
	if n.watch.doubt.start {
		n.emit(StoreFollows{false})
		n.beginLead()
	}
	n.watch.doubt = nil
}

// heardSince says whether the lease is valid and is of contacts after the doubt
// began.
func (n *Node) heardSince(d *doubt) bool {
	return n.now < n.watch.lease && n.watch.lease-n.c.FenceAfter > d.since
}

// namedSince says whether most Sentinels have said since a time that this node
// leads.
func (w *watching) namedSince(t Time) bool {
	all, named := 0, 0
	for _, s := range w.sentinels {
		if s.known {
			all++
			if s.named > t {
				named++
			}
		}
	}
	return named > all/2
}

// allAnswer says whether every known replica has answered a beat sent after a
// time: each of them would have sent a pull instead if it had been promoted, and
// will if it is going to be.
func (n *Node) allAnswer(since Time) bool {
	for _, r := range n.lead.known {
		if r.link == nil || r.stamp <= since {
			return false
		}
	}
	return true
}

func (n *Node) onContact(m Contact) {
	s := n.watch.sentinels[m.Sentinel]
	if s == nil {
		if len(n.watch.sentinels) >= maxSentinels || len(m.Sentinel) != shortID {
			return
		}
		s = &sentinel{}
		n.watch.sentinels[m.Sentinel] = s
	}
	s.at = max(s.at, min(m.At, n.now))
	n.watch.renew(n.c.FenceAfter)
	n.forgetSentinels()
}

// onTold: no Sentinel has taken this node for the primary before it was told.
func (n *Node) onTold(m Told) {
	if n.watch.untold && n.role != Following && n.watch.doubt == nil {
		n.watch.judgedSince(min(m.At, n.now), n.c.FenceAfter)
	}
	n.watch.untold = false
}

// judgedSince notes that no Sentinel counts from before a time how long this node
// has not answered as the primary: it begins when it switches to it. That is when
// Sentinels dial anew, and send no PING for up to two seconds.
func (w *watching) judgedSince(t, fenceAfter Time) {
	for _, s := range w.sentinels {
		s.at = max(s.at, t)
	}
	w.renew(fenceAfter)
}

// forgetSentinels removes those not heard for long, while most are.
func (n *Node) forgetSentinels() {
	if n.now >= n.watch.lease {
		return
	}
	for id, s := range n.watch.sentinels {
		if n.now-max(s.at, s.since) > forgetSentinel {
			n.note("Sentinel %s at %s is forgotten", id, s.addr)
			delete(n.watch.sentinels, id)
			n.touch()
		}
	}
	n.watch.renew(n.c.FenceAfter)
}

func (n *Node) onHello(h Hello) {
	if len(h.Sentinel) < shortID || !n.concerns(&h) {
		return
	}
	n.meet(h.Sentinel[:shortID], h.From)
	if s := n.watch.sentinels[h.Sentinel[:shortID]]; s != nil && n.c.Mine(h.Addr) && h.Epoch >= n.watch.epoch {
		s.named = n.now
	}
	if h.Epoch <= n.watch.epoch || n.role != Following && n.watch.isPast(n.now, &h) {
		return
	}
	n.watch.epoch, n.watch.names, n.watch.past = h.Epoch, h.Addr, predecessor{}
	n.touch()
	if n.role != Following && !n.c.Mine(h.Addr) {
		n.warn("Sentinel says that %s leads since epoch %d", h.Addr, h.Epoch)
		n.abdicate(h.Addr, nil)
	}
}

// concerns says whether a hello is about the nodes that this one belongs to. The
// first one that names it, or whom it follows, says what they are called.
func (n *Node) concerns(h *Hello) bool {
	if n.watch.group == "" && (n.c.Mine(h.Addr) || n.role == Following && strings.EqualFold(h.Addr, n.up.primary)) {
		n.watch.group = h.Name
		n.touch()
	}
	return n.watch.group == h.Name
}

// meet counts a Sentinel from its first hello on.
func (n *Node) meet(id, addr string) {
	s := n.watch.sentinels[id]
	if s != nil && s.known && s.addr == addr {
		return
	}
	n.touch()
	if s == nil {
		if len(n.watch.sentinels) >= maxSentinels {
			return
		}
		s = &sentinel{}
		n.watch.sentinels[id] = s
	}
	for other, o := range n.watch.sentinels {
		if o.addr == addr && o.known {
			delete(n.watch.sentinels, other) // installed anew
		}
	}
	s.addr, s.known, s.since = addr, true, n.now
	if s.at == 0 {
		s.at = n.now
	}
	n.watch.renew(n.c.FenceAfter)
}
