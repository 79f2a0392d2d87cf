package resp

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Commands about who leads, and those that peers send.

func replicationRows() []*command {
	always := flagLoading | flagStale
	host := []arg{{name: "args", kind: "oneof", sub: []arg{
		{name: "host-port", kind: "block", sub: []arg{{name: "host", kind: "string"}, {name: "port", kind: "integer"}}},
		{name: "no-one", kind: "block", sub: []arg{{name: "no", kind: "pure-token", token: "NO"}, {name: "one", kind: "pure-token", token: "ONE"}}}}}}
	from := []arg{{name: "history", kind: "string"}, {name: "offset", kind: "integer"}, {name: "term", kind: "integer"}}
	return []*command{
		{name: "replicaof", arity: 3, flags: flagAdmin | flagStale, group: "server", summary: "Follows the primary at host port, or with NO ONE becomes the primary.", reply: "status", run: replicaOf, args: host},
		{name: "slaveof", arity: 3, flags: flagAdmin | flagStale, group: "server", summary: "The same as REPLICAOF.", reply: "status", run: replicaOf, args: host},
		{name: "role", arity: 1, flags: always | flagFast, group: "server", also: []string{"admin", "dangerous"}, summary: "Whether this node is the primary, and who follows or is followed.", reply: "array", run: roleOf},
		{name: "replconf", arity: -1, flags: always | flagAdmin, group: "server", summary: "What a replica says of itself before it asks for changes.", reply: "ok", run: replConf,
			args: []arg{{name: "data", kind: "block", multiple: true, sub: []arg{{name: "option", kind: "string"}, {name: "value", kind: "string"}}}}},
		{name: "rl.sync", arity: 4, flags: always | flagAdmin | flagNoMulti, group: "server", summary: "A replica asks for the changes after an offset of a history.", reply: "none", run: rlSync, args: from},
		{name: "rl.pull", arity: 4, flags: always | flagAdmin | flagNoMulti, group: "server", summary: "A node that is being promoted asks for what is newer.", reply: "none", run: rlSync, args: from},
		{name: "psync", arity: -3, flags: always | flagAdmin | flagNoMulti, group: "server", summary: "Refused: a Redis cannot follow this server.", reply: "none", run: redisSync,
			args: []arg{{name: "replicationid", kind: "string"}, {name: "offset", kind: "integer"}}},
		{name: "sync", arity: 1, flags: always | flagAdmin | flagNoMulti, group: "server", summary: "Refused: a Redis cannot follow this server.", reply: "none", run: redisSync},
		waitRow(),
	}
}

// replicaOf is REPLICAOF host port and REPLICAOF NO ONE. Inside EXEC it is run
// when the keys are free.
func replicaOf(s *Session, args [][]byte) {
	r := s.srv.repl
	s.spared.Store(true)
	switch {
	case r == nil:
		s.fail(errNoReplication)
	case equalFold(args[1], "no") && equalFold(args[2], "one"):
		r.Lead()
		s.ok()
	default:
		port, ok := parseInt(args[2])
		if !ok || port < 1 || port > 65535 {
			s.fail(errMasterPort)
			return
		}
		r.Follow(string(args[1]), string(args[2]))
		s.ok()
	}
}

// roleOf is ROLE.
func roleOf(s *Session, args [][]byte) {
	r := Role{Leads: true}
	if s.srv.repl != nil {
		r = s.srv.repl.Role()
	}
	if !r.Leads {
		s.array(5)
		s.text("slave")
		s.text(r.Host)
		s.int(r.Port)
		s.text(r.State)
		s.int(r.Offset)
		return
	}
	s.array(3)
	s.text("master")
	s.int(r.Offset)
	s.array(len(r.Replicas))
	for _, p := range r.Replicas {
		s.array(3)
		s.text(p.IP)
		s.text(p.Port)
		s.text(p.ID)
	}
}

// maxAnnounced bounds what a peer says of itself, in bytes.
const maxAnnounced = 128

// replConf is REPLCONF option value [option value ...].
func replConf(s *Session, args [][]byte) {
	words := args[1:]
	if len(words) == 0 || len(words)%2 != 0 {
		s.fail(errSyntax)
		return
	}
	said := s.announced
	for ; len(words) > 0; words = words[2:] {
		if len(words[1]) > maxAnnounced || !nameFits(words[1]) {
			s.fail(fmt.Sprintf("ERR REPLCONF %.32s: expected at most %d printable characters without blanks", words[0], maxAnnounced))
			return
		}
		value := string(words[1])
		switch {
		case equalFold(words[0], "listening-port"):
			if port, ok := parseInt(words[1]); !ok || port < 1 || port > 65535 {
				s.fail(errNotInteger)
				return
			}
			said.Port = value
		case equalFold(words[0], "ip-address"):
			said.IP = value
		case equalFold(words[0], "node-id"):
			said.ID = value
		case equalFold(words[0], "capa"):
		default:
			s.fail(fmt.Sprintf("ERR Unrecognized REPLCONF option: %.64s", words[0]))
			return
		}
	}
	s.announced = said
	s.ok()
}

// rlSync is RL.SYNC and RL.PULL: the connection is given away. Its answer comes
// from who has it then.
func rlSync(s *Session, args [][]byte) {
	said := s.announced
	switch {
	case s.srv.repl == nil:
		s.fail(errNoReplication)
		return
	case said.ID == "" || said.Port == "":
		s.fail("ERR " + strings.ToUpper(s.cmd.name) + " needs REPLCONF listening-port and node-id before it")
		return
	}
	for _, word := range args[2:] {
		if _, err := strconv.ParseUint(string(word), 10, 64); err != nil {
			s.fail(errNotInteger)
			return
		}
	}
	if said.IP == "" {
		said.IP, _, _ = net.SplitHostPort(s.addr)
	}
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = string(a)
	}
	s.leaves = &leaving{said, words}
	s.act = actionHand
}

// A leaving is a connection that is given away.
type leaving struct {
	from Announced
	args []string
}

// redisSync refuses a Redis that wants to follow.
func redisSync(s *Session, args [][]byte) { s.fail(errRedisSync) }

// configRewrite is CONFIG REWRITE: the role is kept, and nothing else can have
// changed that a config file says.
func configRewrite(s *Session, args [][]byte) {
	if s.srv.repl != nil {
		if err := s.srv.repl.Rewrite(); err != nil {
			s.fail("ERR Rewriting config file: " + err.Error())
			return
		}
	}
	s.ok()
}
