package resp

import (
	"fmt"
	"slices"
)

// The commands of messages.

func pubSubRows() []*command {
	always := flagLoading | flagStale
	channels := []arg{{name: "channel", kind: "string", multiple: true}}
	anyChannels := []arg{{name: "channel", kind: "string", optional: true, multiple: true}}
	patterns := []arg{{name: "pattern", kind: "pattern", multiple: true}}
	anyPatterns := []arg{{name: "pattern", kind: "pattern", optional: true, multiple: true}}
	row := func(name string, arity int, summary string, run func(*Session, [][]byte), args []arg) *command {
		return &command{name: name, arity: arity, flags: always | flagNoMulti, group: "pubsub", summary: summary, complexity: "O(N) with N channels", reply: "array", run: run, args: args}
	}
	return []*command{
		row("subscribe", -2, "Messages of these channels come on this connection from now on.", subscribe, channels),
		row("unsubscribe", -1, "No more messages of these channels, or of any.", unsubscribe, anyChannels),
		row("psubscribe", -2, "Messages of all channels that a pattern fits come on this connection from now on.", pSubscribe, patterns),
		row("punsubscribe", -1, "No more messages for these patterns, or for any.", pUnsubscribe, anyPatterns),
		{name: "publish", arity: 3, flags: always | flagFast, group: "pubsub", summary: "Sends a message to who subscribes to a channel of this node, and says how many they are.",
			complexity: "O(N+M) with N subscribers and M patterns", reply: "integer", run: publish, args: []arg{{name: "channel", kind: "string"}, {name: "message", kind: "string"}}},
		{name: "pubsub", arity: -2, group: "pubsub", summary: "About channels and patterns.", reply: "any", run: help, subs: []*command{
			{name: "channels", arity: -2, flags: always, summary: "The channels that somebody subscribes to.", complexity: "O(N) with N channels", reply: "array", run: pubSubChannels,
				args: []arg{{name: "pattern", kind: "pattern", optional: true}}},
			{name: "numsub", arity: -2, flags: always, summary: "How many subscribe to each channel.", complexity: "O(N) with N channels", reply: "array", run: pubSubNumSub, args: anyChannels},
			{name: "numpat", arity: 2, flags: always, summary: "How many patterns there are.", complexity: "O(1)", reply: "integer", run: pubSubNumPat},
			{name: "help", arity: 2, flags: always, summary: "This list.", reply: "array", run: help},
		}},
	}
}

// whileSubscribed are the commands that a RESP2 connection with subscriptions
// may send: what else it sent could not be told from messages.
var whileSubscribed = []string{"subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ping", "quit", "reset"}

// listens answers a command that does not fit a RESP2 connection with
// subscriptions.
func (s *Session) listens(c *command) bool {
	if s.proto == 3 || s.subs == nil || slices.Contains(whileSubscribed, c.name) {
		return false
	}
	s.fail(fmt.Sprintf("ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context", c.full))
	return true
}

func subscribe(s *Session, args [][]byte)  { s.join(args[1:], false) }
func pSubscribe(s *Session, args [][]byte) { s.join(args[1:], true) }

func (s *Session) join(names [][]byte, pattern bool) {
	for _, name := range names {
		if len(name) > maxPattern {
			s.fail(patternTooLong(name, maxPattern))
			return
		}
		if !s.mayHear(name, pattern) {
			s.fail(errNoPermChannel)
			return
		}
	}
	if s.subs == nil {
		s.subs = &subscriptions{}
	}
	s.pushProto.Store(int32(s.proto - 2))
	s.listening.Store(true)
	own, word := s.subs.of(pattern), verbs(pattern)[0]
	for _, name := range names {
		switch {
		case slices.Contains(*own, string(name)):
		case s.subs.count() >= maxSubscriptions:
			s.fail(fmt.Sprintf("ERR %d channels and patterns: expected at most that many on a connection", maxSubscriptions))
			continue
		default:
			*own = append(*own, string(name))
			s.subs.bytes += len(name) + keptPerSubscription
			s.srv.pubsub.join(s, string(name), pattern)
		}
		s.confirm(word, string(name))
	}
}

func unsubscribe(s *Session, args [][]byte)  { s.leave(args[1:], false) }
func pUnsubscribe(s *Session, args [][]byte) { s.leave(args[1:], true) }

func (s *Session) leave(names [][]byte, pattern bool) {
	word := verbs(pattern)[1]
	if s.subs == nil {
		s.subs = &subscriptions{}
	}
	own := s.subs.of(pattern)
	if len(names) == 0 {
		for _, name := range slices.Clone(*own) {
			names = append(names, []byte(name))
		}
		if len(names) == 0 {
			s.pushHead(3, word)
			s.null()
			s.int(int64(s.subs.count()))
		}
	}
	for _, name := range names {
		if i := slices.Index(*own, string(name)); i >= 0 {
			*own = slices.Delete(*own, i, i+1)
			s.subs.bytes -= len(name) + keptPerSubscription
			s.srv.pubsub.leave(s, string(name), pattern)
		}
		s.confirm(word, string(name))
	}
	if s.subs.count() == 0 {
		s.subs = nil
		s.listening.Store(false)
	}
}

// of are the session's channels or its patterns.
func (s *subscriptions) of(pattern bool) *[]string {
	if pattern {
		return &s.patterns
	}
	return &s.channels
}

func verbs(pattern bool) [2]string {
	if pattern {
		return [2]string{"psubscribe", "punsubscribe"}
	}
	return [2]string{"subscribe", "unsubscribe"}
}

// confirm says that a subscription began or ended, and how many there are.
func (s *Session) confirm(word, name string) {
	s.pushHead(3, word)
	s.text(name)
	s.int(int64(s.subs.count()))
}

func (s *Session) pushHead(n int, word string) {
	at := len(s.out)
	s.array(n)
	if s.proto == 3 {
		s.out[at] = '>'
	}
	s.text(word)
}

// endSubscriptions ends them all, unsaid.
func (s *Session) endSubscriptions() {
	if s.subs == nil {
		return
	}
	for _, name := range s.subs.channels {
		s.srv.pubsub.leave(s, name, false)
	}
	for _, name := range s.subs.patterns {
		s.srv.pubsub.leave(s, name, true)
	}
	s.listening.Store(false)
	s.subs = nil
}

// mayHear says whether the user may use a channel, or subscribe to a pattern,
// which must be one of those given to it.
func (s *Session) mayHear(name []byte, pattern bool) bool {
	r := s.user.rights.Load()
	if r.allChannels {
		return true
	}
	for _, p := range r.channels {
		if p == string(name) || !pattern && matches(compile(p), name) {
			return true
		}
	}
	return false
}

// helloChannel is where Sentinels speak to one another, through the nodes.
const helloChannel = "__sentinel__:hello"

func publish(s *Session, args [][]byte) {
	if !s.mayHear(args[1], false) {
		s.fail(errNoPermChannel)
		return
	}
	if string(args[1]) == helloChannel && s.srv.repl != nil {
		s.srv.repl.Hello(string(args[2]))
	}
	s.int(s.srv.pubsub.publish(string(args[1]), args[2]))
}

func pubSubChannels(s *Session, args [][]byte) {
	var g *glob
	if len(args) > 3 {
		s.fail(errSyntax)
		return
	}
	if len(args) == 3 {
		if len(args[2]) > maxPattern {
			s.fail(patternTooLong(args[2], maxPattern))
			return
		}
		g = compile(string(args[2]))
	}
	names := s.srv.pubsub.named(g)
	s.array(len(names))
	for _, name := range names {
		s.text(name)
	}
}

func pubSubNumSub(s *Session, args [][]byte) {
	s.array(2 * len(args[2:]))
	for _, name := range args[2:] {
		s.bulk(name)
		s.int(s.srv.pubsub.subscribers(string(name)))
	}
}

func pubSubNumPat(s *Session, args [][]byte) { s.int(s.srv.pubsub.patternCount()) }
