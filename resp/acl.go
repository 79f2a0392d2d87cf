package resp

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ACL: users and what they may do, in Redis's words.

// UserStore is where ACL LOAD and ACL SAVE find the aclfile.
type UserStore interface {
	// Load reads the file. What is wrong with its text is a UserFaults.
	Load() (*UserFile, error)
	// Save puts text in its place: all of it, durably, or nothing.
	Save(text string) error
}

func aclRows() []*command {
	about := flagLoading | flagStale
	admin := about | flagAdmin
	name := arg{name: "username", kind: "string"}
	names := arg{name: "username", kind: "string", multiple: true}
	return []*command{
		{name: "acl", arity: -2, group: "server", summary: "Users, and what each may do.", reply: "any", run: help,
			subs: []*command{
				{name: "setuser", arity: -3, flags: admin, reply: "ok", run: aclSetUser,
					summary: "Makes or changes a user by rules, all or none, in force at once for who is logged in as it.",
					args:    []arg{name, {name: "rule", kind: "string", optional: true, multiple: true}}},
				{name: "getuser", arity: 3, flags: admin, summary: "What a user may do; of its passwords the SHA-256.", reply: "map?", run: aclGetUser, args: []arg{name}},
				{name: "deluser", arity: -3, flags: admin, summary: "Removes users, and closes the connections of who is logged in as one. Replies how many there were.",
					reply: "integer", run: aclDelUser, args: []arg{names}},
				{name: "list", arity: 2, flags: admin, summary: "All users as lines of the aclfile.", reply: "array", run: aclList},
				{name: "users", arity: 2, flags: admin, summary: "All users' names.", reply: "array", run: aclUsers},
				{name: "whoami", arity: 2, flags: about, summary: "The user of this connection.", reply: "bulk", run: aclWhoAmI},
				{name: "cat", arity: -2, flags: about, summary: "The categories, or the commands of one.", reply: "array", run: aclCat,
					args: []arg{{name: "category", kind: "string", optional: true}}},
				{name: "genpass", arity: -2, flags: about, summary: "A new password of so many random bits (256), in hex.", reply: "bulk", run: aclGenPass,
					args: []arg{{name: "bits", kind: "integer", optional: true}}},
				{name: "log", arity: -2, flags: admin, summary: "What was refused for want of a right or of the right password, newest first: 10 entries, or so many. RESET forgets them.",
					reply: "any", run: aclLogTell,
					args: []arg{{name: "operation", kind: "oneof", optional: true, sub: []arg{
						{name: "count", kind: "integer"}, {name: "reset", kind: "pure-token", token: "RESET"}}}}},
				{name: "load", arity: 2, flags: admin, summary: "Replaces the users by those of the aclfile. A file with faults changes nothing.", reply: "ok", run: aclLoad},
				{name: "save", arity: 2, flags: admin, summary: "Writes the users to the aclfile.", reply: "ok", run: aclSave},
				{name: "help", arity: 2, flags: about, summary: "This list.", reply: "array", run: help},
			}},
	}
}

// aclSetUser is ACL SETUSER username [rule ...].
func aclSetUser(s *Session, args [][]byte) {
	rules := make([]string, len(args)-3)
	for i := range rules {
		rules[i] = string(args[i+3])
	}
	switch bad, err := s.srv.accounts.set(string(args[2]), rules); {
	case err == nil:
		s.ok()
	case bad != "":
		s.fail(fmt.Sprintf("ERR Error in ACL SETUSER modifier '%s': %v", bad, err))
	default:
		s.failWith(err)
	}
}

// aclGetUser is ACL GETUSER username.
func aclGetUser(s *Session, args [][]byte) {
	who := s.srv.accounts.get(string(args[2]))
	if who == nil {
		s.null()
		return
	}
	r := who.rights.Load()
	s.dict(6)
	s.text("flags")
	s.set(len(r.flags()))
	for _, f := range r.flags() {
		s.text(f)
	}
	s.text("passwords")
	s.texts(r.hashes())
	s.text("commands")
	s.text(strings.Join(r.commandWords(), " "))
	s.text("keys")
	s.text(strings.Join(r.keyWords(), " "))
	s.text("channels")
	s.text(strings.Join(r.channelWords(), " "))
	s.text("selectors") // for drivers that look for them
	s.array(0)
}

// aclDelUser is ACL DELUSER username [username ...].
func aclDelUser(s *Session, args [][]byte) {
	var names []string
	for _, name := range args[2:] {
		if string(name) == defaultUser {
			s.fail("ERR The 'default' user cannot be removed")
			return
		}
		names = append(names, string(name))
	}
	s.int(s.srv.accounts.drop(names))
	s.dismiss()
}

// dismiss ends the connections of users that were removed, this one after its
// answer. Whoever logs in as one at this moment is noticed at its next command.
func (s *Session) dismiss() {
	s.srv.mu.Lock()
	defer s.srv.mu.Unlock()
	for c := range s.srv.conns {
		other := c.session()
		if other != s && other.shown.Load().user.rights.Load().gone && other.killed.CompareAndSwap(false, true) {
			c.cut()
		}
	}
	if s.user.rights.Load().gone {
		s.act = actionClose
	}
}

func aclList(s *Session, args [][]byte) { s.texts(s.srv.accounts.lines()) }

func aclUsers(s *Session, args [][]byte) { s.texts(s.srv.accounts.names()) }

func aclWhoAmI(s *Session, args [][]byte) { s.text(s.user.name) }

// aclCat is ACL CAT [category].
func aclCat(s *Session, args [][]byte) {
	var names []string
	switch len(args) {
	case 2:
		for _, c := range categories {
			names = append(names, c.name)
		}
	case 3:
		found, known := s.srv.table.members(strings.ToLower(string(args[2])))
		if !known {
			s.fail(fmt.Sprintf("ERR Unknown category '%.128s'", args[2]))
			return
		}
		for _, c := range found {
			names = append(names, c.full)
		}
	default:
		s.tryHelp(args)
		return
	}
	s.texts(names)
}

// maxGenPassBits is Redis's.
const maxGenPassBits = 4096

// aclGenPass is ACL GENPASS [bits]: hex digits, as many as hold the bits.
func aclGenPass(s *Session, args [][]byte) {
	bits := int64(256)
	if len(args) > 3 {
		s.tryHelp(args)
		return
	}
	if len(args) == 3 {
		var ok bool
		if bits, ok = parseInt(args[2]); !ok {
			s.fail(errNotInteger)
			return
		}
	}
	if bits < 1 || bits > maxGenPassBits {
		s.fail(fmt.Sprintf("ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to %d", maxGenPassBits))
		return
	}
	random := make([]byte, (bits+7)/8)
	rand.Read(random)
	s.text(hex.EncodeToString(random)[:(bits+3)/4])
}

// tellACLLog is how many entries ACL LOG tells when it is not said.
const tellACLLog = 10

// aclLogTell is ACL LOG [count | RESET].
func aclLogTell(s *Session, args [][]byte) {
	count := int64(tellACLLog)
	switch {
	case len(args) > 3:
		s.tryHelp(args)
		return
	case len(args) == 3 && equalFold(args[2], "reset"):
		s.srv.accounts.log.reset()
		s.ok()
		return
	case len(args) == 3:
		var ok bool
		if count, ok = parseInt(args[2]); !ok {
			s.fail(errNotInteger)
			return
		}
	}
	entries := s.srv.accounts.log.newest(max(count, 0))
	s.array(len(entries))
	for _, e := range entries {
		s.aclEntry(e)
	}
}

// aclEntry is one entry in Redis 7.2's form.
func (s *Session) aclEntry(e aclEntry) {
	s.dict(10)
	s.text("count")
	s.int(e.count)
	s.text("reason")
	s.text(e.reason)
	s.text("context")
	if e.atOnce {
		s.text("multi")
	} else {
		s.text("toplevel")
	}
	s.text("object")
	s.text(e.object)
	s.text("username")
	s.text(e.user)
	s.text("age-seconds")
	s.double(float64(s.now-e.last) / 1000)
	s.text("client-info")
	s.text(e.client)
	s.text("entry-id")
	s.int(e.id)
	s.text("timestamp-created")
	s.int(e.first)
	s.text("timestamp-last-updated")
	s.int(e.last)
}

// double is a number with a fraction: RESP2 has a bulk string for it.
func (s *Session) double(f float64) {
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if s.proto == 2 {
		s.text(text)
		return
	}
	s.out = append(append(append(s.out, ','), text...), "\r\n"...)
}

// texts is an array of bulk strings.
func (s *Session) texts(all []string) {
	s.array(len(all))
	for _, t := range all {
		s.text(t)
	}
}

// tryHelp answers a subcommand with too many words as Redis does where it has no
// arity for it.
func (s *Session) tryHelp(args [][]byte) {
	s.fail(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try %s HELP.", args[1], strings.ToUpper(string(args[0]))))
}

// aclLoad is ACL LOAD. Of what is wrong with the file the reply tells the first
// and the log all.
func aclLoad(s *Session, args [][]byte) {
	if s.srv.accounts.store == nil {
		s.fail(errNoUserFile)
		return
	}
	file, err := s.srv.accounts.store.Load()
	if err == nil {
		s.srv.accounts.replace(file)
		s.ok()
		s.dismiss()
		return
	}
	var faults UserFaults
	if !errors.As(err, &faults) {
		faults = UserFaults{err.Error()}
	}
	for _, f := range faults {
		s.srv.log.Error("the aclfile is refused, all users stay as they were", "fault", f)
	}
	s.fail("ERR " + faults[0] + ". WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
}

// aclSave is ACL SAVE.
func aclSave(s *Session, args [][]byte) {
	if s.srv.accounts.store == nil {
		s.fail(errNoUserFile)
		return
	}
	if err := s.srv.accounts.store.Save(s.srv.accounts.text()); err != nil {
		s.srv.log.Error("the aclfile cannot be written", "err", err)
		s.fail("ERR There was an error trying to save the ACLs. Please check the server logs for more information")
		return
	}
	s.ok()
}
