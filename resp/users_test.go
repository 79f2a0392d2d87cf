package resp

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestPasswordFits: each of all passwords fits, and nothing else does.
func TestPasswordFits(t *testing.T) {
	var all []password
	for i := range maxPasswords {
		all = append(all, *hash(fmt.Sprint("password ", i)))
	}
	for n := range maxPasswords + 1 {
		for i, p := range all {
			if got := passwordFits(all[:n], p); got != (i < n) {
				t.Errorf("of %d passwords, number %d: %v", n, i, got)
			}
		}
		if passwordFits(all[:n], password{}) {
			t.Errorf("of %d passwords the empty hash is one", n)
		}
	}
}

// TestLogin: who is let in.
func TestLogin(t *testing.T) {
	u := newUsers(newTable(rows()), "")
	for name, rules := range map[string]string{
		"two": "on >first >second", "off": "off >first", "any": "on nopass", "any-off": "off nopass", "none": "on",
		"hash": "on #" + fmt.Sprintf("%x", *hash("hashed")), "empty": "on >", "gone": "on nopass", "narrowed": "on nopass >x", "widened": "on >x nopass",
	} {
		if bad, err := u.set(name, strings.Fields(rules)); err != nil {
			t.Fatal(bad, err)
		}
	}
	u.drop([]string{"gone"})
	for _, c := range []struct {
		name, pass string
		in         bool
	}{
		{"two", "first", true}, {"two", "second", true}, {"two", "third", false}, {"two", "", false}, {"two", "First", false}, {"two", "first\x00", false},
		{"Two", "first", false}, {"two\x00", "first", false}, {"off", "first", false}, {"any", "", true}, {"any", "x", true}, {"any-off", "", false},
		{"none", "", false}, {"none", "x", false}, {"hash", "hashed", true}, {"hash", fmt.Sprintf("%x", *hash("hashed")), false}, {"empty", "", true}, {"empty", "x", false},
		{"narrowed", "x", true}, {"narrowed", "y", false}, {"widened", "y", true}, {"gone", "", false}, {"", "", false}, {"nosuch", "", false}, {defaultUser, "x", true}, {"two", strings.Repeat("x", 1<<20), false},
	} {
		if _, in := u.login([]byte(c.name), []byte(c.pass)); in != c.in {
			t.Errorf("%q with %.20q: let in %v, want %v", c.name, c.pass, in, c.in)
		}
	}
}

// TestLoginTellsNothing: a login takes as long for a user that there is not, for
// one with many passwords, and whichever of them fits.
func TestLoginTellsNothing(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("measures time")
	}
	u := newUsers(newTable(rows()), "secret")
	many := []string{"on"}
	for i := range maxPasswords {
		many = append(many, fmt.Sprint(">", i))
	}
	u.set("many", many)
	u.set("one", []string{"on", ">0"})
	logins := [][2]string{{"nosuch", "x"}, {"one", "x"}, {"one", "0"}, {"many", "x"}, {"many", "0"}, {"many", "31"}, {defaultUser, "x"}}
	const samples, each = 400, 50
	var ratio float64
	for range 3 { // a busy machine has more than one chance
		times := make([][]time.Duration, len(logins))
		for range samples {
			for i, l := range logins {
				name, pass := []byte(l[0]), []byte(l[1])
				start := time.Now()
				for range each {
					u.login(name, pass)
				}
				times[i] = append(times[i], time.Since(start)/each)
			}
		}
		var medians []time.Duration
		for _, ts := range times {
			slices.Sort(ts)
			medians = append(medians, ts[len(ts)/2])
		}
		ratio = float64(slices.Max(medians)) / float64(slices.Min(medians))
		t.Logf("medians %v, ratio %.2f", medians, ratio)
		if ratio < 1.3 {
			return
		}
	}
	t.Errorf("the slowest login takes %.2f times as long as the fastest", ratio)
}

func TestUserBounds(t *testing.T) {
	u := newUsers(newTable(rows()), "")
	for _, name := range []string{"", "a b", "a\nb", "a\x00", strings.Repeat("x", maxUserName+1)} {
		if _, err := u.set(name, nil); err == nil || u.get(name) != nil {
			t.Errorf("a user can be called %.20q", name)
		}
	}
	for i := range maxUsers - 1 {
		if _, err := u.set(fmt.Sprint(i), nil); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, err := u.set("one more", nil); err == nil {
		t.Error("a user too many")
	}
	if _, err := u.set("17", []string{"on"}); err != nil {
		t.Error("a user that there is cannot be changed:", err)
	}
	if file, err := ParseUsers("users.acl", u.text()); err != nil || file.Len() != maxUsers {
		t.Errorf("the file of the most users: %v", err)
	}
	if _, err := ParseUsers("users.acl", u.text()+"user more\n"); err == nil {
		t.Error("a file of a user too many")
	}
}

// TestUserFile: what is wrong with a file is told with its line and without its
// secrets.
func TestUserFile(t *testing.T) {
	const secret = "hunter2"
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"\n \n\t\r\n", ""},
		{"user a on nopass\r\n\r\nuser b\r\n", ""},
		{"  user   a\ton  \n", ""},
		{"# users\n", "u:1: should start with user keyword followed by the username"},
		{"USER a\n", "u:1: should start with user keyword followed by the username"},
		{"user\n", "u:1: should start with user keyword followed by the username"},
		{"user a\nuser b\nuser a\n", "u:3: Duplicate user 'a' found"},
		{"user a\x00\n", "u:1: Usernames can't contain spaces or null characters"},
		{"user a on " + secret, "u:1: word 4: Syntax error"},
		{"user a on #" + secret, "u:1: word 4: The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"},
		{"user a on <" + secret, "u:1: word 4: The password you are trying to remove from the user does not exist"},
		{"user a >" + secret + " >" + secret + " (~a +get >" + secret + ")", "u:1: word 5: selectors are not supported: expected one set of rules for each user\n" +
			"u:1: word 6 '+get': Unknown command or category name in ACL"},
		{"user a +nosuch -@nosuch ~* ~b\nuser b on\nnonsense\n", "u:1: word 3 '+nosuch': Unknown command or category name in ACL\n" +
			"u:1: word 4 '-@nosuch': Unknown command or category name in ACL\n" +
			"u:1: word 6 '~b': " + errRuleKeys.Error() + "\nu:3: should start with user keyword followed by the username"},
	} {
		file, err := ParseUsers("u", c.text)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want || (file == nil) != (err != nil) {
			t.Errorf("%q:\n%s\nwant\n%s", c.text, got, c.want)
		}
		if strings.Contains(got, secret) {
			t.Errorf("%q: a secret is told", c.text)
		}
	}
	_, err := ParseUsers("u", strings.Repeat("x\n", 1000))
	if n := strings.Count(fmt.Sprint(err), "\n"); n != maxUserFaults {
		t.Errorf("%d lines about a thousand faults", n+1)
	}
}

// TestRequirePass: requirepass and the ACL rules of the user default have each
// the last word when they are said.
func TestRequirePass(t *testing.T) {
	u := newUsers(newTable(rows()), "")
	open := func(want bool) {
		t.Helper()
		if got := u.dflt.rights.Load().open(); got != want {
			t.Errorf("open %v, want %v", got, want)
		}
	}
	fits := func(pass string, want bool) {
		t.Helper()
		if _, in := u.login([]byte(defaultUser), []byte(pass)); in != want {
			t.Errorf("%q fits: %v, want %v", pass, in, want)
		}
	}
	open(true)
	u.requirePassword("one")
	open(false)
	fits("one", true)
	u.set(defaultUser, []string{">two"})
	fits("one", true)
	fits("two", true)
	u.requirePassword("one") // as any other CONFIG SET does
	fits("two", true)
	u.requirePassword("three")
	fits("one", false)
	fits("two", false)
	fits("three", true)
	u.set(defaultUser, []string{"nopass", "-@dangerous"})
	open(true)
	u.requirePassword("four")
	open(false)
	if got := u.dflt.rights.Load().commandWords(); !slices.Equal(got, []string{"+@all", "-@dangerous"}) {
		t.Errorf("requirepass changed what may be done: %v", got)
	}
	file, err := ParseUsers("u", "user other on nopass")
	if err != nil {
		t.Fatal(err)
	}
	u.set(defaultUser, []string{">five", "-@all"})
	u.replace(file) // does not name it: it is what requirepass says, and not let in without a password as by Redis
	open(false)
	fits("four", true)
	fits("five", false)
	if r := u.dflt.rights.Load(); !r.everything {
		t.Errorf("the user default is %v", r)
	}
	u.requirePassword("")
	open(true)
	if file, err = ParseUsers("u", "user default off"); err != nil {
		t.Fatal(err)
	}
	u.replace(file)
	open(false)
	fits("four", false)
	if u = newUsers(u.table, "five"); u.dflt.rights.Load().open() {
		t.Error("requirepass at the start is not in force")
	}
}

// TestACLLog: what is the same within a minute is one entry; no more than 128
// are kept, and of what a client sent no more than 256 bytes.
func TestACLLog(t *testing.T) {
	var l aclLog
	add := func(at int64, object string) {
		l.add(aclEntry{reason: "key", user: "u", object: object, client: fmt.Sprint("at ", at), last: at})
	}
	show := func() (text string) {
		for _, e := range l.newest(5) {
			text += fmt.Sprintf("%s x%d #%d %d..%d %s; ", e.object, e.count, e.id, e.first, e.last, e.client)
		}
		return text
	}
	add(1000, "a")
	add(2000, "b")
	add(61000, "a")
	if got, want := show(), "a x2 #0 1000..61000 at 61000; b x1 #1 2000..2000 at 2000; "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	add(62001, "b")
	if got, want := show(), "b x1 #2 62001..62001 at 62001; a x2 #0 1000..61000 at 61000; b x1 #1 2000..2000 at 2000; "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for i := range 3 * maxACLLog {
		add(70000, fmt.Sprint(strings.Repeat("x", 2*maxLogText), i))
		add(70000, fmt.Sprint(i))
	}
	all := l.newest(1 << 40)
	if len(all) != maxACLLog || all[0].object != fmt.Sprint(3*maxACLLog-1) {
		t.Errorf("%d entries, the newest %.20s", len(all), all[0].object)
	}
	for _, e := range all {
		if len(e.object) > maxLogText {
			t.Errorf("an object of %d bytes", len(e.object))
		}
	}
	if l.reset(); len(l.newest(1)) != 0 {
		t.Error("RESET leaves entries")
	}
}

// TestACLLogTells: each way to be refused, and how it is counted.
func TestACLLogTells(t *testing.T) {
	srv := matrixServer(t)
	c := newTalker(t, srv)
	for _, line := range []string{"HELLO 3 AUTH limiter2 x", "auth operator2 x", "AUTH limiter x", "FLUSHALL", "RL.PEEK other:1", "RL.PEEK other:1", "RL.RESET MATCH *", "RL.PEEK app:1"} {
		c.raw(line)
	}
	got := ""
	for _, e := range srv.accounts.log.newest(9) {
		got += fmt.Sprintf("%s %s %s x%d; ", e.reason, e.object, e.user, e.count)
	}
	if want := "key * limiter x1; key other:1 limiter x2; command flushall limiter x1; auth auth operator2 x1; auth HELLO limiter2 x1; "; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if st := srv.Stats(); st.AuthFailures != 2 || st.DeniedCommands != 1 || st.DeniedKeys != 3 {
		t.Errorf("counted %d logins, %d commands, %d keys", st.AuthFailures, st.DeniedCommands, st.DeniedKeys)
	}
}

// movedClock stands still until it is moved.
type movedClock struct{ ns atomic.Int64 }

func (c *movedClock) NowNs() int64 { return 1767225600e9 + c.ns.Load() }

// TestWrongPasswordsAreLogged at most once a minute, and never what was sent.
func TestWrongPasswordsAreLogged(t *testing.T) {
	var out bytes.Buffer
	clock := &movedClock{}
	srv := newTestServer(clock)
	srv.log = slog.New(slog.NewTextHandler(&out, nil))
	apply(srv, func(s *Settings) { s.Password = "secret" })
	c := newTalker(t, srv)
	for minute := range 3 {
		for range 100 {
			for _, line := range []string{"AUTH hunter2", "AUTH hunter2 default", "HELLO 3 AUTH hunter2 hunter2"} {
				if reply := c.raw(line); strings.Contains(reply, "hunter2") || !strings.HasPrefix(reply, "-WRONGPASS ") {
					t.Fatal(reply)
				}
			}
		}
		if n := strings.Count(out.String(), "\n"); n != minute+1 {
			t.Errorf("in minute %d there are %d lines", minute, n)
		}
		clock.ns.Add(60e9)
	}
	if text := out.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "failures=601") {
		t.Error(text)
	}
}

// TestWrongPasswordsAreAnsweredLate: each later than the one before, and a right
// one at once.
func TestWrongPasswordsAreAnsweredLate(t *testing.T) {
	wrong := "-" + errWrongPass + "\r\n"
	carried(t, func(srv *Server) { apply(srv, func(s *Settings) { s.Password = "secret" }) }, func(t *testing.T, srv *Server, addr string) {
		c := connect(t, addr)
		start, least := time.Now(), time.Duration(0)
		c.send("AUTH secret\r\n" + strings.Repeat("AUTH wrong\r\n", 4) + "PING\r\n")
		c.expect("+OK\r\n")
		for i := range 4 {
			c.expect(wrong)
			if least += wrongPassDelay << i; time.Since(start) < least {
				t.Errorf("answer %d after %v, want not before %v", i, time.Since(start), least)
			}
		}
		c.expect("+PONG\r\n")

		c.send("AUTH secret\r\nCLIENT REPLY OFF\r\nAUTH wrong\r\nCLIENT REPLY ON\r\n") // late, and not answered at all
		start = time.Now()
		c.expect("+OK\r\n+OK\r\n")
		if took := time.Since(start); took < wrongPassDelay {
			t.Errorf("an unanswered one is late by %v", took)
		}
	})
}

// TestDelayIsNobodyElses: others are served while an answer is to come late.
func TestDelayIsNobodyElses(t *testing.T) {
	carried(t, func(srv *Server) {
		apply(srv, func(s *Settings) { s.Password = "secret" })
		srv.within.wrongPass, srv.within.wrongPassMost = 2*patience, 2*patience
	}, func(t *testing.T, srv *Server, addr string) {
		slow, other := connect(t, addr), connect(t, addr)
		slow.send("AUTH wrong\r\nPING\r\n")
		until(t, "it is looked at", func() bool { return srv.counters.authFailures.Load() == 1 })
		other.send("AUTH secret\r\nPING\r\n")
		other.expect("+OK\r\n+PONG\r\n")
		other.send("CLIENT KILL ADDR " + slow.LocalAddr().String() + "\r\n")
		other.expect(":1\r\n")
	})
}

// TestRightPasswordForgives: after it the next wrong one is answered as early as
// the first.
func TestRightPasswordForgives(t *testing.T) {
	srv := newTestServer(standingClock{})
	apply(srv, func(s *Settings) { s.Password = "secret" })
	s := srv.newSession("test", "test")
	for _, step := range []struct {
		line string
		want time.Duration
	}{
		{"AUTH wrong", wrongPassDelay}, {"AUTH wrong", 2 * wrongPassDelay}, {"AUTH nobody secret", 4 * wrongPassDelay}, {"PING", 0}, {"AUTH secret", 0}, {"HELLO 3 AUTH default wrong", wrongPassDelay},
		{"AUTH wrong", 2 * wrongPassDelay}, {"AUTH wrong", 4 * wrongPassDelay}, {"AUTH wrong", 8 * wrongPassDelay}, {"AUTH wrong", 16 * wrongPassDelay}, {"AUTH wrong", maxWrongPassDelay}, {"AUTH wrong", maxWrongPassDelay},
	} {
		s.Feed(frame(strings.Fields(step.line)...))
		if s.delay != step.want {
			t.Errorf("%s: late by %v, want %v", step.line, s.delay, step.want)
		}
		s.Written()
	}
}

// TestDelayDoesNotHoldUpTheEnd: a client that waits for the answer to a wrong
// password does not keep the server from stopping, nor from cutting it off.
func TestDelayDoesNotHoldUpTheEnd(t *testing.T) {
	carried(t, func(srv *Server) { apply(srv, func(s *Settings) { s.Password = "secret" }) }, func(t *testing.T, srv *Server, addr string) {
		leaves, stays := connect(t, addr), connect(t, addr)
		for _, c := range []*client{leaves, stays} {
			c.send(strings.Repeat("AUTH wrong\r\n", 3))
		}
		until(t, "both are delayed", func() bool { return srv.Stats().AuthFailures >= 2 })
		leaves.Close()
		until(t, "who left is forgotten", func() bool { return srv.connections() == 1 })
		stays.expect("-" + errWrongPass + "\r\n")
	})
}

// memoryStore is an aclfile in memory.
type memoryStore struct{ text atomic.Value }

func (m *memoryStore) Load() (*UserFile, error) { return ParseUsers("memory", m.text.Load().(string)) }
func (m *memoryStore) Save(text string) error   { m.text.Store(text); return nil }

// TestRemovedUsersAreDisconnected: at once, and nobody else is.
func TestRemovedUsersAreDisconnected(t *testing.T) {
	store := &memoryStore{}
	carried(t, func(srv *Server) {
		for _, name := range []string{"a", "b", "admin"} {
			srv.accounts.set(name, strings.Fields("on nopass ~* +@all"))
		}
		store.Save(srv.accounts.text())
		srv.accounts.store = store
	}, func(t *testing.T, srv *Server, addr string) {
		as := func(name string) *client {
			c := connect(t, addr)
			c.send("AUTH " + name + " x\r\n")
			c.expect("+OK\r\n")
			return c
		}
		a1, a2, b, admin, nobody := as("a"), as("a"), as("b"), as("admin"), connect(t, addr)
		admin.send("ACL DELUSER a nosuch\r\n")
		admin.expect(":1\r\n")
		a1.expectEnd("")
		a2.expectEnd("")
		for _, c := range []*client{b, admin, nobody} {
			c.send("PING\r\n")
			c.expect("+PONG\r\n")
		}
		admin.send("ACL LOAD\r\n") // a is back, as another user of that name
		admin.expect("+OK\r\n")
		a := as("a")
		store.Save("user a on nopass +ping\nuser default on nopass +ping\n")
		admin.send("ACL LOAD\r\nPING\r\n")
		admin.expectEnd("+OK\r\n") // its own user is gone
		b.expectEnd("")
		for _, c := range []*client{a, nobody} {
			c.send("PING\r\nDBSIZE\r\n")
			c.expect("+PONG\r\n-NOPERM this user has no permissions to run the 'dbsize' command\r\n")
		}
		until(t, "they are forgotten", func() bool { return srv.connections() == 2 })
	})
}
