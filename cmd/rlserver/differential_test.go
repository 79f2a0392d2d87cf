package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// startRedis runs a real Redis on a socket in a directory of its own and
// returns the socket's path.
func startRedis(t *testing.T, args ...string) string {
	t.Helper()
	dir := shortDir(t)
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(tool(t, "redis-server"), append([]string{"--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "no"}, args...)...)
	var out logText
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for end := time.Now().Add(readyWithin); ; time.Sleep(5 * time.Millisecond) {
		if nc, err := net.Dial("unix", socket); err == nil {
			nc.Close()
			return socket
		}
		if time.Now().After(end) {
			t.Fatalf("redis-server does not come up:\n%s", out.String())
		}
	}
}

// converse sends bytes, says that no more will come, and returns all that the
// server answered.
func converse(t testing.TB, network, addr, send string) string {
	t.Helper()
	nc, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(readyWithin))
	go func() {
		io.WriteString(nc, send) // a server that closes early ends this
		nc.(interface{ CloseWrite() error }).CloseWrite()
	}()
	var got bytes.Buffer
	if _, err := io.Copy(&got, nc); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatalf("%q: after %q: %v", send, got.String(), err)
	}
	return got.String()
}

// probe ends each stream: its answer is there unless the server closed.
const probe = "*1\r\n$4\r\nPING\r\n"

// A stream is what one connection sends; both servers must answer it alike.
type stream struct {
	send string
	mask *regexp.Regexp // what differs from run to run, as a time does
}

// identity is what differs in every greeting.
var identity = regexp.MustCompile(`\$2\r\nid\r\n:\d+|\$7\r\nversion\r\n\$\d+\r\n[\d.]+`)

// answer is what a server says to the stream, without what is never the same.
func (s stream) answer(t *testing.T, network, addr string) string {
	got := identity.ReplaceAllString(converse(t, network, addr, s.send+probe), "*")
	if s.mask != nil {
		got = s.mask.ReplaceAllString(got, "*")
	}
	return got
}

// said is a command in RESP.
func said(words ...string) string { return frame(words...) }

// streams are for a server without a password.
func streams() []stream {
	var all []stream
	add := func(sends ...string) {
		for _, s := range sends {
			all = append(all, stream{send: s})
		}
	}
	masked := func(mask, send string) { all = append(all, stream{send, regexp.MustCompile(mask)}) }
	// Plain answers, in any letter case.
	add(said("PING"), said("ping"), said("PiNg", "x"), said("PING", ""), said("PING", "a\r\nb\x00"), said("ECHO", "hello"), said("ECHO", ""), said("ECHO", "\x00\xff\r\n"))
	add(said("SELECT", "0"), said("SELECT", "-1"), said("SELECT", "99"), said("SELECT", "x"), said("SELECT", ""), said("SELECT", "1e1"), said("SELECT", "99999999999999999999"), said("SELECT", "+0"), said("SELECT", "00"), said("SELECT", "-0"), said("SELECT", " 0"), said("SELECT", "0x0"))
	add(said("QUIT"), said("QUIT", "now"), said("RESET"), said("RESET")+said("PING"), said("CLIENT", "SETNAME", "a")+said("RESET")+said("CLIENT", "GETNAME"))
	add(said("HELLO", "3") + said("RESET") + said("CLIENT", "GETNAME"))
	// Keys that are not there.
	for _, name := range []string{"DEL", "UNLINK", "EXISTS", "TYPE", "TTL", "PTTL"} {
		add(said(name, "absent"), said(name, ""), said(name, "a\r\nb"))
	}
	add(said("DEL", "a", "b", "a"), said("UNLINK", "a", "a"), said("EXISTS", "a", "a", "b"), said("DBSIZE"))
	add(said("FLUSHALL"), said("FLUSHDB"), said("FLUSHALL", "ASYNC"), said("FLUSHDB", "sync"), said("FLUSHALL", "x"), said("FLUSHDB", "SYNC", "SYNC"), said("FLUSHALL", "ASYNC", "x"))
	// Names that the client chose.
	add(said("CLIENT", "GETNAME"), said("CLIENT", "SETNAME", "worker-7")+said("CLIENT", "GETNAME"), said("CLIENT", "SETNAME", "")+said("CLIENT", "GETNAME"))
	add(said("CLIENT", "SETNAME", "a b"), said("CLIENT", "SETNAME", "a\nb"), said("CLIENT", "SETNAME", "a\x00b"), said("CLIENT", "SETNAME", "é"))
	add(said("CLIENT", "SETNAME", "a") + said("CLIENT", "SETNAME", "b c") + said("CLIENT", "GETNAME"))
	masked(`:\d+`, said("CLIENT", "ID"))
	masked(`\$\d+\r\n\d+`, said("TIME"))
	masked(`:\d+`, said("LASTSAVE"))
	masked(`:\d+`, said("COMMAND", "COUNT"))
	add(said("COMMAND", "INFO", "nosuch"), said("COMMAND", "INFO", "nosuch", "no|such"), said("COMMAND", "DOCS", "nosuch"))
	add(said("HELLO", "3")+said("COMMAND", "INFO", "nosuch"), said("HELLO", "3")+said("COMMAND", "DOCS", "nosuch"))
	add(said("COMMAND", "GETKEYS", "nosuch", "a"), said("COMMAND", "GETKEYS", "ping", "x"), said("COMMAND", "GETKEYS", "del", "a", "b"), said("COMMAND", "GETKEYS", "ttl", "a", "b"), said("COMMAND", "GETKEYS", "type", "a"))
	add(said("COMMAND", "LIST", "FILTERBY", "PATTERN", "dbs*"), said("COMMAND", "LIST", "x"), said("COMMAND", "LIST", "FILTERBY", "x", "y"), said("COMMAND", "LIST", "FILTERBY", "MODULE", "nosuch"))
	add(said("COMMAND", "COUNT", "x"), said("COMMAND", "NOSUCH"))
	add(said("CONFIG", "GET", "nosuch"), said("HELLO", "3")+said("CONFIG", "GET", "nosuch"), said("CONFIG", "GET", "appendonly"), said("CONFIG", "GET", "save"), said("CONFIG", "GET", "maxclients", "MaxClients"), said("CONFIG", "GET", "time?ut"), said("CONFIG", "GET", "requirepass"))
	add(said("CONFIG", "SET", "nosuch", "1"), said("CONFIG", "SET", "timeout"), said("CONFIG", "SET", "timeout", "0", "x"), said("CONFIG", "RESETSTAT"), said("CONFIG", "RESETSTAT", "x"))
	add(said("CONFIG", "SET", "maxclients", "100", "maxclients", "200"), said("CONFIG", "SET", "timeout", "0", "tcp-keepalive", "300"), said("CONFIG", "SET", "TIMEOUT", "0"))
	add(said("CONFIG", "NOSUCH"), said("CONFIG", "NO\r\nSUCH"), said("CLIENT", "NOSUCH"), said("CLIENT", "maint_notifications", "on"), said("CLIENT", ""))
	add(said("BGSAVE", "x"), said("SHUTDOWN", "x"), said("SHUTDOWN", "SAVE", "NOSAVE"), said("SHUTDOWN", "NOSAVE", "NOW", "SAVE"), said("BGSAVE", "SCHEDULE", "x"), said("SAVE"), said("INFO", "nosuch"), said("HELLO", "3")+said("INFO", "nosuch"))
	// The greeting.
	for _, words := range [][]string{
		{}, {"2"}, {"3"}, {"2", "SETNAME", "me"}, {"3", "setname", "me"}, {"3", "AUTH", "default", "any"}, {"3", "AUTH", "default", "any", "SETNAME", "me"}, {"3", "SETNAME", "a", "SETNAME", "b"},
		{"1"}, {"4"}, {"-3"}, {"three"}, {""}, {"3.0"}, {"3", "SETNAME"}, {"3", "AUTH"}, {"3", "AUTH", "x"}, {"3", "PLEASE"}, {"3", "SETNAME", "a b"}, {"3", "AUTH", "nobody", "x"},
		{"99999999999999999999"}, {"AUTH", "default", "x"}, {"3", "x\r\ny"}, {"03"}, {"+3"}, {" 3"},
	} {
		add(said(append([]string{"HELLO"}, words...)...) + said("CLIENT", "GETNAME"))
	}
	add(said("HELLO", "3") + said("HELLO") + said("HELLO", "2") + said("HELLO"))
	// AUTH where no password is set.
	add(said("AUTH", "x"), said("AUTH", "default", "x"), said("AUTH", "nobody", "x"), said("AUTH", "a", "b", "c"), said("AUTH", ""), said("AUTH", "", ""))
	// What is no command.
	long := strings.Repeat("x", 300)
	add(said("NOSUCH"), said("nosuch", "a"), said("NOSUCH", "a", "b c", ""), said(""), said("NO SUCH"), said("GETX\r\n+OK", "a"), said("NOSUCH", "a\r\n:1", "\n\n"), said("'"), said("\xff\xfe"))
	add(said(long), said("NOSUCH", long), said("NOSUCH", long[:100], long[:100]), said("NOSUCH", long[:127], "y"), said("NOSUCH", long[:50], long[:50], long[:50], "y", "z"))
	// The wrong number of words.
	add(said("PING", "a", "b"), said("ECHO"), said("ECHO", "a", "b"), said("SELECT"), said("SELECT", "0", "1"), said("AUTH"), said("DEL"), said("UNLINK"), said("EXISTS"), said("TYPE"), said("TYPE", "a", "b"),
		said("TTL"), said("PTTL", "a", "b"), said("DBSIZE", "x"), said("TIME", "x"), said("LASTSAVE", "x"), said("SAVE", "x"), said("RESET", "x"), said("CLIENT"), said("CLIENT", "ID", "x"), said("CLIENT", "GETNAME", "x"),
		said("CLIENT", "SETNAME"), said("CLIENT", "SETNAME", "a", "b"), said("CONFIG"), said("CONFIG", "GET"), said("CONFIG", "SET"), said("CONFIG", "SET", "x"), said("COMMAND", "GETKEYS"), said("HELLO", "3", "AUTH", "a"), said("cLiEnT", "Id", "x"))
	return append(all, framing()...)
}

// framing are streams about the bytes themselves.
func framing() (all []stream) {
	add := func(sends ...string) {
		for _, s := range sends {
			all = append(all, stream{send: s})
		}
	}
	// Nothing is asked, nothing is answered (B108).
	add("", "*0\r\n", "*-1\r\n", "*-5\r\n", "*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n", "\r\n", "\n", "\r\n\r\nPING\r\n", "   \r\n", "\t\r\n", "\r\n*1\r\n$4\r\nPING\r\n\r\n")
	// Typed by a person (B112).
	add("PING\r\n", "PING\n", "ping x\n", "  PING \t x  \r\n", "PING\tx\r\n", "PING\vx\n", "PING\fx\n", "\vPING\n", "ECHO \"a\"\v\n", "PING\r\n\nPING\n", "NOSUCH a b\r\n", "ECHO\r\n")
	for _, word := range []string{
		`"a b"`, `'a b'`, `""`, `''`, `"\x41\x0a\xfF"`, `"\n\r\t\b\a\\\"\'"`, `"\q"`, `"\x4"`, `"\xzz"`, `'\n'`, `'it\'s'`, `'\\'`, `"a'b"`, `'a"b'`, `a"b"`, `a'b'`, `a\x41`, `a\n`, "é", "\x01",
		`"a"b`, `'a'b`, `"a`, `'a`, `"a\"`, `'a\'`, `"a\`, `a"b`, `"`, `'`, `"a" "b`, `"a""b"`, `x"y z"`, `"\x00"`, `"a\x00b"`,
	} {
		add("ECHO " + word + "\r\n")
	}
	// Not what the protocol allows: one error, then the end.
	add("*x\r\n", "*\r\n", "* 1\r\n", "*+1\r\n", "*1x\r\n", "*1 \r\n", "*01\r\n", "*00\r\n", "*--1\r\n", "*1.0\r\n", "*2147483648\r\n", "*9223372036854775807\r\n", "*9223372036854775808\r\n", "*99999999999999999999999\r\n", "*-9223372036854775809\r\n")
	for _, length := range []string{
		"", "-1", "-2", "+4", " 4", "4 ", "04", "4x", "x", "0x4", "4.0", "--4", "2147483648", "536870913", "1073741824", "9223372036854775807", "9223372036854775808", "99999999999999999999999", "18446744073709551620", "9223372036854775800", "-9223372036854775808",
	} {
		add("*1\r\n$" + length + "\r\nPING\r\n")
	}
	for _, ch := range []string{"+", ":", "-", "*", "x", " ", "\r", "\n", "\x7f", "\xff", "4"} {
		add("*1\r\n" + ch + "4\r\nPING\r\n")
	}
	add("*1\r\n$4\r\nPI", "*1\r\n$4", "*1\r\n", "*1", "PING", "*2\r\n$4\r\nECHO\r\n") // cut off
	add("*"+strings.Repeat("1", 70000)+"\r\n", "*1\r\n$"+strings.Repeat("1", 70000)+"\r\n", "*"+strings.Repeat("1", 70000), "ECHO "+strings.Repeat("x", 60000)+"\r\n", "ECHO "+strings.Repeat("x", 200000))
	// What came before a bad frame is answered, what comes after is not (B107).
	good := said("ECHO", "1") + "\r\n" + "ECHO 2\r\n" + said("NOSUCH")
	for _, bad := range []string{"*1\r\n+x\r\n", "*1\r\n$-1\r\n", "*x\r\n", "ECHO \"a\r\n", "*2\r\n$4\r\nECHO\r\n$x\r\n"} {
		add(good+bad+said("ECHO", "3"), strings.Repeat(said("ECHO", "1"), 3000)+bad+said("ECHO", "3"))
	}
	add(said("QUIT") + said("ECHO", "3"))
	// A browser, or a page in one.
	add("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nx=y", "Host: localhost\r\nPING\r\n", "post\r\n")
	return all
}

// guarded are streams for a server whose password is s3cret.
func guarded() (all []stream) {
	for _, s := range []string{
		said("PING"), said("NOSUCH"), said("nosuch", "a"), said("DBSIZE"), said("DBSIZE", "x"), said("ECHO", "a"), said("CLIENT", "ID"), said("CLIENT", "NOSUCH"), said("COMMAND"), said("SELECT", "0"), said("CONFIG", "GET", "*"), said("SHUTDOWN"),
		said("QUIT"), said("RESET"), said("AUTH", "wrong"), said("AUTH", "s3cret"), said("AUTH", "default", "s3cret"), said("AUTH", "default", "wrong"), said("AUTH", "nobody", "s3cret"), said("AUTH", "DEFAULT", "s3cret"), said("AUTH", ""), said("AUTH"),
		said("AUTH", "a", "b", "c"), said("AUTH", "s3cret") + said("ECHO", "a"), said("AUTH", "s3cret") + said("AUTH", "wrong") + said("ECHO", "a"), said("AUTH", "s3cret") + said("RESET") + said("ECHO", "a"), said("AUTH", "S3CRET"), said("AUTH", "s3cret\x00"), said("AUTH", "s3cre"),
		said("HELLO", "4"), said("HELLO", "x"), said("HELLO", "3", "AUTH", "default", "wrong"), said("HELLO", "3", "AUTH", "nobody", "s3cret"), said("HELLO", "3", "AUTH", "default"),
		said("HELLO", "3", "AUTH", "default", "wrong") + said("AUTH", "s3cret") + said("CLIENT", "GETNAME"),
		"PING\r\n", "AUTH s3cret\r\nECHO a\r\n", "*0\r\n\r\n",
		// Lengths are kept shorter before AUTH.
		"*17\r\n", // 11 to 16 words, which Redis refuses here, are accepted
		"*1000\r\n", "*1048577\r\n", "*x\r\n", "*1\r\n$16385\r\n", "*2\r\n$4\r\nAUTH\r\n$20000\r\n", "*1\r\n$2147483647\r\n", "*1\r\n$x\r\n", "*1\r\n$-1\r\n",
		said("AUTH", "s3cret") + "*12\r\n" + strings.Repeat("$1\r\na\r\n", 12), said("AUTH", "s3cret") + said("ECHO", strings.Repeat("x", 20000)),
		said("AUTH", strings.Repeat("x", 16384)), said("AUTH", strings.Repeat("x", 16385)),
	} {
		all = append(all, stream{send: s})
	}
	for _, words := range [][]string{{"2", "AUTH", "default", "s3cret"}, {"3", "AUTH", "default", "s3cret"}, {"3", "auth", "default", "s3cret", "setname", "me"}, {"3", "SETNAME", "me", "AUTH", "default", "s3cret"}} {
		all = append(all, stream{send: said(append([]string{"HELLO"}, words...)...) + said("CLIENT", "GETNAME")})
	}
	return all
}

// A deviation is a stream we answer otherwise than Redis 7.0, on purpose.
type deviation struct {
	send, redis, ours string // the answers in full, with that to the probe
	reason            string
}

const (
	helloRefused70 = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time\r\n-NOAUTH Authentication required.\r\n"
	helloRefused72 = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time\r\n-NOAUTH Authentication required.\r\n"
	like72         = "Redis 7.2, which we say we are like, answers so"
	pong           = "+PONG\r\n"
)

// deviations are for a server without a password.
func deviations() []deviation {
	getKeysArity := "-ERR wrong number of arguments for 'command|getkeys' command\r\n" + pong
	noSetInfo := "-ERR unknown subcommand 'SETINFO'. Try CLIENT HELP.\r\n" + pong
	return []deviation{
		{said("COMMAND", "GETKEYS", "ping"), getKeysArity, "-ERR The command has no key arguments\r\n" + pong, like72},
		{said("COMMAND", "GETKEYS", "del"), getKeysArity, "-ERR Invalid number of arguments specified for command\r\n" + pong, like72},
		{said("CLIENT", "SETINFO", "LIB-NAME", "x"), noSetInfo, "+OK\r\n" + pong, like72},
		{said("CLIENT", "SETINFO", "lib-name", "a b"), "-ERR unknown subcommand 'SETINFO'. Try CLIENT HELP.\r\n" + pong, "-ERR lib-name cannot contain spaces, newlines or special characters.\r\n" + pong, like72},
		{said("CLIENT", "SETINFO", "FOO", "x"), noSetInfo, "-ERR Unrecognized option 'FOO'\r\n" + pong, like72},
		{said("CONFIG", "GET", "APPENDonly"), "*2\r\n$10\r\nAPPENDonly\r\n$2\r\nno\r\n" + pong, "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n" + pong, "an option has one name, however it is asked for"},
		{said("CONFIG", "SET", "port", "0"), "+OK\r\n" + pong, "-ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config\r\n" + pong, "listening addresses do not change while the server runs"},
		{said("NO\x00SUCH"), "-ERR unknown command 'NO', with args beginning with: \r\n" + pong, "-ERR unknown command 'NO SUCH', with args beginning with: \r\n" + pong, "a NUL does not end a text here"},
		{"*1\r\n\x004\r\nPING\r\n", "", "-ERR Protocol error: expected '$', got ' '\r\n", "a NUL does not end a text here"},
		{"*1\r\n$4\r\nPINGxx", pong + pong, "-ERR Protocol error: invalid bulk length\r\n", "what follows an argument must be CRLF; Redis skips two bytes unseen"},
		{"*5000\r\n", "-ERR Protocol error: expected '$', got '*'\r\n", "-ERR Protocol error: invalid multibulk length\r\n", "a command has at most 4096 words"},
		{"*1\r\n$600000\r\n", "", "-ERR Protocol error: invalid bulk length\r\n", "an argument has at most proto-max-bulk-len bytes, 512 KiB"},
		{said("POST"), "", "-ERR unknown command 'POST', with args beginning with: \r\n" + pong, "no browser sends this frame, it is an unknown command"},
		{said("HOST:", "x"), "", "-ERR unknown command 'HOST:', with args beginning with: 'x' \r\n" + pong, "no browser sends this frame, it is an unknown command"},
		{"GET / HTTP/1.1\r\n", "-ERR wrong number of arguments for 'get' command\r\n" + pong, "", "HTTP is recognised by its first line"},
	}
}

// guardedDeviations are for a server whose password is s3cret.
func guardedDeviations() []deviation {
	return []deviation{
		{said("HELLO"), helloRefused70, helloRefused72, like72},
		{said("HELLO", "3"), helloRefused70, helloRefused72, like72},
		{said("HELLO", "3", "SETNAME", "a"), helloRefused70, helloRefused72, like72},
	}
}

// TestLikeRedis sends each stream to a real Redis and to us: the answers are
// the same, byte for byte, and so is whether the connection is closed.
func TestLikeRedis(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		args       []string
		streams    []stream
		deviations []deviation
	}{
		{"open", nil, streams(), deviations()},
		{"operating", nil, operating(), operatingDeviations()},
		{"password", []string{"--requirepass", "s3cret"}, guarded(), guardedDeviations()},
		{"users", nil, aclStreams(), aclDeviations()},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			redis := startRedis(t, c.args...)
			ours := startTest(t, c.args)
			for _, s := range c.streams {
				if want, got := s.answer(t, "unix", redis), s.answer(t, "tcp", ours.addr); want != got {
					t.Errorf("%s\nredis %s\nours  %s", brief(s.send), brief(want), brief(got))
				}
			}
			for _, d := range c.deviations {
				s := stream{send: d.send}
				if got := s.answer(t, "unix", redis); got != d.redis {
					t.Errorf("%s: redis answers %s, the table of deviations says %s", brief(d.send), brief(got), brief(d.redis))
				}
				if got := s.answer(t, "tcp", ours.addr); got != d.ours {
					t.Errorf("%s: we answer %s, want %s: %s", brief(d.send), brief(got), brief(d.ours), d.reason)
				}
			}
		})
	}
}

// brief shows bytes on a line, and the ends of many.
func brief(s string) string {
	const shown = 300
	if len(s) > 2*shown {
		return fmt.Sprintf("%q ... %q (%d bytes)", s[:shown], s[len(s)-shown:], len(s))
	}
	return fmt.Sprintf("%q", s)
}
