package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/rlserver/rlserver/shard"
)

// badValues are no number of any kind that a limiter command takes.
var badValues = map[string]string{
	"empty":           "",
	"a word":          "ten",
	"negative":        "-1",
	"10^30":           "1" + strings.Repeat("0", 30),
	"-10^30":          "-1" + strings.Repeat("0", 30),
	"NaN":             "NaN",
	"infinity":        "inf",
	"exponent":        "1e3",
	"hex":             "0x10",
	"underscore":      "1_000",
	"comma":           "1,5",
	"two points":      "1.5.2",
	"leading +":       "+5",
	"leading blank":   " 5",
	"trailing blank":  "5 ",
	"trailing LF":     "5\n",
	"NUL inside":      "5\x005",
	"only NUL":        "\x00",
	"CR LF":           "5\r\n+OK\r\n",
	"bytes":           "\xff\xfe\x80",
	"Arabic digits":   "٥",
	"full-width":      "５",
	"64 KiB of digit": strings.Repeat("9", 64<<10),
	"64 KiB of bytes": strings.Repeat("\xff\r\n\x00", 16<<10),
}

// A place is one argument of a command: % stands for the value.
type place struct {
	call []string // after the key
	name string   // what the error must call it
}

// places are the arguments of the limiter commands, by command.
var places = map[string][]place{
	"RL.ACQUIRE": {
		{[]string{"%", "20"}, "rate"}, {[]string{"%:20"}, "rate"}, {[]string{"5/%", "20"}, "rate"}, {[]string{"%/1m", "20"}, "rate"},
		{[]string{"10", "%"}, "burst"}, {[]string{"10:%"}, "burst"},
		{[]string{"10", "20", "%"}, "now"}, {[]string{"10:20", "%"}, "now"}, {[]string{"10", "20", "%", "COST", "1"}, "now"},
		{[]string{"10", "20", "COST", "%"}, "COST"}, {[]string{"10:20", "*", "COST", "%"}, "COST"}, {[]string{"10", "20", "FORCE", "COST", "%"}, "COST"},
		{[]string{"10", "20", "MAXWAIT", "%"}, "MAXWAIT"}, {[]string{"10", "20", "*", "COST", "2", "MAXWAIT", "%"}, "MAXWAIT"},
		{[]string{"10", "20", "*", "%"}, "option"}, {[]string{"10", "20", "PARTIAL", "%"}, "option"},
	},
	"RL.PEEK": {
		{[]string{"%", "20"}, "rate"}, {[]string{"%:20"}, "rate"}, {[]string{"10", "%"}, "burst"}, {[]string{"10:%"}, "burst"},
		{[]string{"%"}, "now"}, {[]string{"10", "20", "%"}, "now"}, {[]string{"10:20", "%"}, "now"},
		{[]string{"COST", "%"}, "COST"}, {[]string{"10", "20", "COST", "%"}, "COST"}, {[]string{"10", "20", "*", "COST", "%"}, "COST"},
		{[]string{"10", "20", "*", "%"}, "argument"},
	},
	"RL.REFUND": {{[]string{"%"}, "tokens"}, {[]string{"%", "*"}, "tokens"}, {[]string{"1", "%"}, "now"}, {[]string{"1", "*", "%"}, "argument"}},
	"RL.PENALIZE": {
		{[]string{"%", "20", "1s"}, "rate"}, {[]string{"%:20", "1s"}, "rate"}, {[]string{"10", "%", "1s"}, "burst"}, {[]string{"10:%", "1s"}, "burst"},
		{[]string{"10", "20", "%"}, "wait"}, {[]string{"10:20", "%"}, "wait"}, {[]string{"10", "20", "1s", "%"}, "now"}, {[]string{"10:20", "1s", "%"}, "now"},
		{[]string{"10", "20", "1s", "*", "%"}, "argument"},
	},
}

// more are values that are bad at one argument only.
var more = []struct {
	command string
	call    []string
	name    string
}{
	{"RL.ACQUIRE", []string{"0", "20"}, "rate"}, {"RL.ACQUIRE", []string{"0.0", "20"}, "rate"}, {"RL.ACQUIRE", []string{"0/1m", "20"}, "rate"}, {"RL.ACQUIRE", []string{"5/0s", "20"}, "rate"},
	{"RL.ACQUIRE", []string{"5/60", "20"}, "rate"}, {"RL.ACQUIRE", []string{"5/1w", "20"}, "rate"}, {"RL.ACQUIRE", []string{"5/", "20"}, "rate"}, {"RL.ACQUIRE", []string{"/1m", "20"}, "rate"},
	{"RL.ACQUIRE", []string{"1.", "20"}, "rate"}, {"RL.ACQUIRE", []string{".5", "20"}, "rate"}, {"RL.ACQUIRE", []string{"0.0000000001", "20"}, "rate"}, {"RL.ACQUIRE", []string{"5/1m/1m", "20"}, "rate"},
	{"RL.ACQUIRE", []string{"10", "0"}, "burst"}, {"RL.ACQUIRE", []string{"10", "1.5"}, "burst"}, {"RL.ACQUIRE", []string{"10", "9223372036854775807"}, "burst"},
	{"RL.ACQUIRE", []string{"10"}, "burst"}, {"RL.ACQUIRE", []string{"10:20:30"}, "limit"}, {"RL.ACQUIRE", []string{":"}, "rate"},
	{"RL.ACQUIRE", []string{"10", "20", "9007199254740992"}, "now"}, {"RL.ACQUIRE", []string{"10", "20", "1.5"}, "now"},
	{"RL.ACQUIRE", []string{"10", "20", "COST", "1.5"}, "COST"}, {"RL.ACQUIRE", []string{"10", "20", "COST", "9223372036854775808"}, "COST"}, {"RL.ACQUIRE", []string{"10", "20", "COST"}, "COST"},
	{"RL.ACQUIRE", []string{"10", "20", "COST", "-9223372036854775808"}, "COST"}, {"RL.ACQUIRE", []string{"10", "20", "COST", "1", "COST", "1"}, "COST"},
	{"RL.ACQUIRE", []string{"10", "20", "MAXWAIT"}, "MAXWAIT"}, {"RL.ACQUIRE", []string{"10", "20", "MAXWAIT", "86400001"}, "MAXWAIT"}, {"RL.ACQUIRE", []string{"10", "20", "MAXWAIT", "25h"}, "MAXWAIT"},
	{"RL.ACQUIRE", []string{"10", "20", "MAXWAIT", "1.5s"}, "MAXWAIT"}, {"RL.ACQUIRE", []string{"10", "20", "PARTIAL", "COST", "0"}, "PARTIAL"}, {"RL.ACQUIRE", []string{"10", "20", "PARTIAL", "FORCE"}, "PARTIAL"},
	{"RL.ACQUIRE", []string{"10", "20", "PARTIAL", "MAXWAIT", "1"}, "PARTIAL"}, {"RL.ACQUIRE", []string{"10", "20", "MAXWAIT", "1", "FORCE"}, "MAXWAIT"}, {"RL.ACQUIRE", []string{"10", "20", "FORCE", "FORCE"}, "FORCE"},
	{"RL.ACQUIRE", []string{"10", "20", "FORCE", "COST", "9223372036854775807"}, "COST"},
	{"RL.PEEK", []string{"10", "20", "COST"}, "COST"}, {"RL.PEEK", []string{"COST"}, "COST"}, {"RL.PEEK", []string{"0", "20"}, "rate"},
	{"RL.REFUND", []string{"1.5"}, "tokens"}, {"RL.REFUND", []string{"9223372036854775808"}, "tokens"},
	{"RL.PENALIZE", []string{"10", "20"}, "wait"}, {"RL.PENALIZE", []string{"10:20", "366d"}, "wait"}, {"RL.PENALIZE", []string{"10", "0", "1s"}, "burst"},
}

// TestBadArguments: whatever stands where a number belongs, the answer is one
// line that names the argument, and neither a fresh key nor one that has a
// state is changed.
func TestBadArguments(t *testing.T) {
	t.Parallel()
	b := newBadCalls(t)
	for command, list := range places {
		for _, p := range list {
			for what, value := range badValues {
				if len(value) > 60<<10 && !slices.Contains(p.call, "%") {
					value = value[:60<<10] // the rest of the argument must fit too
				}
				call := slices.Clone(p.call)
				for i := range call {
					call[i] = strings.ReplaceAll(call[i], "%", value)
				}
				b.refused(command, call, p.name, what)
			}
		}
	}
	for _, m := range more {
		b.refused(m.command, m.call, m.name, "")
	}
	if n := b.srv.node.store.Stats().Changes; n != b.changes {
		t.Errorf("%d changes by calls that were refused", n-b.changes)
	}
}

// badCalls is a server with one key that has a state, seen before and after.
type badCalls struct {
	t       *testing.T
	srv     *testServer
	c       *testConn
	before  string // RL.GET of the key "used"
	changes uint64
}

func newBadCalls(t *testing.T) *badCalls {
	srv := startTest(t, nil)
	b := &badCalls{t: t, srv: srv, c: dial(t, srv.addr)}
	b.c.do("RL.ACQUIRE", "used", "10", "20", "COST", "7")
	srv.advance(123e6)
	b.c.do("RL.PENALIZE", "used", "10", "20", "30s")
	b.before = b.get("used")
	b.changes = uint64(srv.node.store.Stats().Changes)
	return b
}

func (b *badCalls) get(key string) string {
	return strings.Join(b.c.do("RL.GET", key).lines(), "\n")
}

// refused makes the call on a key that is used and on one that is fresh.
func (b *badCalls) refused(command string, call []string, name, what string) {
	b.t.Helper()
	for _, key := range []string{"used", "fresh"} {
		got := b.c.do(append([]string{command, key}, call...)...)
		text := fmt.Sprintf("%s %s %.60q (%s)", command, key, call, what)
		switch {
		case got.mark == closed:
			b.t.Fatalf("%s: the connection was closed", text)
		case got.mark != '-':
			b.t.Errorf("%s: accepted with %q", text, got.lines())
			b.c.do("DEL", "fresh")
			continue
		case !strings.HasPrefix(got.text, "ERR ") || !strings.Contains(got.text, name):
			b.t.Errorf("%s: %q does not name %s", text, got.text, name)
		case len(got.text) > 256 || strings.ContainsFunc(got.text, func(r rune) bool { return !unicode.IsPrint(r) }):
			b.t.Errorf("%s: %q is no line of at most 256 printable characters", text, got.text)
		}
		if pong := b.c.do("PING"); pong.text != "PONG" { // nothing that was sent came back as a reply of its own
			b.t.Fatalf("%s: the next PING gets %q", text, pong.lines())
		}
	}
	if got := b.get("used"); got != b.before {
		b.t.Fatalf("%s %.60q changed the key:\n%s\nwas\n%s", command, call, got, b.before)
	}
	if got := b.get("fresh"); got != "(nil)" {
		b.t.Fatalf("%s %.60q made a key:\n%s", command, call, got)
	}
}

// TestKeys: any bytes are a key, up to 1 KiB of them.
func TestKeys(t *testing.T) {
	t.Parallel()
	srv := startTest(t, nil)
	c := dial(t, srv.addr)
	longest := strings.Repeat("k", shard.MaxKeyBytes)
	keys := []string{"", " ", "\x00", "\r\n", "a\r\nb", "\xff\xfe", "é", "a\x00b", "a\x00c", "*", "{tag}", longest[1:], longest, longest[1:] + "\x00"}
	for i, key := range keys {
		if got := c.do("RL.ACQUIRE", key, "1/1h", "100", "COST", fmt.Sprint(i+1)).ints(); got == nil || got[2] != int64(99-i) {
			t.Fatalf("key %.20q: %v, want %d left", key, got, 99-i)
		}
	}
	check := func(when string) {
		for i, key := range keys {
			if got := c.do("RL.PEEK", key, "1/1h", "100", "COST", "0").ints(); got == nil || got[2] != int64(99-i) {
				t.Errorf("%s: key %.20q: %v, want %d left", when, key, got, 99-i)
			}
			if got := c.do("EXISTS", key); got.text != "1" {
				t.Errorf("%s: key %.20q: EXISTS %s", when, key, got.text)
			}
		}
		if got := c.do("DBSIZE").text; got != fmt.Sprint(len(keys)) {
			t.Errorf("%s: DBSIZE %s, want %d", when, got, len(keys))
		}
	}
	check("at once")
	srv.restart()
	c = dial(t, srv.addr)
	check("after a restart")
	for _, key := range []string{longest + "k", strings.Repeat("\x00", 64<<10)} {
		for _, call := range [][]string{
			{"RL.ACQUIRE", key, "10", "20"}, {"RL.PEEK", key, "10", "20"}, {"RL.PEEK", key}, {"RL.REFUND", key, "1"}, {"RL.PENALIZE", key, "10", "20", "1s"},
		} {
			if got := c.do(call...); got.mark != '-' || !strings.Contains(got.text, "key") || !strings.Contains(got.text, "1024") {
				t.Errorf("%s with a key of %d bytes: %q", call[0], len(key), got.lines())
			}
		}
		for _, call := range [][]string{{"RL.GET", key}, {"RL.RESET", key}, {"DEL", key}, {"EXISTS", key}, {"TYPE", key}, {"TTL", key}} {
			if got := c.do(call...); got.mark == closed {
				t.Errorf("%s with a key of %d bytes: closed", call[0], len(key))
			}
		}
	}
	check("after keys that are too long")
	for i, key := range keys {
		if got := c.do("RL.RESET", key); got.text != "1" {
			t.Errorf("RL.RESET of key %d: %q", i, got.lines())
		}
	}
	srv.restart()
	if got := dial(t, srv.addr).do("DBSIZE").text; got != "0" {
		t.Errorf("%s keys after they were reset", got)
	}
}
