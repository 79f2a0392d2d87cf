package resp

import (
	"fmt"
	"strconv"
	"strings"
)

// redisVersion is what we tell drivers that switch features on by it: we answer
// what Redis 7.2 clients expect at connect time. Our own is in INFO.
const redisVersion = "7.2.0"

func ping(s *Session, args [][]byte) {
	if s.srv.repl != nil {
		if refusal := s.srv.repl.Alive(); refusal != "" {
			s.fail(refusal)
			return
		}
		if id := sentinelID(s.name); id != "" {
			s.pinged = s.srv.repl.Contact(id)
		}
	}
	if s.subs != nil && s.proto == 2 && len(args) <= 2 {
		s.array(2)
		s.text("pong")
		if len(args) == 2 {
			s.bulk(args[1])
		} else {
			s.text("")
		}
		return
	}
	switch len(args) {
	case 1:
		s.out = append(s.out, "+PONG\r\n"...)
	case 2:
		s.bulk(args[1])
	default:
		s.fail("ERR wrong number of arguments for 'ping' command")
	}
}

func echo(s *Session, args [][]byte) { s.bulk(args[1]) }

// auth is AUTH [username] password.
func auth(s *Session, args [][]byte) {
	user, pass := []byte(defaultUser), args[1]
	switch len(args) {
	case 2:
		if s.srv.accounts.dflt.rights.Load().nopass {
			s.fail(errNoPassword)
			return
		}
	case 3:
		user, pass = args[1], args[2]
	default:
		s.fail(errSyntax)
		return
	}
	if s.login(args[0], user, pass) {
		s.ok()
	}
}

// helloArgs are the fields of HELLO [protover [AUTH user pass] [SETNAME name]].
type helloArgs struct {
	proto            int
	user, pass, name []byte
	auth, setName    bool
}

func parseHello(args [][]byte, proto int) (h helloArgs, fault string) {
	h.proto = proto
	if len(args) == 0 {
		return h, ""
	}
	v, ok := parseInt(args[0])
	switch {
	case !ok:
		return h, errProtoNumber
	case v != 2 && v != 3:
		return h, errNoProto
	}
	h.proto = int(v)
	for args = args[1:]; len(args) > 0; {
		switch {
		case equalFold(args[0], "auth") && len(args) >= 3:
			h.auth, h.user, h.pass, args = true, args[1], args[2], args[3:]
		case equalFold(args[0], "setname") && len(args) >= 2:
			h.setName, h.name, args = true, args[1], args[2:]
			if !nameFits(h.name) {
				return h, errClientName
			}
		default:
			return h, fmt.Sprintf("ERR Syntax error in HELLO option '%.64s'", args[0])
		}
	}
	return h, ""
}

func hello(s *Session, args [][]byte) {
	h, fault := parseHello(args[1:], s.proto)
	if fault != "" {
		s.fail(fault)
		return
	}
	if h.auth && !s.login(args[0], h.user, h.pass) {
		return
	}
	if !s.admitted() {
		s.fail(errHelloNoAuth)
		return
	}
	if h.setName {
		s.name = string(h.name)
	}
	s.proto = h.proto
	s.dict(7)
	s.text("server")
	s.text("redis") // drivers ask what they talk, not who wrote it
	s.text("version")
	s.text(redisVersion)
	s.text("proto")
	s.int(int64(s.proto))
	s.text("id")
	s.int(s.id)
	s.text("mode")
	s.text("standalone")
	s.text("role")
	if s.srv.repl != nil && !s.srv.repl.Role().Leads {
		s.text("replica")
	} else {
		s.text("master")
	}
	s.text("modules")
	s.array(0)
}

func quit(s *Session, args [][]byte) {
	s.ok()
	s.act = actionClose
}

// resetSession is RESET: the conversation as it was at its start.
func resetSession(s *Session, args [][]byte) {
	s.endSubscriptions()
	s.proto, s.name, s.mute, s.noEvict, s.noTouch = 2, "", answered, false, false
	s.toDefault()
	s.endMulti()
	s.status("RESET")
}

func selectDB(s *Session, args [][]byte) {
	n, ok := parseInt(args[1])
	switch {
	case !ok:
		s.fail(errNotInteger)
	case n != 0:
		s.fail(errDBIndex)
	default:
		s.ok()
	}
}

func timeNow(s *Session, args [][]byte) {
	ns := s.srv.clock.NowNs()
	s.array(2)
	s.text(strconv.FormatInt(ns/1e9, 10))
	s.text(strconv.FormatInt(ns%1e9/1e3, 10))
}

func clientID(s *Session, args [][]byte) { s.int(s.id) }

func clientGetName(s *Session, args [][]byte) {
	if s.name == "" {
		s.null()
		return
	}
	s.text(s.name)
}

// maxNameText bounds a client's name and its library's, in bytes.
const maxNameText = 128

// nameFits is Redis's rule: printable ASCII without blanks.
func nameFits(name []byte) bool {
	for _, ch := range name {
		if ch < '!' || ch > '~' {
			return false
		}
	}
	return len(name) <= maxNameText
}

func clientSetName(s *Session, args [][]byte) {
	if !nameFits(args[2]) {
		s.fail(errClientName)
		return
	}
	s.name = string(args[2])
	s.spared.Store(strings.HasPrefix(s.name, sentinelName))
	s.ok()
}

// clientSetInfo is CLIENT SETINFO LIB-NAME|LIB-VER value.
func clientSetInfo(s *Session, args [][]byte) {
	var to *string
	switch {
	case equalFold(args[2], "lib-name"):
		to = &s.libName
	case equalFold(args[2], "lib-ver"):
		to = &s.libVer
	default:
		s.fail(fmt.Sprintf("ERR Unrecognized option '%.64s'", args[2]))
		return
	}
	if !nameFits(args[3]) {
		s.fail("ERR " + strings.ToLower(string(args[2])) + " cannot contain spaces, newlines or special characters.")
		return
	}
	*to = string(args[3])
	s.ok()
}

// parseInt reads an integer in the one form that Redis takes: no sign but a
// minus, no leading zeros, no blanks.
func parseInt(b []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == string(b)
}
