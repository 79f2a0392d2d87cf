package resp

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
	"github.com/tidwall/redcon"
)

// flushAt is the output, in bytes, at which a session stops taking commands
// until the connection has written: a client that does not read is not read from.
const flushAt = 64 << 10

// action is what a session asks its connection to do after the output is out.
type action byte

const (
	actionNone  action = iota
	actionClose        // write what is there, then close
	actionHand         // write what is there, then give the connection away
)

// feedNs is how long a Feed may work, ns: after that it begins no further
// command, or one if they are short, so that the others on its event loop have
// their turn.
const feedNs = 250_000

// Session is one client's conversation: bytes in, bytes out. It is used by one
// goroutine at a time and owns no socket.
type Session struct {
	peer
	identity // the owner's; others see what was last shown
	srv      *Server
	parser   parser
	out      []byte
	act      action
	round    uint64 // durable round the output waits for; 0 = none
	wrote    uint64 // the latest round of the second feed that this conversation changed something in; 0 = it has not
	ship     uint64 // round of the second feed that replicas must have before the output leaves; 0 = none
	full     bool   // Feed stopped for the output's sake or between turns, not for want of input
	long     bool   // Feed stopped because it had worked for feedNs
	mark     int    // where in out the replies of the command at hand start

	turn func(*Session) (done bool) // what is left of a command that works in turns, nil = none

	multi   *transaction  // what MULTI began, nil = nothing
	watches []shard.Watch // until the next EXEC
	watched int           // bytes of their keys
	touring int           // bytes that a command in turns has found so far
	tx      *shard.Tx     // what EXEC runs commands on, nil = each locks its own keys
	looked  int           // keys and names that EXEC's commands went through under its locks
	atOnce  bool          // in EXEC
	exec    *execution    // what EXEC does when the keys are free again, nil = nothing

	progress uint64 // commands taken so far

	delay time.Duration // the output is to go out so much later than it was made; it is not read from meanwhile

	generation uint64         // what leads this node to decide, while it made the output; 0 = it decided nothing
	announced  Announced      // by REPLCONF
	leaves     *leaving       // with actionHand
	subs       *subscriptions // nil = none
	pushProto  atomic.Int32   // 1 = messages go out as RESP3 has them
	carrier    carrier        // set before the first Feed
	pinged     func()         // a Sentinel's PING is answered: to be called when that has arrived
	spared     atomic.Bool    // CloseClients leaves it alone

	authed bool
	wrong  int      // wrong passwords since the last right one
	cmd    *command // the command at hand, or the last one; nil = unknown to us
	mute   mute
	paused bool // Feed stopped because of CLIENT PAUSE: to be called again when that is over

	ns   int64 // server's clock at dispatch
	now  int64 // the same in ms
	run  run   // figures not yet in the server's counters
	buf  [maxState]byte
	conf *Settings // in force for the command at hand
}

// maxState is the size of the buffer a new state is encoded into; larger ones,
// of a long RL.LOG, allocate. It is room for a head, a name and a state.
const maxState = 2*engine.EntryRoom + engine.MaxNameBytes

// newSession starts a conversation.
func (srv *Server) newSession(addr, laddr string) *Session {
	s := &Session{srv: srv, identity: identity{proto: 2}}
	s.id, s.addr, s.laddr, s.born = srv.nextID.Add(1), addr, laddr, srv.clock.NowNs()/1e6
	s.active.Store(s.born)
	s.toDefault()
	s.show()
	return s
}

// Feed executes the complete commands at the front of in and returns how many
// bytes they took; the caller keeps the rest at the front and adds to it.
// Replies collect in Output. It stops early when the output reaches flushAt, an
// action is due, a reply is to come late, or a command has done a turn and others
// are to be served before the next; so it is called again after each write, or when full says so.
func (s *Session) Feed(in []byte) (taken int) {
	s.conf, s.mark, s.paused, s.long = s.srv.settings.Load(), len(s.out), false, false
	began, fetched := int64(0), 1
	if s.killed.Load() {
		s.act = actionClose
	} else if s.turn != nil {
		s.inTurns(s.turn)
		if s.mute != answered {
			s.hush()
		}
	}
	for s.act == actionNone && s.turn == nil && s.delay == 0 && !s.long && len(s.out) < flushAt {
		s.mark = len(s.out)
		lim := limits{bulk: s.conf.MaxBulk, authed: s.admitted()}
		next, pausing := in[taken:], s.srv.pause.kind.Load() != pauseNone
		if pausing && len(next) > 0 && next[0] != '*' {
			next = bytes.Clone(next[:min(len(next), maxInline)]) // parsing rewrites it, and it may have to wait as it is
		}
		args, used, perr := s.parser.next(next, lim)
		if perr != "" {
			s.srv.counters.protocolErrors.Add(1)
			s.srv.log.Debug("closing a client that does not speak the protocol", "client", s.addr, "err", perr)
			if perr == errTLSHere {
				s.srv.misled(s.addr, "a client speaks TLS on a port that does not", "tls-port opens one that does; or have the client speak without")
			}
			s.fail(perr)
			s.act = actionClose
			break
		}
		if used == 0 {
			break
		}
		if pausing && s.srv.pause.holds(s, args) {
			s.parser.reset()
			s.paused = true
			break
		}
		if len(args) > 0 {
			s.dispatch(args, in[taken] != '*')
			if s.multi != nil {
				s.judge()
			}
			if began == 0 {
				began = s.ns
			}
			s.long = s.worked(len(args))-began >= feedNs
			if s.mute != answered {
				s.hush()
			}
		}
		taken += used
		s.progress++
		s.parser.reset()
		if fetched--; fetched <= 0 && taken < len(in) {
			fetched = s.fetchAhead(in[taken:])
		}
	}
	s.full = len(s.out) >= flushAt || s.turn != nil || s.delay > 0 || s.long
	s.settle()
	return taken
}

// worked is the server's clock after the command at hand, of so many words. It
// is read only where it may have moved: after any other command it is near
// enough what it was at dispatch.
func (s *Session) worked(words int) (ns int64) {
	if s.cmd == nil || !s.cmd.lengthy(words) {
		return s.ns
	}
	ns = s.srv.clock.NowNs()
	s.lap(ns)
	return ns
}

// Output is what is to be written; Written empties it and keeps the buffer
// unless it grew beyond what an idle client may hold.
func (s *Session) Output() []byte { return s.out }

// Written tells the session that its output is out.
func (s *Session) Written() {
	if cap(s.out) > 2*flushAt {
		s.out = nil
	}
	s.out = s.out[:0]
	s.round, s.delay, s.ship, s.generation = 0, 0, 0, 0
	if s.pinged != nil {
		if s.carrier != nil {
			s.carrier.confirmed(s.pinged)
		}
		s.pinged = nil
	}
}

// abort ends the conversation after a fault in the command at hand: what came
// before it is still answered, then comes an error.
func (s *Session) abort() {
	s.out = s.out[:s.mark]
	s.fail(errInternal)
	s.act, s.full, s.turn = actionClose, false, nil
	s.settle()
}

// end is the end of the conversation: it leaves nothing behind.
func (s *Session) end() {
	s.endMulti()
	s.endSubscriptions()
	s.turn, s.touring = nil, 0
}

// keeps is how many bytes the session has, beside its input and output, for
// what its client asked for.
func (s *Session) keeps() int64 {
	n := keptPerWatch*len(s.watches) + 2*s.watched + s.touring // a watched key is kept here and in its shard
	if s.multi != nil {
		n += s.multi.bytes
	}
	if s.subs != nil {
		n += s.subs.bytes
	}
	return int64(n)
}

// dispatch runs one command.
func (s *Session) dispatch(args [][]byte, inline bool) {
	ns := s.srv.clock.NowNs()
	s.ns, s.now = ns, ns/1e6
	if inline && looksLikeHTTP(args) {
		s.srv.counters.httpRequests.Add(1)
		s.act = actionClose
		return
	}
	c := s.srv.table.lookup(args[0])
	s.cmd = c
	if c == nil {
		s.begin(nil, ns)
		s.fail(unknownCommand(args))
		return
	}
	if c.subs != nil && len(args) > 1 {
		if c = c.sub(args[1]); c == nil {
			s.begin(s.cmd, ns)
			s.fail(fmt.Sprintf("ERR unknown subcommand '%.128s'. Try %s HELP.", args[1], strings.ToUpper(s.cmd.name)))
			return
		}
		s.cmd = c
	}
	s.begin(c, ns)
	switch {
	case !c.arityFits(len(args)):
		s.fail("ERR wrong number of arguments for '" + c.full + "' command")
	case c.flags&flagNoAuth == 0 && !s.admitted():
		s.fail(errNoAuth)
	case !s.user.rights.Load().everything && !s.permitted(c, args):
	case c.flags&flagLoading == 0 && s.srv.loading.Load():
		s.fail(errLoading)
	case s.subs != nil && s.listens(c):
	case s.srv.repl != nil && s.barredByRole(c):
	case s.srv.mustLast && s.barred(c):
	case s.multi != nil && c.flags&flagAtOnce == 0:
		s.enqueue(c, args)
	default:
		s.run.args = args
		c.run(s, args)
	}
}

// looksLikeHTTP recognises a web browser or a cross-protocol attack: Redis
// closes such a connection too.
func looksLikeHTTP(args [][]byte) bool {
	return equalFold(args[0], "post") || equalFold(args[0], "host:") ||
		len(args) == 3 && strings.HasPrefix(string(args[2]), "HTTP/1.")
}

// unknownCommand is Redis's text, which some drivers parse.
func unknownCommand(args [][]byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "ERR unknown command '%.128s', with args beginning with: ", args[0])
	for shown := 0; len(args) > 1 && shown < 128; args = args[1:] {
		word := args[1]
		if len(word) > 128-shown {
			word = word[:128-shown]
		}
		fmt.Fprintf(&b, "'%s' ", word)
		shown += len(word) + 3
	}
	return b.String()
}

// The reply helpers. Each appends one RESP value.

func (s *Session) fail(text string) {
	s.run.errors++
	s.out = appendError(s.out, text)
}

func (s *Session) ok()             { s.out = append(s.out, "+OK\r\n"...) }
func (s *Session) status(t string) { s.out = redcon.AppendString(s.out, t) }
func (s *Session) int(n int64)     { s.out = redcon.AppendInt(s.out, n) }
func (s *Session) bulk(b []byte)   { s.out = redcon.AppendBulk(s.out, b) }
func (s *Session) text(t string)   { s.out = redcon.AppendBulkString(s.out, t) }
func (s *Session) array(n int)     { s.out = redcon.AppendArray(s.out, n) }

// set opens a set of n members: an array in RESP2.
func (s *Session) set(n int) {
	at := len(s.out)
	s.array(n)
	if s.proto == 3 {
		s.out[at] = '~'
	}
}

// dict opens a map of n pairs: a flat array in RESP2.
func (s *Session) dict(n int) {
	if s.proto == 2 {
		s.array(2 * n)
		return
	}
	at := len(s.out)
	s.array(n)
	s.out[at] = '%'
}

// verbatim is text for people: RESP3 says so, RESP2 has a bulk string.
func (s *Session) verbatim(text string) {
	if s.proto == 2 {
		s.text(text)
		return
	}
	s.out = fmt.Appendf(s.out, "=%d\r\ntxt:%s\r\n", len(text)+len("txt:"), text)
}

// null is the absent value.
func (s *Session) null() {
	if s.proto == 3 {
		s.out = append(s.out, "_\r\n"...)
		return
	}
	s.out = redcon.AppendNull(s.out)
}

// nullArray is the absent array: RESP2 tells the two apart.
func (s *Session) nullArray() {
	if s.proto == 3 {
		s.null()
		return
	}
	s.out = append(s.out, "*-1\r\n"...)
}

// decide answers an acquire and counts it.
func (s *Session) decide(d engine.Decision) {
	if d.Allowed > 0 {
		s.run.allowed++
	} else {
		s.run.denied++
	}
	s.decision(d)
}

// decision is the answer of every limiter command: five integers.
func (s *Session) decision(d engine.Decision) {
	s.array(5)
	s.int(d.Allowed)
	s.int(d.RetryAfter)
	s.int(d.Remaining)
	s.int(d.ResetAfter)
	s.int(d.Limit)
}
