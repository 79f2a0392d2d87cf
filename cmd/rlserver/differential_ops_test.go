package main

import (
	"fmt"
	"regexp"
	"strings"
)

// The streams of transactions and of what operators ask; see differential_test.go.

// operating are for a server without a password and without keys.
func operating() (all []stream) {
	add := func(sends ...string) {
		for _, s := range sends {
			all = append(all, stream{send: s})
		}
	}
	line := func(lines ...string) (send string) { // commands as a person writes them, words apart by blanks
		for _, l := range lines {
			send += said(strings.Fields(l)...)
		}
		return send
	}
	multi := func(lines ...string) string { return line(append(append([]string{"MULTI"}, lines...), "EXEC")...) }
	// The state machine.
	add(line("MULTI"), line("EXEC"), line("DISCARD"), line("MULTI", "DISCARD", "DISCARD"), line("MULTI", "EXEC", "EXEC"), line("MULTI", "MULTI", "EXEC"), line("MULTI", "PING", "MULTI", "PING", "EXEC"), line("UNWATCH"),
		line("MULTI", "EXEC x", "EXEC"), line("MULTI", "NOSUCH", "EXEC x", "EXEC"), line("WATCH a", "MULTI", "EXEC x")+multi("PING"), line("MULTI", "DISCARD x", "EXEC"), line("MULTI x"), line("MULTI", "MULTI x", "EXEC"), line("WATCH"), line("UNWATCH x"), line("MULTI", "UNWATCH x", "EXEC"), line("multi", "ping", "exec"))
	add(multi(), multi("PING"), multi("PING", "ECHO x", "PING y"), multi("NOSUCH"), multi("NOSUCH", "PING"), multi("PING", "NOSUCH"), multi("PING", "ECHO"), multi("ECHO", "DISCARD"), multi("CONFIG NOSUCH"), multi("CLIENT", "PING"),
		multi("PING a b"), multi("SELECT x"), multi("SELECT 99", "SELECT 0", "SELECT x"), multi("SHUTDOWN NOSAVE"), multi("SHUTDOWN x", "PING"), multi("TYPE a", "DEL a b", "EXISTS a", "TTL a", "FLUSHALL", "DBSIZE"), multi("FLUSHDB x"))
	add(line("MULTI", "RESET", "EXEC"), line("MULTI", "QUIT", "EXEC"), line("MULTI", "PING", "RESET", "PING"), line("MULTI", "NOSUCH", "RESET", "MULTI", "PING", "EXEC"), line("MULTI", "NOSUCH", "DISCARD", "MULTI", "PING", "EXEC"),
		line("MULTI", "NOSUCH", "EXEC", "PING"), line("MULTI", "HELLO 2 SETNAME x", "CLIENT GETNAME", "DISCARD", "CLIENT GETNAME"), line("HELLO 3")+multi("PING", "TYPE a"), line("HELLO 3")+multi(), line("HELLO 3")+multi("NOSUCH"))
	add(multi("CLIENT SETNAME worker-7", "CLIENT GETNAME"), multi("CLIENT SETNAME worker-7")+line("CLIENT GETNAME"), multi("HELLO 2", "HELLO 2 SETNAME me")+line("CLIENT GETNAME"), multi("AUTH default x", "AUTH x"), multi("CONFIG SET timeout 0", "CONFIG SET timeout x", "CONFIG SET nosuch 1"),
		multi("COMMAND GETKEYS del a b"), multi("COMMAND INFO nosuch", "CONFIG GET nosuch", "INFO nosuch"))
	add("MULTI\r\nPING\r\nEXEC\r\n", "MULTI\r\nECHO \"a\r\nEXEC\r\n", line("MULTI")+"\r\n\r\n*0\r\n"+line("EXEC"), line("MULTI", "PING")+"*x\r\n"+line("EXEC"), strings.Repeat(multi("PING"), 500))
	add(line("MULTI") + said("ECHO", "") + said("ECHO", "a\r\nb\x00") + said("NOSUCH", "a\r\nb") + line("EXEC"))
	// Watches. Keys that are not there can be deleted, and nothing has changed.
	add(line("WATCH a"), line("WATCH a b a", "WATCH a"), line("WATCH a")+multi("PING"), line("WATCH a", "DEL a", "FLUSHALL")+multi("PING"), line("WATCH a", "UNWATCH")+multi("PING"), line("MULTI", "WATCH a", "PING", "EXEC"),
		line("MULTI", "WATCH", "PING", "EXEC"), multi("UNWATCH", "PING"), line("WATCH a", "DISCARD", "EXEC")+multi("PING"), line("WATCH a", "MULTI", "DISCARD")+multi("PING"), line("WATCH a")+multi("NOSUCH")+multi("PING"))
	// Looking for keys.
	add(line("SCAN 0"), line("SCAN 0 MATCH * COUNT 100 TYPE hash"), line("SCAN 0 TYPE nosuch"), line("scan 0 match a count 1"), line("SCAN 0 MATCH a MATCH b COUNT 1 COUNT 2"), said("SCAN", ""), said("SCAN", "0", "MATCH", ""), said("SCAN", "0", "TYPE", ""))
	for _, cursor := range []string{"x", "-1", "+5", " 5", "5 ", "00", "0x", "0x10", "1.5", "1e3", "-", "+", "--1", "-99999999999999999999", "18446744073709551615", "18446744073709551616", "99999999999999999999", "17179869184"} {
		add(said("SCAN", cursor))
	}
	for _, words := range []string{"COUNT", "COUNT 0", "COUNT -1", "COUNT x", "COUNT 1.5", "COUNT 9223372036854775807", "COUNT 9223372036854775808", "MATCH", "TYPE", "LATER", "LATER 1", "MATCH * COUNT", "COUNT 5 MATCH", "COUNT x MATCH"} {
		add(line("SCAN 0 "+words), line("SCAN x "+words))
	}
	add(line("SCAN"), line("KEYS"), line("KEYS *"), line("KEYS nobody"), line("KEYS a b"), said("KEYS", ""), line("RANDOMKEY"), line("RANDOMKEY x"), line("HELLO 3", "RANDOMKEY", "KEYS *", "SCAN 0"))
	add(multi("KEYS *", "SCAN 0", "RANDOMKEY"), multi("SCAN x", "SCAN 0 COUNT 0", "KEYS nobody"), multi("KEYS"), multi("PING", "KEYS *", "PING"), line("HELLO 3")+multi("RANDOMKEY", "KEYS *"))
	// Answers left out. With OFF the array is never completed; what comes behind it shows where it ended.
	on := line("CLIENT REPLY ON", "ECHO then")
	for _, reply := range []string{"ON", "OFF", "SKIP", "x"} {
		reply = "CLIENT REPLY " + reply
		add(multi(reply)+on, multi(reply, "PING")+on, multi("PING", reply)+on, multi("PING", reply, "ECHO a", "TYPE k", "ECHO b")+on, multi("TYPE k", reply, "TYPE k", "PING")+on, multi("PING", reply, "CLIENT REPLY ON", "PING")+on,
			multi(reply, reply, "PING")+line("PING", "ECHO b")+on, line("MULTI", reply, "DISCARD")+on, line("WATCH k")+multi("PING", reply, "NOSUCH")+on,
			line(reply)+multi("PING")+on, line(reply)+multi("TYPE k", "CLIENT REPLY ON", "TYPE k", "PING")+on, line(reply)+multi("PING", "CLIENT REPLY SKIP", "PING")+line("PING")+on)
	}
	// Clients to end. There is only the one that asks.
	for _, words := range [][]string{{}, {""}, {"x"}, {"ID"}, {"addr"}, {"127.0.0.1:1"}, {"127.0.0.1"}, {":0"}, {"ADDR", ""}, {"LADDR", ""}, {"ADDR", "", "SKIPME", "no"}, {"ADDR", "x", "SKIPME", "no"}, {"LADDR", "x"}, {"ID", "999999"}, {"ID", "0"}, {"ID", "-1"},
		{"ID", "x"}, {"ID", ""}, {"ID", "999999", "ID"}, {"ID", "999998", "999999"}, {"TYPE", "x"}, {"TYPE", ""}, {"type", "NORMAL"}, {"TYPE", "replica", "SKIPME", "no"}, {"TYPE", "normal", "SKIPME", "no"}, {"USER", "nobody"}, {"USER", ""}, {"USER", "default"},
		{"USER", "default", "SKIPME", "no", "ADDR", "x"}, {"SKIPME", "maybe"}, {"SKIPME", "yes"}, {"SKIPME", "no"}, {"skipme", "NO"}, {"FOO", "x"}, {"SKIPME"}} {
		add(said(append([]string{"CLIENT", "KILL"}, words...)...))
	}
	// Times of keys that are not there.
	for _, name := range []string{"EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"} {
		for _, words := range []string{"", "a", "a 10", "a 0", "a -1", "a x", "a 1.5", "a 1e3", "a 10 NX", "a 10 xx", "a 10 GT", "a 10 lt", "a 10 XX GT", "a 10 NX NX", "a 10 NX XX", "a 10 NX GT", "a 10 LT NX", "a 10 GT LT", "a 10 XX GT LT", "a 10 FOO", "a x FOO", "a x NX XX",
			"a 9223372036854775807", "a -9223372036854775808", "a 9223372036854775808", "a 9223372036854775", "a -9223372036854775", "a 9223372036854776", "a -9223372036854776", "a 9223370399119966", "a 157680000", "a 9223372036854775806"} {
			add(line(name + " " + words))
		}
		add(said(name, "a", ""), said(name, "a", "10", ""), said(name, "a", " 10"), said(name, "a", "+10"), said(name, "a", "010"))
	}
	add(line("HLEN a"), line("HLEN"), line("HLEN a b"), line("HELLO 3", "HLEN a"))
	add(line("PERSIST a"), line("PERSIST"), line("PERSIST a b"), line("EXPIRETIME a"), line("PEXPIRETIME a"), line("EXPIRETIME"), line("PEXPIRETIME a b"))
	// How keys are kept.
	for _, sub := range []string{"ENCODING", "REFCOUNT", "IDLETIME", "FREQ"} {
		add(line("OBJECT "+sub+" a"), line("object "+sub+" a"), line("OBJECT "+sub), line("OBJECT "+sub+" a b"), line("HELLO 3", "OBJECT "+sub+" a"))
	}
	add(line("OBJECT"), line("OBJECT NOSUCH a"), line("OBJECT NOSUCH"), line("OBJECT HELP x"), line("MEMORY"), line("MEMORY NOSUCH"), line("MEMORY USAGE"), line("MEMORY USAGE a"), line("MEMORY USAGE a SAMPLES"), line("MEMORY USAGE a SAMPLES 5"), line("MEMORY USAGE a samples 0"),
		line("MEMORY USAGE a SAMPLES x"), line("MEMORY USAGE a SAMPLES -1"), line("MEMORY USAGE a SAMPLES 5 SAMPLES"), line("MEMORY USAGE a SAMPLES 5 SAMPLES 6"), line("MEMORY USAGE a FOO"), line("MEMORY USAGE a FOO 1"), line("TOUCH a"), line("TOUCH a b a"), line("TOUCH"))
	// The slow log.
	add(line("SLOWLOG"), line("SLOWLOG NOSUCH"), line("SLOWLOG LEN x"), line("SLOWLOG RESET x"), line("SLOWLOG GET x"), line("SLOWLOG GET -2"), line("SLOWLOG GET 1.5"), line("SLOWLOG GET 99999999999999999999"), line("SLOWLOG RESET"), line("CONFIG GET slowlog-max-len", "CONFIG GET slowlog-log-slower-than"))
	return append(all, slow(line)...)
}

// slow are streams that show the slow log's content.
func slow(line func(...string) string) (all []stream) {
	// Number, time and duration; the client's address.
	mask := regexp.MustCompile(`:\d+\r\n:\d+\r\n:\d+\r\n|\$\d+\r\n[^\r\n]*(:\d+|/s:0)\r\n`)
	long := strings.Repeat("x", 130)
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprint(i))
	}
	for _, lines := range [][]string{
		{"PING", "ECHO hello"}, {"CLIENT SETNAME worker-7", "PING"}, {"NOSUCH", "ECHO", "PING"}, {"EXISTS " + strings.Join(many[:32], " ")}, {"EXISTS " + strings.Join(many[:31], " ")}, {"EXISTS " + strings.Join(many, " ")},
		{"ECHO " + long}, {"ECHO " + long[:128]}, {"ECHO " + long[:129]}, {"AUTH default secret", "HELLO 2 AUTH default secret SETNAME me", "CONFIG SET requirepass x timeout y"}, {"MULTI", "ECHO one", "ECHO two", "EXEC"}, {"MULTI", "NOSUCH", "EXEC"}, {"WATCH a", "MULTI", "DISCARD"},
		{"SLOWLOG LEN", "SLOWLOG GET 0", "SLOWLOG GET 1", "SLOWLOG LEN"}, {"CONFIG SET slowlog-max-len 2", "PING", "ECHO a", "ECHO b", "CONFIG SET slowlog-max-len 128"}, {"CONFIG SET slowlog-log-slower-than -1", "PING", "SLOWLOG LEN"},
	} {
		send := line(append(append([]string{"CONFIG SET slowlog-log-slower-than 0", "SLOWLOG RESET"}, lines...), "SLOWLOG GET -1", "CONFIG SET slowlog-log-slower-than 10000", "SLOWLOG RESET")...)
		all = append(all, stream{send, mask})
	}
	return all
}

// operatingDeviations are for a server without a password and without keys.
func operatingDeviations() []deviation {
	queued := func(reply string) string { return "+OK\r\n+QUEUED\r\n*1\r\n" + reply + pong }
	noMulti := "+OK\r\n-ERR Command not allowed inside a transaction\r\n-EXECABORT Transaction discarded because of previous errors.\r\n" + pong
	return []deviation{
		{said("EXEC", "x"), "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n" + pong, "-ERR wrong number of arguments for 'exec' command\r\n" + pong, "there is no transaction"},
		{said("SCAN", "5\x00"), "*2\r\n$1\r\n0\r\n*0\r\n" + pong, "-ERR invalid cursor\r\n" + pong, "a NUL does not end a text here"},
		{said("MULTI") + said("SAVE") + said("EXEC"), noMulti, queued("+OK\r\n"), "here SAVE waits for the disk without holding anybody up, and EXEC's reply with it"},
	}
}
