package main

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rlserver/rlserver/resp"
)

// aclStreams are about users, in what Redis and we share: the commands, the
// categories and the words. They run one after the other on the same server.
func aclStreams() (all []stream) {
	add := func(sends ...string) {
		for _, s := range sends {
			all = append(all, stream{send: s})
		}
	}
	acl := func(words ...string) string { return said(append([]string{"ACL"}, words...)...) }
	user := func(rules string) string { return acl(append([]string{"SETUSER", "u"}, strings.Fields(rules)...)...) }
	const wipe = "off resetpass resetkeys resetchannels -@all " // reset sets a flag more, which is shown
	tell := acl("GETUSER", "u") + acl("LIST") + said("HELLO", "3") + acl("GETUSER", "u")
	as := func(rules string, calls ...string) {
		add(user(wipe+"on nopass "+rules) + said("AUTH", "u", "x") + strings.Join(calls, ""))
	}
	add(acl("WHOAMI"), acl("whoami"), acl("USERS"), acl("LIST"), acl("GETUSER", "default"), acl("GETUSER", "nosuch"), said("HELLO", "3")+acl("GETUSER", "nosuch"), said("HELLO", "3")+acl("GETUSER", "default"))
	add(acl(), acl("NOSUCH"), acl("SETUSER"), acl("GETUSER"), acl("GETUSER", "a", "b"), acl("DELUSER"), acl("LIST", "x"), acl("USERS", "x"), acl("WHOAMI", "x"), acl("LOAD", "x"), acl("SAVE", "x"))
	add(acl("DELUSER", "default"), acl("DELUSER", "nosuch"), acl("DELUSER", "nosuch", "default"), acl("SETUSER", "a b"), acl("SETUSER", "a\x00b"), acl("SETUSER", "default"))
	add(acl("CAT", "nosuch"), acl("CAT", "a", "b"), acl("GENPASS", "0"), acl("GENPASS", "-1"), acl("GENPASS", "4097"), acl("GENPASS", "x"), acl("GENPASS", "1", "2"), acl("LOG", "x"), acl("LOG", "1", "2"), acl("LOG", "RESET"), acl("LOG"), acl("LOG", "0"), acl("LOG", "-5"))
	hex := regexp.MustCompile(`\r\n[0-9a-f]+\r\n`) // its length stands before it
	for _, bits := range []string{"1", "4", "5", "256", "1023", "4096"} {
		all = append(all, stream{acl("GENPASS", bits), hex})
	}
	all = append(all, stream{acl("GENPASS"), hex})
	// Rules. Of commands there is at most one, as Redis tells of several in an order that is never the same.
	hash := fmt.Sprintf("%064x", 77)
	for _, rules := range []string{
		"", "on", "ON", "off", "on off on", "nopass", ">a", ">a >b >a", ">a <a", ">a nopass", "nopass >a", ">a resetpass", "#" + hash, "#" + hash + " !" + hash,
		"~a", "~a ~b ~a", "~*", "~a ~*", "~* resetkeys ~a", "allkeys", "%R~a", "%W~a", "%RW~a", "%wr~a", "%R~a %W~a", "%R~a ~a", "~", "~[a-z]?\\*", "&a", "&a &b", "&*", "allchannels", "&* resetchannels", "&a resetchannels &b",
		"+ttl", "+TTL", "+del", "+@read", "+@READ", "+@all", "-@all", "allcommands", "nocommands", "+@all -@all", "+@read -ttl", "+@read +del", "+config|get", "+config", "+config|GET", "+@all -@dangerous", "+@all -config|set", "+@all -del",
		"clearselectors",
		"on nopass ~* &* +@all", "on >x ~app:* %R~shared:* +@read +config|get",
		// Wrong, after what is right.
		"on banana", "on >a ~x +nosuch", "+@nosuch", "+", "+@", "-", "-@nosuch", "+config|nosuch", "-config|nosuch", "-ttl|x", "#abc", "#" + strings.ToUpper(fmt.Sprintf("%064x", 0xabc)), "#" + hash + "0", "!abc", "!" + hash, "<nosuch", "%X~a", "%~a", "%", "~* ~a", "~* %R~a", "&* &a", "@read", "=x",
	} {
		add(user(rules)+tell, user(wipe)+tell)
	}
	add(acl("SETUSER", "u", "")+tell, acl("SETUSER", "u", "~a b")+tell, acl("SETUSER", "u", "&a b")+tell, user(wipe))
	// What they may do.
	keys := []string{said("TTL", "app:1"), said("TTL", "b"), said("DEL", "app:1"), said("DEL", "app:1", "app:2"), said("DEL", "app:1", "b"), said("DEL", "b", "app:1"), said("EXISTS", "app:1"), said("EXISTS", "app:1", "b"), said("TYPE", "app:1"), said("TYPE", "b"), said("UNLINK", "app:1"), said("HGET", "app:1", "t"), said("HMGET", "b", "t")}
	for _, rules := range []string{"", "~app:*", "+@all", "~app:* +@all", "%R~app:* +@all", "%W~app:* +@all", "%R~app:* %W~app:? +@all", "%R~app:* %W~app:* +@all", "~app:? +@read", "~* +@write", "~* +@all -@keyspace", "~* -@all +ttl +del", "~app* +@all -del", "~[a-b]* +@all", "~\\app:1 +@all"} {
		as(rules, keys...)
	}
	admin := []string{said("CONFIG", "GET", "nosuch"), said("CONFIG", "SET", "nosuch", "1"), said("CONFIG", "NOSUCH"), said("PING"), said("SELECT", "0"), said("ECHO", "a"), said("CLIENT", "GETNAME"), said("CLIENT", "SETNAME", "a"), said("DBSIZE"), said("LASTSAVE", "x"), said("SHUTDOWN", "x"), said("NOSUCH"), acl("WHOAMI"), acl("SETUSER", "v"), acl("LIST"), said("COMMAND", "INFO", "nosuch"), said("TIME", "x"), said("RESET"), acl("WHOAMI")}
	for _, rules := range []string{"", "~* +@all", "~* +@all -@admin", "~* +@all -@dangerous", "+@connection", "+@fast", "+@slow", "+@admin", "+config", "+config|get", "+config -config|get", "+acl|whoami", "+@keyspace ~*", "+@all -acl"} {
		as(rules, admin...)
	}
	// Logging in, and being logged in when rights change.
	add(user(wipe+"on >a >b")+said("AUTH", "u", "a")+said("AUTH", "u", "b")+said("AUTH", "u", "c")+said("AUTH", "U", "a")+said("AUTH", "u", ""), said("AUTH", "u", "b")+said("PING"), said("HELLO", "3", "AUTH", "u", "a"), said("HELLO", "3", "AUTH", "u", "x"))
	add(user("off")+said("AUTH", "u", "a"), user("on nopass")+said("AUTH", "u", "anything")+said("AUTH", "u", ""), user("resetpass")+said("AUTH", "u", "")+said("AUTH", "u", "a"))
	as("+@all", user("-ping"), said("PING"), user("+ping"), said("PING"), user("off"), said("PING"), user("-@all"), said("PING"))
	as("+@all", user("resetpass"), said("PING"), said("AUTH", "u", "x"), said("PING"))
	as("+@all", acl("DELUSER", "u"), said("PING"))
	add(acl("DELUSER", "u", "v", "nosuch"), acl("USERS"))
	// The user default and requirepass.
	open := acl("SETUSER", "default", "nopass")
	add(acl("SETUSER", "default", ">x")+said("PING")+open, said("CONFIG", "SET", "requirepass", "x")+said("AUTH", "x")+said("AUTH", "default", "x")+said("AUTH", "y")+acl("SETUSER", "default", ">y")+said("AUTH", "x")+said("AUTH", "y")+acl("LIST")+said("CONFIG", "SET", "requirepass", "")+said("AUTH", "x")+acl("LIST"))
	add(acl("SETUSER", "default", "resetpass") + said("AUTH", "x") + said("AUTH", "default", "") + said("PING") + open)
	return all
}

// aclDeviations are what we answer otherwise, after aclStreams.
func aclDeviations() []deviation {
	acl := func(words ...string) string { return said(append([]string{"ACL"}, words...)...) }
	wrong := func(rule, why string) string {
		return "-ERR Error in ACL SETUSER modifier '" + rule + "': " + why + "\r\n" + pong
	}
	const unknown = "Unknown command or category name in ACL"
	const rest = "$9\r\npasswords\r\n*0\r\n$8\r\ncommands\r\n$5\r\n-@all\r\n$4\r\nkeys\r\n$0\r\n\r\n$8\r\nchannels\r\n$0\r\n\r\n$9\r\nselectors\r\n*0\r\n" + pong
	return []deviation{
		{acl("SETUSER", "r", "reset") + acl("GETUSER", "r"), "+OK\r\n*12\r\n$5\r\nflags\r\n*2\r\n$3\r\noff\r\n$16\r\nsanitize-payload\r\n" + rest, "+OK\r\n*12\r\n$5\r\nflags\r\n*1\r\n$3\r\noff\r\n" + rest,
			"there is no payload here, and its words are no rules of ours"},
		{acl("SETUSER", "u", "%R"), "+OK\r\n" + pong, wrong("%R", "Syntax error"), "a pattern without its ~ is a mistake"},
		{acl("SETUSER", "u", "(+ttl ~a)"), "+OK\r\n" + pong, wrong("(+ttl ~a)", "selectors are not supported: expected one set of rules for each user"), "a user has one set of rules"},
		{acl("SETUSER", "u", "+ttl|x"), "+OK\r\n" + pong, wrong("+ttl|x", unknown), "Redis calls it a misuse itself"},
		{acl("SETUSER", "", "on"), "+OK\r\n" + pong, "-ERR a user's name is 1 to 256 bytes long\r\n" + pong, "no line of an aclfile can tell of it"},
		{acl("SETUSER", "f", "on", "nopass", "~a", "+flushall") + said("AUTH", "f", "x") + said("FLUSHALL"), "+OK\r\n+OK\r\n+OK\r\n-NOPERM this user has no permissions to run the 'ping' command\r\n",
			"+OK\r\n+OK\r\n-NOPERM this call of 'flushall' reaches keys that it does not name, and this user has no permissions to access all keys\r\n-NOPERM this user has no permissions to run the 'ping' command\r\n",
			"a pattern of keys is no fence if FLUSHALL goes through it"},
		{acl("SETUSER", "f", "+keys") + said("AUTH", "f", "x") + said("KEYS", "*"), "+OK\r\n+OK\r\n*0\r\n-NOPERM this user has no permissions to run the 'ping' command\r\n",
			"+OK\r\n+OK\r\n-NOPERM this call of 'keys' reaches keys that it does not name, and this user has no permissions to access all keys\r\n-NOPERM this user has no permissions to run the 'ping' command\r\n",
			"nor if KEYS tells what is behind it"},
		{acl("LOAD"), "-ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.\r\n" + pong,
			"-ERR This server is not configured to use an ACL file: start it with aclfile users.acl to have ACL LOAD and ACL SAVE\r\n" + pong, "there is no CONFIG REWRITE"},
	}
}

// sharedUsers are lines that both servers must read and write alike.
const sharedUsers = `user app on #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b ~app:* resetchannels -@all +@hash +del
user dashboard on nopass %R~* resetchannels &news:* -@all +@read +config|get
user default on nopass ~* &* +@all
user off off resetchannels -@all
user ops on #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b #5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8 ~a ~b:[0-9]* %W~c\* resetchannels +@all -@admin -flushall
`

// TestACLFileIsRedis: a file goes from Redis to us and back, and nothing in it
// changes on the way.
func TestACLFileIsRedis(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "users.acl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	read := func() string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	write(sharedUsers)
	redis := startRedis(t, "--aclfile", path)
	ours := startTest(t, []string{"--aclfile", path})
	list := said("ACL", "LIST")
	if a, b := converse(t, "unix", redis, list), converse(t, "tcp", ours.addr, list); a != b {
		t.Errorf("redis reads\n%s\nwe read\n%s", a, b)
	}
	var mode os.FileMode
	for _, s := range []struct{ name, network, addr string }{{"redis", "unix", redis}, {"we", "tcp", ours.addr}, {"redis again", "unix", redis}} {
		if got := converse(t, s.network, s.addr, said("ACL", "LOAD")+said("ACL", "SAVE")); got != "+OK\r\n+OK\r\n" {
			t.Errorf("%s: %q", s.name, got)
		}
		if got := read(); got != sharedUsers {
			t.Errorf("%s: the file is\n%s\nwant\n%s", s.name, got, sharedUsers)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if is := info.Mode().Perm(); s.network == "tcp" && is != mode {
			t.Errorf("the file's mode was %v and is %v", mode, is)
		}
		mode = info.Mode().Perm()
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*new*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	// What is wrong for one is wrong for the other, and changes nothing.
	before := converse(t, "tcp", ours.addr, list)
	for _, text := range []string{"nonsense\n", "# users\n", "user\n", "user a\nuser a\n", "user a banana\n", "user a +nosuch\n", "user a ~* ~b\n", "user a #abc\n", "USER a\n", "user \"a b\" on\n"} {
		write(text)
		for _, s := range []struct{ network, addr string }{{"unix", redis}, {"tcp", ours.addr}} {
			got := converse(t, s.network, s.addr, said("ACL", "LOAD"))
			if !strings.HasPrefix(got, "-ERR ") || !strings.Contains(got, "WARNING: ACL") {
				t.Errorf("%s: %q: %q", s.network, text, got)
			}
		}
	}
	if after := converse(t, "tcp", ours.addr, list); after != before {
		t.Errorf("a file with faults changed users: %s", after)
	}
}

// TestACLFileFaults: a start with a wrong file ends at once, and says where it is wrong.
func TestACLFileFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "users.acl")
	for _, c := range []struct{ text, want string }{
		{"user a on >s3cret\nuser b on s3cret\n", path + ":2: word 4: Syntax error"},
		{"user a +nosuch\n\nusers\n", path + ":1: word 3 '+nosuch': Unknown command or category name in ACL\n" + path + ":3: should start with user keyword"},
		{"-", "aclfile: open " + path + ": no such file or directory (an empty file says"},
	} {
		os.Remove(path)
		if c.text != "-" {
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, check := range []bool{false, true} {
			args := []string{"--port", "0", "--http-addr", "", "--dir", filepath.Join(dir, "data"), "--aclfile", path}
			if check {
				args = append(args, "--check-config")
			}
			code, _, stderr := once(t, args...)
			if code != exitBadUsage || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "s3cret") {
				t.Errorf("%q: exit code %d:\n%s\nwant\n%s", c.text, code, stderr, c.want)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("a start that fails makes a data directory")
	}
	if err := os.WriteFile(path, []byte("user default off\nuser a on nopass +@all\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, t.TempDir(), "--aclfile", path, "--requirepass", "s3cret")
	c := dial(t, p.addr)
	if got := c.do("AUTH", "s3cret"); got.mark != '-' {
		t.Errorf("the user default is off, and is let in: %q", got.lines())
	}
	if got := c.do("AUTH", "a", "x"); got.text != "OK" {
		t.Errorf("%q", got.lines())
	}
	p.stop()
	if log := p.out.String(); !strings.Contains(log, "requirepass is not in force") || strings.Contains(log, "s3cret") {
		t.Errorf("the log says\n%s", log)
	}
}

// TestACLSaveFails: a directory that cannot be written to, and the file stays.
func TestACLSaveFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sub", "users.acl")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := startTest(t, []string{"--aclfile", path})
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	c := dial(t, s.addr)
	if got := c.do("ACL", "SAVE"); got.text != "ERR There was an error trying to save the ACLs. Please check the server logs for more information" {
		t.Errorf("%q", got.lines())
	}
	if got := c.do("ACL", "LOAD"); got.mark != '-' || !strings.Contains(got.text, "no such file") {
		t.Errorf("%q", got.lines())
	}
	if log := s.log.String(); !strings.Contains(log, "the aclfile cannot be written") {
		t.Error(log)
	}
}

// TestCommandsAreRedis: of the commands that both have, Redis says the same
// about categories and about what is done to keys.
func TestCommandsAreRedis(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	ours := startTest(t, nil)
	known := []string{}
	for _, c := range dial(t, ours.addr).do("ACL", "CAT").items {
		known = append(known, "@"+c.text)
	}
	about := func(c *testConn, name string) (categories, keys []string, found bool) {
		info := c.do("COMMAND", "INFO", name).items[0]
		if info.null {
			return nil, nil, false
		}
		admin := slices.ContainsFunc(info.items[2].items, func(w reply) bool { return w.text == "admin" })
		for _, w := range info.items[6].items {
			switch {
			case !slices.Contains(known, w.text), w.text == "@limiter":
			case w.text == "@connection" && admin:
				// What is done to others' connections is not in the category that every driver needs.
			default:
				categories = append(categories, w.text)
			}
		}
		for _, spec := range info.items[8].items {
			for _, w := range spec.items[1].items {
				keys = append(keys, w.text)
			}
		}
		slices.Sort(categories)
		return categories, keys, true
	}
	nc, err := net.Dial("unix", redis)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	// EXPIRE and its kin change nothing here: how long a limiter's key is kept follows from its state. WATCH is @read as
	// all that looks at keys.
	otherwise := []string{"expire", "pexpire", "expireat", "pexpireat", "persist", "watch"}
	r, o := &testConn{t, nc, bufio.NewReader(nc)}, dial(t, ours.addr)
	shared := 0
	for _, row := range resp.Commands() {
		c := row.Name
		categories, keys, found := about(r, c)
		if !found {
			continue
		}
		shared++
		mine, myKeys, _ := about(o, c)
		if slices.Contains(otherwise, c) {
			continue
		}
		if !slices.Equal(categories, mine) || !slices.Equal(keys, myKeys) {
			t.Errorf("%s: redis says %v, keys %v; we say %v, keys %v", c, categories, keys, mine, myKeys)
		}
	}
	if shared < 40 {
		t.Errorf("only %d shared commands", shared)
	}
}

// TestDriversAsUsers: the user of the README's example is enough for what
// drivers say when they connect. What is refused is listed, and no more is.
func TestDriversAsUsers(t *testing.T) {
	t.Parallel()
	srv := startTest(t, nil)
	if got := dial(t, srv.addr).do("ACL", "SETUSER", "app", "on", ">s3cret", "~app:*", "+@limiter", "+@connection"); got.text != "OK" {
		t.Fatal(got.lines())
	}
	refused := map[string]bool{}
	for _, g := range readGreetings(t) {
		for _, login := range [][]string{{"AUTH", "app", "s3cret"}, {"HELLO", "3", "AUTH", "app", "s3cret"}} {
			c := dial(t, srv.addr)
			if got := c.do(login...); got.mark == '-' {
				t.Fatal(got.lines())
			}
			for _, write := range g.writes {
				for _, call := range write {
					if got := c.do(call.words...); strings.HasPrefix(got.text, "NOPERM ") {
						refused[strings.ToLower(call.words[0])] = true
					}
				}
			}
			if d := c.do("RL.ACQUIRE", "app:"+g.driver, "1/m", "10").ints(); len(d) != 5 {
				t.Errorf("%s: the first decision is %v", g.driver, d)
			}
			if got := c.do("RL.ACQUIRE", g.driver, "1/m", "10"); !strings.HasPrefix(got.text, "NOPERM ") {
				t.Errorf("%s: another application's key: %q", g.driver, got.lines())
			}
		}
	}
	// ioredis goes on without INFO; redigo asks for the TIME where a program tells it to; redis-benchmark asks for CONFIG.
	if want := map[string]bool{"info": true, "time": true, "config": true}; !maps.Equal(refused, want) {
		t.Errorf("refused %v, want %v", refused, want)
	}
}

// TestGoRedisUser: a driver logs in as a user and is told what it may not do.
func TestGoRedisUser(t *testing.T) {
	t.Parallel()
	srv := startTest(t, nil)
	admin := dial(t, srv.addr)
	admin.do("ACL", "SETUSER", "app", "on", ">s3cret", "~app:*", "+@limiter", "+@connection")
	admin.do("ACL", "SETUSER", "default", "off")
	for _, protocol := range []int{2, 3} {
		rdb := openRedis(t, &redis.Options{Addr: srv.addr, Protocol: protocol, Username: "app", Password: "s3cret"})
		if d, err := decisionOf(rdb.Do(t.Context(), "RL.ACQUIRE", "app:1", "1/m", 10).Val()); err != nil || len(d) != 5 {
			t.Errorf("RESP%d: %v, %v", protocol, d, err)
		}
		for _, words := range [][]any{{"RL.ACQUIRE", "billing:1", "1/m", 10}, {"FLUSHALL"}, {"ACL", "LIST"}} {
			if err := rdb.Do(t.Context(), words...).Err(); err == nil || !redis.HasErrorPrefix(err, "NOPERM") {
				t.Errorf("RESP%d: %v: %v", protocol, words, err)
			}
		}
	}
	var refusals []string
	for _, e := range admin.do("ACL", "LOG").items {
		refusals = append(refusals, e.items[7].text)
	}
	if want := []string{"acl|list", "flushall", "billing:1"}; !slices.Equal(refusals, want) {
		t.Errorf("refused %v, want %v: connecting must not run into anything", refusals, want)
	}
}
