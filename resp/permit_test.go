package resp

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rlserver/rlserver/shard"
)

// A role is a user as teams have them, and what it must and must not be able to do.
type role struct {
	name  string
	rules string
	may   func(c *command) bool // with a key that begins with app:
}

func in(categories ...string) func(*command) bool {
	return func(c *command) bool {
		has := func(name string) bool { return slices.Contains(c.categories(), name) }
		return slices.ContainsFunc(categories, has) || slices.Contains([]string{"auth", "hello", "quit", "reset"}, c.full)
	}
}

var roles = []role{
	{"nobody", "", in()},
	{"limiter", "on nopass ~app:* +@limiter +@connection", in("@limiter", "@connection")},
	{"reader", "on nopass %R~* +@read", in("@read")},
	{"cleaner", "on nopass %W~app:* +del +unlink +rl.reset", func(c *command) bool {
		return in()(c) || slices.Contains([]string{"del", "unlink", "rl.reset"}, c.full)
	}},
	{"operator", "on nopass ~* &* +@all -@dangerous", func(c *command) bool { return !slices.Contains(c.categories(), "@dangerous") }},
	{"admin", "on nopass ~* &* +@all", func(*command) bool { return true }},
}

// matrixServer has the roles, a key for each kind of pattern, and a password for
// the user default, so that nobody is anybody without logging in.
func matrixServer(t *testing.T) *Server {
	srv := newTestServer(standingClock{})
	settings := *srv.settings.Load()
	settings.Password = "secret"
	srv.Apply(settings)
	c := newTalker(t, srv)
	c.raw("AUTH secret")
	for _, line := range []string{"RL.ACQUIRE app:1 1 10", "RL.ACQUIRE app:2 1 10", "RL.ACQUIRE other:1 1 10", "RL.LOG other:2 5 1h", "RL.LIMIT SET app:limit 1:10"} {
		if out := c.raw(line); strings.HasPrefix(out, "-") {
			t.Fatal(line, out)
		}
	}
	for _, r := range roles {
		if bad, err := srv.accounts.set(r.name, strings.Fields(r.rules)); err != nil {
			t.Fatal(r.name, bad, err)
		}
	}
	return srv
}

// contents are all keys with what is stored for them, and the limits.
func contents(srv *Server) string {
	entries := map[string]string{}
	srv.store.Each(func(batch []shard.Change) bool {
		for _, c := range batch {
			entries[string(c.Key)] = fmt.Sprintf("%d %x %d", c.Kind, c.Value, c.Deadline)
		}
		return true
	})
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		fmt.Fprintf(&b, "%q %s\n", key, entries[key])
	}
	for _, n := range srv.store.Limits().List() {
		fmt.Fprintf(&b, "%s %s\n", n.Name, n.Limit)
	}
	return b.String()
}

// calls are a command's words at its least arity, and with more words of each
// kind if it takes more, with keys that begin with app:.
func (c *command) calls() (calls [][]string) {
	words := strings.Split(c.full, "|")
	least := max(c.arity, -c.arity)
	switch {
	case c.subs != nil && least == 1:
		return [][]string{words}
	case c.subs != nil: // with any word it is a subcommand, or none that there is
		return nil
	}
	for n := least; n <= least+2*max(c.step, 1); n++ {
		call := slices.Clone(words)
		for i := len(words); i < n; i++ {
			call = append(call, fmt.Sprintf("w%d", i))
		}
		for _, i := range c.keys(byteWords(call)) {
			call[i] = "app:" + call[i]
		}
		calls = append(calls, call)
		if c.arity > 0 {
			break
		}
	}
	return calls
}

func byteWords(words []string) (all [][]byte) {
	for _, w := range words {
		all = append(all, []byte(w))
	}
	return all
}

// say has a new connection of srv log in as the role and send a call.
func say(t *testing.T, srv *Server, as string, call []string) string {
	c := newTalker(t, srv)
	if as != "nobody" {
		if out := c.raw("AUTH " + as + " x"); out != "+OK\r\n" {
			t.Fatalf("%s cannot log in: %s", as, out)
		}
	}
	return c.raw(strings.Join(call, " "))
}

// TestMatrix: every command as every role, as the table of commands says. Who
// may not is told so, and nothing changes.
func TestMatrix(t *testing.T) {
	srv := matrixServer(t)
	before := contents(srv)
	tried := 0
	refused := func(as string, call []string, want string) {
		t.Helper()
		tried++
		if out := say(t, srv, as, call); !strings.HasPrefix(out, want) {
			t.Errorf("%s, %q: %q, want %s", as, call, out, want)
		}
		if after := contents(srv); after != before {
			t.Errorf("%s, %q was refused and changed something:\n%swas\n%s", as, call, after, before)
			before = after
		}
	}
	for _, r := range roles {
		for _, c := range newTable(rows()).all() {
			for _, call := range c.calls() {
				noPerm := "-NOPERM this user has no permissions to run the '" + c.full + "' command"
				switch may := r.may(c); {
				case !may && r.name == "nobody":
					refused(r.name, call, "-NOAUTH ")
				case !may:
					refused(r.name, call, noPerm)
				case r.name == "limiter", r.name == "cleaner":
					for _, i := range c.keys(byteWords(call)) { // each key alone is one too many
						other := slices.Clone(call)
						other[i] = "other:1"
						refused(r.name, other, errNoPermKey2)
					}
				}
			}
		}
	}
	t.Logf("%d refusals", tried)
	for _, r := range roles { // what may be done comes last: it changes this and that
		for _, c := range newTable(rows()).all() {
			for _, call := range c.calls() {
				if !r.may(c) {
					continue
				}
				if c.flags&flagAllKeys != 0 && len(c.keys(byteWords(call))) == 0 && !strings.Contains(r.rules, "~* ") {
					refused(r.name, call, "-NOPERM this call of '"+c.full+"' reaches keys")
				} else if out := say(t, srv, r.name, call); strings.HasPrefix(out, "-NO") && (r.name != "nobody" || !strings.HasPrefix(out, "-NOAUTH HELLO must")) {
					t.Errorf("%s, %q: %q", r.name, call, out)
				}
				srv.accounts.set(r.name, []string{"on", "nopass"})
				before = contents(srv)
			}
		}
	}
}

const errNoPermKey2 = "-" + errNoPermKey + "\r\n"

// TestRolesAreSafe: whatever commands come, these roles cannot do certain things.
func TestRolesAreSafe(t *testing.T) {
	for _, c := range newTable(rows()).all() {
		for _, r := range roles {
			never := map[string]flag{"nobody": flagWrite | flagRead | flagAdmin | flagLimiter, "limiter": flagAdmin, "reader": flagWrite | flagAdmin, "operator": flagAdmin}[r.name]
			if r.may(c) && c.flags&never != 0 {
				t.Errorf("%s may run %s", r.name, c.full)
			}
		}
	}
}

// TestPatternsNeedAllKeys: a call that reaches keys which it does not name.
func TestPatternsNeedAllKeys(t *testing.T) {
	for _, c := range []struct {
		rules string
		may   bool
	}{
		{"~app:*", false},
		{"~app:* %R~*", false},
		{"%W~app:*", false},
		{"~**", false}, // it is all keys and does not say so in the one way there is
		{"~*", true},
		{"%W~*", true},
		{"~app:* %W~*", true},
		{"%R~* %W~*", true},
	} {
		for _, line := range []string{"RL.RESET MATCH app:*", "RL.RESET match *", "FLUSHALL", "FLUSHDB ASYNC"} {
			srv := matrixServer(t)
			if bad, err := srv.accounts.set("u", append(strings.Fields(c.rules), "on", "nopass", "+@all")); err != nil {
				t.Fatal(bad, err)
			}
			before := contents(srv)
			out := say(t, srv, "u", strings.Fields(line))
			if strings.HasPrefix(out, "-NOPERM ") == c.may || !c.may && contents(srv) != before {
				t.Errorf("%s: %s: %q", c.rules, line, out)
			}
		}
	}
	// A key that is called MATCH is a key.
	srv := matrixServer(t)
	if out := say(t, srv, "cleaner", strings.Fields("RL.RESET MATCH app:1 app:2")); out != errNoPermKey2 {
		t.Errorf("a key called MATCH: %q", out)
	}
	if out := say(t, srv, "cleaner", strings.Fields("RL.RESET app:1 app:2")); out != ":2\r\n" {
		t.Errorf("two keys: %q", out)
	}
}

// TestRightsChangeAtOnce: for clients that are logged in, between two commands
// of one packet too.
func TestRightsChangeAtOnce(t *testing.T) {
	srv := matrixServer(t)
	admin, c := newTalker(t, srv), newTalker(t, srv)
	admin.raw("AUTH admin x")
	c.raw("AUTH limiter x")
	steps := []struct{ change, say, want string }{
		{"ACL SETUSER limiter -rl.peek", "RL.PEEK app:1", "-NOPERM "},
		{"ACL SETUSER limiter +rl.peek", "RL.PEEK app:1", "*5"},
		{"ACL SETUSER limiter resetkeys", "RL.PEEK app:1", "-NOPERM "},
		{"ACL SETUSER limiter ~*", "RL.PEEK app:1", "*5"},
		{"ACL SETUSER limiter +@all", "CONFIG GET x", "*0"},
		{"ACL SETUSER limiter off resetpass", "CONFIG GET x", "*0"},
		{"ACL SETUSER limiter -@all", "CONFIG GET x", "-NOPERM "},
		{"ACL SETUSER limiter +@all on nopass", "PING", "+PONG"},
	}
	for _, s := range steps {
		if out := admin.raw(s.change); out != "+OK\r\n" {
			t.Fatal(s.change, out)
		}
		if out := c.raw(s.say); !strings.HasPrefix(out, s.want) {
			t.Errorf("after %s: %s: %q, want %s", s.change, s.say, out, s.want)
		}
	}
	in := bytes.Join([][]byte{frame("ACL", "SETUSER", "limiter", "-ping"), frame("PING"), frame("ACL", "SETUSER", "limiter", "+ping"), frame("PING")}, nil)
	c.s.Feed(in)
	if out := string(c.s.Output()); out != "+OK\r\n-NOPERM this user has no permissions to run the 'ping' command\r\n+OK\r\n+PONG\r\n" {
		t.Errorf("in one packet: %q", out)
	}
}

// TestRemovedUser: whoever is logged in as a user that is removed is
// disconnected and never becomes another user of that name, or default.
func TestRemovedUser(t *testing.T) {
	for _, line := range []string{"PING", "RL.PEEK app:1", "AUTH admin x", "HELLO 3", "RESET", "QUIT"} {
		for _, again := range []bool{false, true} {
			srv := matrixServer(t)
			c := newTalker(t, srv)
			c.raw("AUTH operator x")
			if n := srv.accounts.drop([]string{"operator", "nosuch", "operator"}); n != 1 {
				t.Fatalf("%d users dropped", n)
			}
			if again {
				srv.accounts.set("operator", []string{"on", "nopass", "+@all", "~*"})
			}
			c.s.Feed(frame(strings.Fields(line)...))
			if out := c.s.Output(); len(out) > 0 || c.s.act != actionClose {
				t.Errorf("%s: %q, action %d", line, out, c.s.act)
			}
		}
	}
	srv := matrixServer(t)
	c := newTalker(t, srv)
	c.raw("AUTH admin x")
	c.s.Feed(append(frame("ACL", "DELUSER", "admin"), frame("PING")...))
	if out := string(c.s.Output()); out != ":1\r\n" || c.s.act != actionClose {
		t.Errorf("who removes itself: %q, action %d", out, c.s.act)
	}
}

// TestRightsInTransactions: to keys, too, and what is refused is noted as of a
// transaction.
func TestRightsInTransactions(t *testing.T) {
	srv := matrixServer(t)
	srv.accounts.set("limiter", []string{"+@transaction"})
	c := newTalker(t, srv)
	c.raw("AUTH limiter x")
	before := contents(srv)
	c.raw("MULTI")
	if out := c.raw("RL.ACQUIRE other:1 1 10") + c.raw("EXEC"); out != errNoPermKey2+"-"+errExecAbort+"\r\n" {
		t.Errorf("refused when it is queued: %q", out)
	}
	for _, line := range []string{"MULTI", "RL.ACQUIRE app:1 1 10", "RL.PEEK app:1", "CLIENT GETNAME"} {
		c.raw(line)
	}
	srv.accounts.set("limiter", []string{"-rl.acquire", "-client", "resetkeys", "~other:*"})
	want := "*3\r\n-NOPERM this user has no permissions to run the 'rl.acquire' command\r\n" + errNoPermKey2 +
		"-NOPERM this user has no permissions to run the 'client|getname' command\r\n"
	if out := c.raw("EXEC"); out != want {
		t.Errorf("refused when it runs: %q", out)
	}
	if contents(srv) != before {
		t.Error("and something has changed")
	}
	for _, e := range srv.accounts.log.newest(3) {
		if !e.atOnce {
			t.Errorf("%s %s: not told to be of a transaction", e.reason, e.object)
		}
	}
}

// TestRestrictedAllocatesNothing: a user with few rights costs no memory, for
// what it may do.
func TestRestrictedAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget at random")
	}
	srv := newTestServer(standingClock{})
	srv.accounts.set("limiter", strings.Fields("on nopass ~a:* ~b:* ~app:* +@limiter"))
	long := "app:" + strings.Repeat("x", 100)
	in := slices.Concat(frame("RL.ACQUIRE", long, "10", "20"), frame("RL.PEEK", long), frame("RL.ACQUIREALL", long, "10:20", "1", "app:2", "10:20", "1"))
	allocations := map[string]float64{}
	for _, as := range []string{defaultUser, "limiter"} {
		s := srv.newSession("test", "test")
		s.Feed(frame("AUTH", as, "x"))
		s.Written()
		run := func() {
			s.Feed(in)
			s.Written()
		}
		run()
		allocations[as] = testing.AllocsPerRun(100, run)
	}
	if allocations["limiter"] > allocations[defaultUser] {
		t.Errorf("allocations: %v", allocations)
	}
}

// BenchmarkAcquireAs is BenchmarkAcquire on one key, as users with all rights
// and with few.
func BenchmarkAcquireAs(b *testing.B) {
	for _, as := range []struct{ name, rules string }{
		{"all", "~* +@all"},
		{"one-pattern", "~key:* +@limiter"},
		{"eight-patterns", "~a:* ~b:* ~c:* ~d:* ~e:* ~f:* ~g:* ~key:* +@limiter"},
	} {
		b.Run(as.name, func(b *testing.B) {
			srv := newTestServer(standingClock{})
			if bad, err := srv.accounts.set("u", append(strings.Fields(as.rules), "on", "nopass")); err != nil {
				b.Fatal(bad, err)
			}
			s := srv.newSession("test", "test")
			s.Feed(frame("AUTH", "u", "x"))
			s.Written()
			const depth = 32
			in := bytes.Repeat(frame("RL.ACQUIRE", "key:000000000001", "10", "20"), depth)
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += depth {
				s.Feed(in)
				s.Written()
			}
		})
	}
}
