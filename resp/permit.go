package resp

import "time"

// Who is answered, and what: logging in, and the rights that dispatch asks for.

// A wrong password is answered late, the later the more often its connection
// brought one, or its address; meanwhile the connection is not read from. The
// most is less than the time that drivers wait for an answer.
const (
	wrongPassDelay    = 50 * time.Millisecond
	maxWrongPassDelay = 1600 * time.Millisecond
	authWarnEvery     = 60e9 // ns between two lines in the log
)

// admitted says whether the client may send more than what logs it in: it did,
// or the user default needs no password.
func (s *Session) admitted() bool {
	if !s.authed && s.srv.accounts.dflt.rights.Load().open() {
		s.authed = true
	}
	return s.authed
}

// toDefault makes the client the user default, as at its start.
func (s *Session) toDefault() {
	s.user = s.srv.accounts.dflt
	s.authed = s.user.rights.Load().open()
}

// permitted answers a call that the user has no right to.
func (s *Session) permitted(c *command, args [][]byte) bool {
	r := s.user.rights.Load()
	if r.gone {
		s.act = actionClose // as Redis: without an answer
		return false
	}
	d, at := r.check(c, args)
	e := aclEntry{reason: "key", atOnce: s.atOnce, user: s.user.name, last: s.now}
	switch d {
	case granted:
		return true
	case deniedCommand:
		e.reason, e.object = "command", c.full
		s.srv.counters.deniedCommands.Add(1)
		s.fail("NOPERM this user has no permissions to run the '" + c.full + "' command")
	case deniedKey:
		e.object = string(args[at])
		s.srv.counters.deniedKeys.Add(1)
		s.fail(errNoPermKey)
	case deniedReach:
		e.object = "*"
		s.srv.counters.deniedKeys.Add(1)
		s.fail("NOPERM this call of '" + c.full + "' reaches keys that it does not name, and this user has no permissions to access all keys")
	}
	e.client = s.infoLine()
	s.srv.accounts.log.add(e)
	return false
}

// login authenticates or answers why not. by is the command's name as it came.
func (s *Session) login(by, name, pass []byte) bool {
	who, ok := s.srv.accounts.login(name, pass)
	within, from := &s.srv.within, guesserOf(s.addr)
	if !ok {
		s.srv.accounts.guesses.add(from, s.now)
	}
	if level := s.srv.accounts.guesses.level(from, s.now); level > 0 {
		s.delay = max(s.delay, lateBy(level-1, within.wrongPass, within.wrongPassMost))
	}
	if ok {
		s.user, s.authed, s.wrong = who, true, 0
		return true
	}
	s.fail(errWrongPass)
	s.delay = max(s.delay, lateBy(s.wrong, within.wrongPass, within.wrongPassMost))
	s.wrong++
	s.srv.wrongPassword(s, aclEntry{reason: "auth", atOnce: s.atOnce, object: string(by), user: string(name), last: s.now, client: s.infoLine()})
	return false
}

// wrongPassword counts a failure and from time to time logs it, without what
// was sent: a password may stand where the name was meant to.
func (srv *Server) wrongPassword(s *Session, e aclEntry) {
	failures := srv.counters.authFailures.Add(1)
	warned := &srv.accounts.warned
	srv.accounts.log.add(e)
	at, last := s.now*1e6, warned.Load()
	if (last == 0 || at-last >= authWarnEvery) && warned.CompareAndSwap(last, at) {
		srv.log.Warn("wrong password or unknown user; ACL LOG tells more", "client", s.addr, "failures", failures)
	}
}
