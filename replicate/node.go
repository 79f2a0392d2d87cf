package replicate

import (
	"fmt"
	"time"
)

// Waits and bounds of the protocol. None of them decides whether it is safe:
// fence.go and promote.go say what does.
const (
	// beatEvery is the pace of beats.
	beatEvery = 100 * time.Millisecond
	// silence ends a link on which nothing was heard for so long.
	silence = 3 * time.Second
	// redialFirst is the wait before a lost primary is dialed again, doubled up to
	// redialMost.
	redialFirst = 50 * time.Millisecond
	redialMost  = time.Second
	// pullWait is how long a promotion waits for siblings.
	pullWait = 500 * time.Millisecond
	// silentWait is how long for a primary that had been silent for Config.FenceAfter.
	silentWait = 100 * time.Millisecond
	// askEvery is the wait before a node that was started asks again, if somebody
	// else seemed to lead.
	askEvery = time.Second
	// settle is how long a node that was deposed waits before it looks whether
	// commands that were under way have changed anything.
	settle = 100 * time.Millisecond
	// coalesce is the least time between two rounds that no reply waits for.
	coalesce = time.Millisecond
	// ackEvery is how long the ack of a frame may wait, and for the next tick, if nobody
	// waits for it: a primary that is told of each frame is woken twice by each.
	ackEvery = 5 * time.Millisecond
	// feedLinger is how long the feed stays on without a replica.
	feedLinger = time.Minute
	// flightBytes is what is sent on a link before what was sent has left.
	flightBytes = 256 << 10
	// dirtyMost cuts a round though no replica's connection is free.
	dirtyMost = 64 << 10
	// bytesMost does so too, for long keys and values: half of what a frame may have.
	bytesMost = maxRoundBytes / 2
	// FenceAfter is the default of Config.FenceAfter. Sentinels send a PING a second.
	FenceAfter = 1500 * time.Millisecond
	// RingBytes is the default of Config.RingBytes.
	RingBytes = 16 << 20
	// maxRoundBytes is the longest frame, all its parts together.
	maxRoundBytes = 64 << 20
	maxLinks      = 2 * maxPeers
)

// An AckMode is how many replicas must have a change before its reply leaves.
type AckMode int

const (
	AckMajority AckMode = -1 // so many that with the primary they are most of all nodes
	AckAll      AckMode = -2 // all that are known
)

// Config is what a node is told of itself.
type Config struct {
	Self Peer
	// Mine says whether an address is this node's, as others write it.
	Mine func(addr string) bool
	// NewID returns 40 hex digits that nobody has had before.
	NewID      func() string
	Acks       AckMode
	FenceAfter Time // > 0, less than Sentinel's down-after-milliseconds
	RingBytes  int  // 0 = RingBytes
}

// A Node is what one server knows and decides about leading and following. Step
// is all it does: it has no socket, no clock and no goroutine.
type Node struct {
	c    Config
	now  Time
	out  []Effect
	role Role

	term          uint64
	generation    uint64
	replid        string // the history that the store is of
	replid2       string // the one before, shared up to end2
	end2          uint64
	log           ring
	whole         bool   // the store is the content of one moment: at log.head, of this history
	content       lead   // that the content is of
	all           bool   // it led then and was stopped cleanly: it has all of that lead, and no number any more
	unclean       bool   // the content is of before a crash
	behind        bool   // somebody else has led since, or was about to
	stage         int    // stageMost
	partial       bool   // this lead began with a part of the content
	kin           []Peer // of a replica: the other nodes of the group
	clockBase     int64
	links         map[LinkID]*link
	dialed        LinkID
	put           Doors // as published
	state         State // as persisted
	started, feed bool
	touched       bool // state may be another

	fullSyncs, partialSyncs uint64 // of replicas

	lead   leading
	watch  watching
	up     following
	promo  *promotion
	asker  Peer // who was obeyed in this term
	depose *deposition
}

// New makes a node, that waits for Start.
func New(c Config) *Node {
	if c.RingBytes == 0 {
		c.RingBytes = RingBytes
	}
	n := &Node{c: c, links: map[LinkID]*link{}, stage: stageMost}
	n.dialed = 1
	n.log.most = c.RingBytes
	n.lead.known = map[string]*replica{}
	n.watch.sentinels = map[string]*sentinel{}
	return n
}

// Step tells the node a message at a time and returns what it wants done. Times
// never decrease.
func (n *Node) Step(now Time, m Message) []Effect {
	n.now, n.out = now, nil
	n.watchLease()
	switch m := m.(type) {
	case Start:
		n.onStart(m)
	case Tick:
		n.onTick(m)
	case Wanted:
		n.onWanted()
	case RoundCut:
		n.onRoundCut(m)
	case ChunkRead:
		n.onChunkRead(m)
	case Attach:
		n.onAttach(m)
	case Asked:
		n.onAsked(m)
	case Line:
		n.onLine(m)
	case Received:
		n.onReceived(m)
	case Sent:
		if l := n.links[m.Link]; l != nil {
			l.flight -= m.Bytes
			if l.kind == toAsker {
				l.heard = n.now
			}
			n.pump(l)
		}
	case Closed:
		n.onClosed(m)
	case Lead:
		n.succeed()
		n.onLead()
	case Follow:
		n.onFollow(m.Addr)
	case Hello:
		n.onHello(m)
	case Contact:
		n.onContact(m)
	case Told:
		n.onTold(m)
	case Configure:
		n.configure(m)
	default:
		panic(fmt.Sprintf("replicate: message %T", m))
	}
	n.tryReopen()
	n.publish()
	return n.out
}

func (n *Node) emit(e Effect) { n.out = append(n.out, e) }

func (n *Node) note(format string, a ...any) { n.emit(Note{Text: fmt.Sprintf(format, a...)}) }
func (n *Node) warn(format string, a ...any) { n.emit(Note{true, fmt.Sprintf(format, a...)}) }

// clock is the store's clock now, ms.
func (n *Node) clock() int64 { return n.clockBase + n.now.Milliseconds() }

func (n *Node) onStart(m Start) {
	if n.started {
		panic("replicate: started twice")
	}
	n.started = true
	n.state = m.State
	n.term = m.State.Term
	n.clockBase = m.Clock - n.now.Milliseconds()
	n.log.reset(1)
	n.watch.begin(n.now, &m.State)
	n.watch.renew(n.c.FenceAfter)
	n.whole = true
	defer n.touch()
	if m.State.Primary != "" {
		n.role = Following
		n.behind = m.State.Behind
		n.kin = m.State.Replicas
		n.up.primary = m.State.Primary
		n.emit(StoreFollows{true})
		return
	}
	for _, p := range m.State.Replicas {
		n.lead.known[p.ID] = &replica{peer: p, counts: true, seen: n.now}
	}
	n.role = Leading
	n.term++
	if len(n.lead.known) == 0 && !n.watch.watched() {
		n.content.term = n.term
		return
	}
	// Somebody may have been promoted meanwhile.
	n.unclean = !m.Clean || m.State.Unclean
	if !n.unclean {
		n.content.term, n.all = m.State.Lead, m.State.Lead > 0
	}
	n.doubt()
	n.watch.doubt.start, n.watch.doubt.heard = true, map[string]bool{}
	n.emit(StoreFollows{true}) // what it has may be somebody else's: nothing of it goes by its own clock until it decides
}

func (n *Node) onTick(m Tick) {
	n.tickLeading(m)
	n.tickFollowing()
	n.tickPromotion()
	for _, l := range n.sortedLinks() {
		if most := l.patience(); n.now-l.heard > most {
			n.lost(l, "nothing heard for %v", most)
		}
	}
}

// touch notes that something of the state may have changed.
func (n *Node) touch() { n.touched = true }

// asState is what is to be remembered.
func (n *Node) asState() State {
	s := State{
		Term: n.term, Epoch: n.watch.epoch, Group: n.watch.group, Sentinels: n.watch.peers(), Replicas: n.lead.peers(),
		Unclean: n.unclean, Behind: n.behind,
	}
	switch {
	case n.role == Following:
		s.Primary, s.Replicas = n.up.primary, n.kin
	case n.promo == nil || n.promo.start:
		s.Lead = n.content.term
	}
	return s
}

// persist writes the state if it is not as it was written last.
func (n *Node) persist() {
	if !n.touched {
		return
	}
	n.touched = false
	if s := n.asState(); s.String() != n.state.String() {
		n.state = s
		n.emit(Persist{s})
	}
}

// stale says that the content is of before the node was started.
func (n *Node) stale() bool { return n.content.term == 0 }

// apply has the store changed.
func (n *Node) apply(e Apply) {
	n.dropTakers()
	n.emit(e)
}

// dropTakers ends the links on which all of the store is told to who is being
// promoted: it is going to change.
func (n *Node) dropTakers() {
	takes := func(l *link) bool { return l.kind == toAsker && (l.state == walking || l.state == reading) }
	for _, l := range n.links {
		if !takes(l) {
			continue
		}
		for _, l := range n.sortedLinks() {
			if takes(l) {
				n.hangup(l)
			}
		}
		return
	}
}

// shut closes the doors: nothing decided until now leaves any more.
func (n *Node) shut() { n.generation++ }

// publish tells the doors and the state if they have changed.
func (n *Node) publish() {
	if !n.started {
		return
	}
	n.persist()
	d := Doors{Role: n.role, Generation: n.generation, Whole: n.whole, Until: n.watch.lease}
	if n.role == Following && n.stale() {
		d.Whole = false
	}
	d.Open = n.role == Leading && n.watch.doubt == nil && n.depose == nil
	d.NotReady = n.role == Leading && n.notReady()
	if n.role == Leading {
		d.Acks = n.needed()
		d.Short = n.attached() < d.Acks
	}
	if d != n.put {
		n.put = d
		n.emit(d)
	}
}
