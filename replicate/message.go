package replicate

import (
	"time"

	"github.com/rlserver/rlserver/shard"
)

// Time is a reading of a clock that neither jumps nor stops: the time since the
// machine was started, what it was suspended for included.
type Time = time.Duration

// A LinkID names a connection. Those that the node has dialed are odd, those that
// came to it even; none is used twice.
type LinkID uint64

// A Message is what a node is told: Step takes one after the other.
type Message interface{ message() }

type (
	// Start is the first message.
	Start struct {
		State State
		Clean bool  // the state and the store are those of a clean stop, or there was none before
		Clock int64 // of the store, ms since the epoch
	}
	// Tick comes every few milliseconds, at least every tenth of the shortest wait.
	// Dirty and Bytes are Feed.Backlog, 0 while the feed is off.
	Tick struct{ Dirty, Bytes int }
	// Wanted says that somebody waits for acks of a round, that may not be cut yet.
	Wanted struct{}
	// RoundCut answers a Cut. Raw is the round's frame, empty if nothing had changed.
	RoundCut struct{ Raw []byte }
	// ChunkRead answers a ReadChunk. Raw has none, one or more frames.
	ChunkRead struct {
		Link LinkID
		Raw  []byte
		More bool
	}
	// Attach is RL.SYNC from a replica: it has the history Replid up to Offset and
	// knows of Term.
	Attach struct {
		Link   LinkID
		From   Peer
		Replid string
		Offset uint64
		Term   uint64
	}
	// Asked is RL.PULL from a node that is being promoted.
	Asked struct {
		Link   LinkID
		From   Peer
		Replid string
		Offset uint64
		Term   uint64
	}
	// Line is the answer to the command of a Dial.
	Line struct {
		Link LinkID
		Text string
	}
	// Received is a frame. It is valid during the step only.
	Received struct {
		Link  LinkID
		Frame frame
	}
	// Sent says that so many bytes of a link have left.
	Sent struct {
		Link  LinkID
		Bytes int
	}
	// Closed says that a connection has ended, or could not be made. Refused is set
	// if nobody listens there although the machine is up.
	Closed struct {
		Link    LinkID
		Refused bool
	}
	// Lead is REPLICAOF NO ONE.
	Lead struct{}
	// Follow is REPLICAOF host port.
	Follow struct{ Addr string }
	// Contact says that a Sentinel is known to have the answer to its PING that came
	// at the time At: only then does it count the node alive from that time on.
	Contact struct {
		Sentinel string // the first 8 hex digits of its id
		At       Time
	}
	// Told says that INFO was answered by a node that leads or is being promoted, at
	// At or a little later. Only the first one after a promotion matters.
	Told struct{ At Time }
)

// A Hello is what a Sentinel publishes, every two seconds: about itself, and
// whom it takes for the primary.
type Hello struct {
	Sentinel string // its id
	From     string // its address
	Name     string // of the group of nodes
	Addr     string // of the primary
	Epoch    uint64 // of that configuration: the higher one is younger
}

func (Start) message()     {}
func (Tick) message()      {}
func (Wanted) message()    {}
func (RoundCut) message()  {}
func (ChunkRead) message() {}
func (Attach) message()    {}
func (Asked) message()     {}
func (Line) message()      {}
func (Received) message()  {}
func (Sent) message()      {}
func (Closed) message()    {}
func (Lead) message()      {}
func (Follow) message()    {}
func (Contact) message()   {}
func (Told) message()      {}
func (Hello) message()     {}

// An Effect is what a node wants done. They are carried out in the order given,
// and what they answer (RoundCut, ChunkRead) is told in that order too.
type Effect interface{ effect() }

type (
	// Send writes to a link. The bytes are not to be modified.
	Send struct {
		Link LinkID
		Raw  []byte
	}
	// Dial connects, says who this node is, and sends the command. Its answer comes
	// as a Line, or Closed does.
	Dial struct {
		Link    LinkID
		Addr    string
		Command []string
	}
	// Hangup ends a link, after what was sent on it. No Closed follows.
	Hangup struct{ Link LinkID }
	// Cut closes the open round of the feed and encodes it with this head. Later says
	// that nobody waits for its ack.
	Cut struct {
		Term, Number uint64
		Clock        int64
		Later        bool
	}
	// BeginWalk starts a full sync on a link: ReadChunk reads the named limits
	// first and then a walk over the entries, begun now.
	BeginWalk struct{ Link LinkID }
	ReadChunk struct {
		Link  LinkID
		Clock int64
	}
	// Feed switches the feed on or off, StoreFollows what shard.Store.Follow does.
	Feed         struct{ On bool }
	StoreFollows struct{ On bool }
	// Apply makes the store what the primary told. The changes are valid during
	// the step only.
	Apply struct {
		Wipe    shard.Wipe
		Changes []shard.Change
	}
	// SetClock makes the store's clock Base + the Time of any later moment, ms.
	SetClock struct{ Base int64 }
	// Released says that enough replicas have all frames up to Number.
	Released struct{ Number uint64 }
	// CloseClients ends all connections of clients, so that their pools dial anew
	// and ask who leads.
	CloseClients struct{}
	// Persist has the state written to disk, soon.
	Persist struct{ State State }
	// Note is a line for the log.
	Note struct {
		Warn bool
		Text string
	}
)

func (Send) effect()         {}
func (Dial) effect()         {}
func (Hangup) effect()       {}
func (Cut) effect()          {}
func (BeginWalk) effect()    {}
func (ReadChunk) effect()    {}
func (Feed) effect()         {}
func (StoreFollows) effect() {}
func (Apply) effect()        {}
func (SetClock) effect()     {}
func (Released) effect()     {}
func (CloseClients) effect() {}
func (Persist) effect()      {}
func (Note) effect()         {}
func (Doors) effect()        {}

// A Role is what a node is.
type Role byte

const (
	Leading   Role = iota + 1 // the primary
	Promoting                 // about to be the primary: asks the others what they have
	Following                 // a replica
)

// Doors say whether the node may decide. They are an effect too: whoever decides
// looks at the ones put last, before it decides and again before the reply leaves.
type Doors struct {
	Role Role
	// Open: the node may decide, at a Time before Until.
	Open  bool
	Until Time
	// Generation changes when the doors are closed: a reply decided in another one
	// is not to leave.
	Generation uint64
	// NotReady: the node asks Sentinel to promote another one.
	NotReady bool
	// Whole: what the store has is the content of one moment.
	Whole bool
	// Acks is how many replicas a reply waits for; Short says that there are fewer.
	Acks  int
	Short bool
}
