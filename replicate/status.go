package replicate

// A Status is what a node tells of itself, for INFO and ROLE.
type Status struct {
	Role            Role
	Term, Epoch     uint64
	Replid, Replid2 string // 40 hex digits, empty if there is none
	Offset, End2    uint64 // frames
	First           uint64 // number of the first frame in the log
	LogBytes        int
	Fenced          bool // leads, or is about to, and may not decide
	Sentinels       int

	FullSyncs, PartialSyncs uint64 // of replicas of this node, since it was started

	// Of a replica.
	Primary   string
	Link      bool // in step with the primary
	Syncing   bool // a full sync is under way
	Whole     bool // what the store has is the content of one moment
	Stale     bool // that is of before the node was started
	Behind    bool // somebody else has led, or was about to, of whom this node has nothing
	HeardAgo  Time // since the primary said something
	DownSince Time // 0 if there is a link

	Replicas []ReplicaStatus
}

// A ReplicaStatus is what a primary knows of a replica.
type ReplicaStatus struct {
	Peer
	Attached, Online bool
	Acked            uint64
	Behind           Time // age of the oldest frame it has not acked
	Answered         Time // since the beat it answered last was sent
}

// Status returns what the node is at a time.
func (n *Node) Status(now Time) Status {
	s := Status{
		Role: n.role, Term: n.term, Epoch: n.watch.epoch, Replid: n.replid, Replid2: n.replid2,
		Offset: n.log.head(), End2: n.end2, First: n.log.first(), LogBytes: n.log.bytes,
		Fenced: n.role != Following && !n.put.Open, Sentinels: len(n.watch.peers()),
		FullSyncs: n.fullSyncs, PartialSyncs: n.partialSyncs,
	}
	if n.role != Leading {
		s.Primary = n.up.primary
		s.Link = n.up.link != nil && n.up.synced && n.up.full == "" && n.whole
		s.Syncing = n.up.link != nil && n.up.synced && !s.Link
		s.Whole, s.Stale, s.Behind = n.whole, n.stale(), n.behind
		s.HeardAgo = now - n.up.heard
		if n.up.link == nil {
			s.DownSince = now - n.up.downAt
		}
		if !n.whole {
			s.Offset = 0
		}
		return s
	}
	for _, p := range n.lead.peers() {
		r := n.lead.known[p.ID]
		rs := ReplicaStatus{Peer: p, Attached: r.link != nil, Online: r.link != nil && r.online, Acked: r.acked, Answered: now - r.stamp}
		if f, ok := n.log.get(r.acked + 1); ok {
			rs.Behind = now - f.at
		}
		s.Replicas = append(s.Replicas, rs)
	}
	return s
}

// stalePriority is added to the priority of a replica that has nothing but what
// it had on disk, and behindPriority to that of one that lacks all of a later lead:
// Sentinel takes it only if there is no other.
const (
	stalePriority  = 100_000
	behindPriority = 200_000
)

// Priority is what Sentinel is to be told of a replica whose replica-priority is
// this: the lowest is promoted first, and 0 never.
func (s *Status) Priority(configured int) int {
	if s.Role != Following || configured == 0 {
		return configured
	}
	if !s.Whole {
		return 0
	}
	if s.Stale {
		configured += stalePriority
	}
	if s.Behind {
		configured += behindPriority
	}
	return configured
}
