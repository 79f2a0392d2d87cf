package resp

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// CLIENT: this connection, and for operators all the others.

// clientSubs are CLIENT's subcommands.
func clientSubs() []*command {
	about := flagLoading | flagStale
	admin := about | flagAdmin
	onOff := []arg{{name: "enabled", kind: "oneof", sub: []arg{
		{name: "on", kind: "pure-token", token: "ON"}, {name: "off", kind: "pure-token", token: "OFF"}}}}
	types := arg{name: "client-type", kind: "oneof", token: "TYPE", optional: true, sub: []arg{
		{name: "normal", kind: "pure-token", token: "NORMAL"}, {name: "master", kind: "pure-token", token: "MASTER"},
		{name: "replica", kind: "pure-token", token: "REPLICA"}, {name: "pubsub", kind: "pure-token", token: "PUBSUB"}}}
	ids := arg{name: "client-id", kind: "integer", token: "ID", optional: true, multiple: true}
	filters := []arg{{name: "filter", kind: "oneof", sub: []arg{
		{name: "old-format", kind: "string"},
		{name: "new-format", kind: "block", sub: []arg{
			{name: "client-id", kind: "integer", token: "ID", optional: true}, types,
			{name: "username", kind: "string", token: "USER", optional: true},
			{name: "ip:port", kind: "string", token: "ADDR", optional: true},
			{name: "ip:port", kind: "string", token: "LADDR", optional: true},
			{name: "yes/no", kind: "string", token: "SKIPME", optional: true},
			{name: "seconds", kind: "integer", token: "MAXAGE", optional: true}}}}}}
	return []*command{
		{name: "id", arity: 2, flags: about, summary: "This connection's number.", reply: "integer", run: clientID},
		{name: "getname", arity: 2, flags: about, summary: "This connection's name.", reply: "bulk?", run: clientGetName},
		{name: "setname", arity: 3, flags: about, summary: "Names this connection.", reply: "ok", run: clientSetName,
			args: []arg{{name: "connection-name", kind: "string"}}},
		{name: "setinfo", arity: 4, flags: about, summary: "Notes the driver's name or version.", reply: "ok", run: clientSetInfo,
			args: []arg{{name: "attr", kind: "oneof", sub: []arg{
				{name: "libname", kind: "string", token: "LIB-NAME"}, {name: "libver", kind: "string", token: "LIB-VER"}}}}},
		{name: "info", arity: 2, flags: about, summary: "What the server knows of this connection.", reply: "bulk", run: clientInfo},
		{name: "list", arity: -2, flags: admin, summary: "The same of all connections, or of some, a line each.", complexity: "O(N) with N connections", reply: "bulk", run: clientList,
			args: []arg{types, ids}},
		{name: "kill", arity: -3, flags: admin, summary: "Closes the connection from ip:port, or all that the filters fit and says how many. SKIPME no counts this one in.", complexity: "O(N) with N connections", reply: "any", run: clientKill,
			args: filters},
		{name: "pause", arity: -3, flags: admin, summary: "For so many ms commands wait, or with WRITE those that change keys. CLIENT PAUSE and UNPAUSE never wait.", complexity: "O(1)", reply: "ok", run: clientPause,
			args: []arg{{name: "timeout", kind: "integer"}, {name: "mode", kind: "oneof", optional: true, sub: []arg{
				{name: "write", kind: "pure-token", token: "WRITE"}, {name: "all", kind: "pure-token", token: "ALL"}}}}},
		{name: "unpause", arity: 2, flags: admin, summary: "Ends a pause: what waited is executed.", complexity: "O(N) with N connections", reply: "ok", run: clientUnpause},
		{name: "reply", arity: 3, flags: about, summary: "Whether this connection is answered; SKIP leaves out the next command's answer.", reply: "ok", run: clientReply,
			args: []arg{{name: "action", kind: "oneof", sub: []arg{
				{name: "on", kind: "pure-token", token: "ON"}, {name: "off", kind: "pure-token", token: "OFF"}, {name: "skip", kind: "pure-token", token: "SKIP"}}}}},
		{name: "no-evict", arity: 3, flags: admin, summary: "Whether this connection stays when those with the largest buffers are closed, see maxmemory-clients.", reply: "ok", run: clientNoEvict, args: onOff},
		{name: "no-touch", arity: 3, flags: about, summary: "Has no effect but the flag in CLIENT LIST: nothing is evicted by its last use.", reply: "ok", run: clientNoTouch, args: onOff},
		{name: "help", arity: 2, flags: about, summary: "This list.", reply: "array", run: help},
	}
}

// clientInfo is CLIENT INFO: one line in Redis's form.
func clientInfo(s *Session, args [][]byte) { s.verbatim(s.infoLine() + "\n") }

// clientTypes are Redis's; those of nodes are not clients here.
var clientTypes = []string{"normal", "master", "replica", "slave", "pubsub"}

// parseType reads a type of client.
func parseType(word []byte) (kind, fault string) {
	t := strings.ToLower(string(word))
	if !slices.Contains(clientTypes, t) {
		return "", fmt.Sprintf("ERR Unknown client type '%.64s'", word)
	}
	return t, ""
}

// isOf says whether a client is of a type; empty = any.
func (p *peer) isOf(kind string) bool {
	switch kind {
	case "":
		return true
	case "normal":
		return !p.listening.Load()
	case "pubsub":
		return p.listening.Load()
	}
	return false
}

// listArgs are the fields of CLIENT LIST [TYPE type] [ID id [id ...]].
type listArgs struct {
	kind string  // empty = any
	ids  []int64 // nil = all
}

func parseList(args [][]byte) (l listArgs, fault string) {
	for len(args) > 0 {
		switch {
		case len(args) > 1 && equalFold(args[0], "type"):
			kind, fault := parseType(args[1])
			if fault != "" {
				return l, fault
			}
			l.kind, args = kind, args[2:]
		case len(args) > 1 && equalFold(args[0], "id"):
			for _, word := range args[1:] {
				id, ok := parseInt(word)
				if !ok {
					return l, errClientIDs
				}
				l.ids = append(l.ids, id)
			}
			return l, ""
		default:
			return l, errSyntax
		}
	}
	return l, ""
}

// listedCost is what a line of CLIENT LIST costs, see stint.
const listedCost = 8

func clientList(s *Session, args [][]byte) {
	l, fault := parseList(args[2:])
	if fault != "" {
		s.fail(fault)
		return
	}
	listed := slices.DeleteFunc(s.srv.sessions(), func(other *Session) bool { return !other.isOf(l.kind) })
	if l.ids != nil {
		byID := make(map[int64]*Session, len(listed))
		for _, other := range listed {
			byID[other.id] = other
		}
		listed = listed[:0]
		for _, id := range l.ids {
			if other := byID[id]; other != nil {
				listed = append(listed, other)
			}
		}
	}
	var text strings.Builder
	call := s.newLongCall(args)
	s.inTurns(func(s *Session) bool {
		return call.timed(s, func(t *stint) bool {
			for len(listed) > 0 {
				other := listed[0]
				listed = listed[1:]
				if other == s {
					text.WriteString(s.infoLine())
				} else {
					text.WriteString(other.seen(s.now))
				}
				text.WriteByte('\n')
				if t.over(listedCost) {
					return false
				}
			}
			s.verbatim(text.String())
			return true
		})
	})
}

// sessions are those of all connections, by id.
func (srv *Server) sessions() []*Session {
	srv.mu.Lock()
	all := make([]*Session, 0, len(srv.conns))
	for c := range srv.conns {
		all = append(all, c.session())
	}
	srv.mu.Unlock()
	slices.SortFunc(all, func(a, b *Session) int { return cmp.Compare(a.id, b.id) })
	return all
}

// killArgs are the filters of CLIENT KILL; all of them must fit.
type killArgs struct {
	old         bool   // CLIENT KILL ip:port
	kind        string // of client, empty = any
	me          bool   // this connection too
	id          int64
	addr, laddr *string // nil = any; nobody has an empty one
	user        *user
	age         int64 // s, at least
}

// parseKill reads the filters; users is where names are looked up.
func parseKill(args [][]byte, users *users) (k killArgs, fault string) {
	if len(args) == 1 {
		addr := string(args[0])
		return killArgs{old: true, me: true, addr: &addr}, ""
	}
	for ; len(args) > 0; args = args[2:] {
		if len(args) == 1 {
			return k, errSyntax
		}
		value, text, ok := args[1], string(args[1]), false
		switch word := strings.ToLower(string(args[0])); word {
		case "id":
			if k.id, ok = parseInt(value); !ok || k.id < 1 {
				return k, errClientID
			}
		case "maxage":
			if k.age, ok = parseInt(value); !ok {
				return k, errMaxAge
			} else if k.age < 1 {
				return k, errMaxAgeLow
			}
		case "type":
			kind, fault := parseType(value)
			if fault != "" {
				return k, fault
			}
			k.kind = kind
		case "addr":
			k.addr = &text
		case "laddr":
			k.laddr = &text
		case "user":
			if k.user = users.get(text); k.user == nil {
				return k, fmt.Sprintf("ERR No such user '%.64s'", value)
			}
		case "skipme":
			k.me = equalFold(value, "no")
			if !k.me && !equalFold(value, "yes") {
				return k, errSyntax
			}
		default:
			return k, errSyntax
		}
	}
	return k, ""
}

// fits says whether a client is meant, at a time of the server's clock in ms.
func (k *killArgs) fits(p *peer, now int64) bool {
	return p.isOf(k.kind) && (k.id == 0 || k.id == p.id) && (k.addr == nil || *k.addr == p.addr) && (k.laddr == nil || *k.laddr == p.laddr) &&
		(k.user == nil || k.user == p.shown.Load().user) && now-p.born >= k.age*1000
}

func clientKill(s *Session, args [][]byte) {
	k, fault := parseKill(args[2:], s.srv.accounts.users)
	if fault != "" {
		s.fail(fault)
		return
	}
	s.show() // its own name or user may be new
	n := s.srv.kill(s, &k)
	switch {
	case !k.old:
		s.int(n)
	case n == 0:
		s.fail(errNoSuchClient)
	default:
		s.ok()
	}
}

// kill ends the connections that are meant and says how many there were. None
// is waited for. The caller's own ends after the answer.
func (srv *Server) kill(by *Session, k *killArgs) (n int64) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for c := range srv.conns {
		switch s := c.session(); {
		case s.killed.Load() || !k.fits(&s.peer, by.now):
		case s != by:
			s.killed.Store(true)
			c.cut()
			n++
		case k.me:
			s.act = actionClose
			n++
		}
	}
	return n
}

// mute is what CLIENT REPLY asked for.
type mute byte

const (
	answered mute = iota
	muteNext      // the command after the one at hand is not answered
	muteThis      // the one at hand is not
	muteAll
)

func clientReply(s *Session, args [][]byte) {
	switch {
	case equalFold(args[2], "on"):
		s.mute = answered
		s.ok()
	case equalFold(args[2], "off"):
		s.mute = muteAll
	case equalFold(args[2], "skip"):
		if s.mute != muteAll {
			s.mute = muteNext
		}
	default:
		s.fail(errSyntax)
	}
}

// hush takes the answer of a command back that is not to be answered.
func (s *Session) hush() {
	if s.mute != muteNext { // CLIENT REPLY SKIP has no answer, and that of an EXEC with it in has one
		s.out = s.out[:s.mark]
	}
	switch {
	case s.turn != nil: // there is more to come of it
	case s.mute == muteNext:
		s.mute = muteThis
	case s.mute == muteThis:
		s.mute = answered
	}
}

func clientNoEvict(s *Session, args [][]byte) { s.setFlag(&s.noEvict, args[2]) }

func clientNoTouch(s *Session, args [][]byte) { s.setFlag(&s.noTouch, args[2]) }

// setFlag is ON or OFF.
func (s *Session) setFlag(flag *bool, word []byte) {
	on := equalFold(word, "on")
	if !on && !equalFold(word, "off") {
		s.fail(errSyntax)
		return
	}
	*flag = on
	s.ok()
}

func clientPause(s *Session, args [][]byte) {
	all := true
	switch len(args) {
	case 3:
	case 4:
		if all = equalFold(args[3], "all"); !all && !equalFold(args[3], "write") {
			s.fail(errPauseMode)
			return
		}
	default:
		s.fail(errPauseArgs)
		return
	}
	ms, err := strconv.ParseInt(string(args[2]), 10, 64)
	switch {
	case err != nil:
		s.fail(errPauseTime)
	case ms < 0:
		s.fail(errPauseNegative)
	case ms > maxPause:
		s.fail(errPauseLong)
	default:
		s.srv.pause.begin(s.srv, ms, all)
		s.ok()
	}
}

func clientUnpause(s *Session, args [][]byte) {
	s.srv.pause.end(s.srv)
	s.ok()
}
