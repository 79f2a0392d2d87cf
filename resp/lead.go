package resp

import (
	"net"
	"strings"
)

// Replication is what the wire asks of who leads and follows. It is called from
// connections and never waits, except in Await, Lead and Follow. A server without
// one is alone.
type Replication interface {
	// Admit says whether commands that change state may run now: the generation
	// they run in, > 0, or 0 and the error to answer.
	Admit() (generation uint64, refusal string)
	// Holds says whether a reply made in a generation may leave now.
	Holds(generation uint64) bool
	// Readable is the error to answer a command that reads, or empty.
	Readable() (refusal string)
	// Alive is the error to answer PING with, or empty.
	Alive() (refusal string)
	// Acked says whether a reply to changes in a round of the second feed may leave
	// now, or why it never may. If it may not yet, it sees to it that it soon does.
	Acked(round uint64) (ready bool, err error)
	// Await is Acked for who waits.
	Await(round uint64) error
	// Shipped is the frame that a round of the second feed is in, or one after it, if
	// it is in one: it sees to it that it soon is. Having is how many replicas are
	// known to have a frame.
	Shipped(round uint64) (frame uint64, ok bool)
	Having(frame uint64) (replicas int)
	// Notify has f called whenever Acked may answer otherwise than before. f must
	// not wait.
	Notify(f func())
	// Lead makes this node the primary, Follow a replica.
	Lead()
	Follow(host, port string)
	// Take takes over a connection on which a peer wants to be told changes; args
	// are its command, have is what came behind it.
	Take(nc net.Conn, have []byte, from Announced, args []string)
	// Figures are those of INFO replication, Role what ROLE answers.
	Figures() [][2]string
	Role() Role
	// Hello is what a Sentinel published. Contact notes that one has sent a PING; what
	// it returns is to be called when the answer has arrived.
	Hello(text string)
	Contact(sentinel string) (arrived func())
	// Rewrite keeps the role for the next start.
	Rewrite() error
}

// Announced is what a peer said of itself with REPLCONF.
type Announced struct{ ID, IP, Port string }

// Role is the answer of ROLE.
type Role struct {
	Leads    bool
	Offset   int64
	Replicas []Announced // of a primary: address, and as ID the offset it has
	Host     string      // of a replica: its primary
	Port     int64
	State    string // connect, connecting, sync or connected
}

// barredByRole answers a command that this node is not to run: what changes state
// on a replica, or on a primary that may not decide, and what reads while there is
// nothing whole to read. It notes the generation that the replies are made in.
func (s *Session) barredByRole(c *command) bool {
	writes := c.flags&flagWrite != 0 || s.multi != nil && s.multi.writes && c.name == "exec"
	if !writes {
		if c.flags&flagRead != 0 {
			if refusal := s.srv.repl.Readable(); refusal != "" {
				s.fail(refusal)
				return true
			}
		}
		return false
	}
	generation, refusal := s.srv.repl.Admit()
	if generation == 0 {
		s.fail(refusal)
		return true
	}
	if s.generation == 0 {
		s.generation = generation // the oldest counts
	}
	return false
}

// mayLeave says whether the output may be sent: what was decided while this node
// led leaves only while it does. It is asked at the last moment.
func (s *Session) mayLeave() bool {
	return s.generation == 0 || s.srv.repl.Holds(s.generation)
}

// awaitsAcks says whether the output waits for replicas.
func (s *Session) awaitsAcks() bool {
	if s.ship == 0 {
		return false
	}
	ready, err := s.srv.repl.Acked(s.ship)
	return !ready || err != nil
}

// ready says whether what a session's output waits for is there, or will never be.
func (srv *Server) ready(s *Session) (ready bool, err error) {
	if ready, err = srv.durability.Ready(s.round); !ready || err != nil || s.ship == 0 {
		return ready, err
	}
	return srv.repl.Acked(s.ship)
}

// sentinelName is how the names of Sentinels' connections begin.
const sentinelName = "sentinel-"

// sentinelID is the id in the name of the connection on which a Sentinel sends
// PING: sentinel-, the first 8 hex digits of its id, -cmd.
func sentinelID(name string) string {
	id, ok := strings.CutPrefix(name, sentinelName)
	if id, is := strings.CutSuffix(id, "-cmd"); ok && is && len(id) == 8 {
		return id
	}
	return ""
}

// CloseClients ends the connections of all clients, so that their pools dial anew
// and ask who leads: but for Sentinels', and for whoever has said REPLICAOF.
func (srv *Server) CloseClients() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for c := range srv.conns {
		s := c.session()
		if s.spared.Load() || s.killed.Load() {
			continue
		}
		s.killed.Store(true)
		c.cut()
	}
}
