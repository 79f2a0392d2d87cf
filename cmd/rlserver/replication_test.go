package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// hostWords are the address as REPLICAOF has it.
func (s *testServer) hostWords() []string {
	host, port, _ := net.SplitHostPort(s.addr)
	return []string{host, port}
}

// section reads a section of INFO.
func (c *testConn) section(name string) map[string]string {
	fields := map[string]string{}
	for _, line := range strings.Split(c.do("INFO", name).text, "\r\n") {
		if k, v, ok := strings.Cut(line, ":"); ok {
			fields[k] = v
		}
	}
	return fields
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("it did not come to be that " + what)
		}
	}
}

// TestReplication has a replica follow a primary, with passwords, and take its
// place.
func TestReplication(t *testing.T) {
	pass := []string{"--requirepass", "secret", "--masterauth", "secret", "--repl-ack", "1", "--repl-ack-on-timeout", "refuse"}
	a := startTest(t, pass)
	b := startTest(t, append([]string{"--replicaof", strings.Join(a.hostWords(), " ")}, pass...))
	ca, cb := dial(t, a.addr), dial(t, b.addr)
	for _, c := range []*testConn{ca, cb} {
		c.do("AUTH", "secret")
	}
	until(t, "the replica is in step", func() bool { return cb.section("replication")["master_link_status"] == "up" })
	until(t, "the primary knows", func() bool { return strings.Contains(ca.section("replication")["slave0"], "state=online") })

	if got := ca.do("RL.ACQUIRE", "k", "1/1d", "10").ints(); got[0] != 1 || got[2] != 9 {
		t.Fatal("on the primary", got)
	}
	// The reply waited for the replica: it has it.
	if got := cb.do("RL.PEEK", "k").ints(); got[2] != 9 {
		t.Error("on the replica", got)
	}
	ca.do("RL.LIMIT", "SET", "n", "5:7")
	if got := cb.do("RL.PEEK", "x", "@n"); got.mark != '*' {
		t.Error("the replica has not the named limit that the primary has answered", got)
	}
	ca.do("RL.LIMIT", "SET", "a", "adaptive:5..200:20")
	before := cb.do("RL.PEEK", "x", "@a").ints()
	ca.do("RL.FEEDBACK", "a", "THROTTLED", "5s")
	if got := cb.do("RL.PEEK", "x", "@a").ints(); slices.Equal(got, before) {
		t.Error("the replica has not what the primary has answered about feedback", got)
	}
	if got := cb.do("WAIT", "1", "0"); !strings.HasPrefix(got.text, "ERR WAIT cannot be used with replica instances") {
		t.Error("WAIT on a replica", got)
	}
	for _, words := range [][]string{{"RL.ACQUIRE", "k", "1/1d", "10"}, {"DEL", "k"}, {"FLUSHALL"}, {"RL.LIMIT", "SET", "n", "1:1"}} {
		if got := cb.do(words...); got.text != "READONLY You can't write against a read only replica." {
			t.Errorf("%v on a replica: %q", words, got.text)
		}
	}
	if got := cb.do("ROLE").lines(); !strings.Contains(strings.Join(got, " "), "connected") {
		t.Error("ROLE of the replica", got)
	}
	if got := cb.do("PSYNC", "?", "-1"); got.mark != '-' {
		t.Error("PSYNC", got)
	}

	if got := cb.do("REPLICAOF", "NO", "ONE"); got.text != "OK" {
		t.Fatal(got)
	}
	until(t, "the old primary follows", func() bool { return b.node.repl.Role().Leads && !a.node.repl.Role().Leads })
	ca = dial(t, a.addr) // its clients were closed
	ca.do("AUTH", "secret")
	until(t, "it is in step", func() bool { return ca.section("replication")["master_link_status"] == "up" })
	if got := ca.do("RL.ACQUIRE", "k", "1/1d", "10"); got.mark != '-' {
		t.Error("the old primary still decides", got)
	}
	until(t, "an ack can come", func() bool { return strings.Contains(cb.section("replication")["slave0"], "state=online") })
	if got := cb.do("RL.ACQUIRE", "k", "1/1d", "10").ints(); got[0] != 1 || got[2] != 8 {
		t.Error("on the new primary", got)
	}
	if got := ca.do("RL.PEEK", "k").ints(); got[2] != 8 {
		t.Error("on the old one", got)
	}

	// The role is kept.
	a.restart()
	ca = dial(t, a.addr)
	ca.do("AUTH", "secret")
	until(t, "it follows again", func() bool { return ca.section("replication")["master_link_status"] == "up" })
}

// TestTooFewReplicas: without the replicas it needs a primary refuses before it
// decides, or answers late.
func TestTooFewReplicas(t *testing.T) {
	for _, then := range []string{"refuse", "degrade"} {
		t.Run(then, func(t *testing.T) {
			a := startTest(t, []string{"--repl-ack", "1", "--repl-ack-on-timeout", then, "--repl-ack-timeout", "50ms"})
			c := dial(t, a.addr)
			got := c.do("RL.ACQUIRE", "k", "1", "10")
			if then == "refuse" {
				if got.text != "NOREPLICAS Not enough good replicas to write." {
					t.Error(got)
				}
				if got := c.do("EXISTS", "k"); got.text != "0" {
					t.Error("a refusal changed something")
				}
				return
			}
			if fmt.Sprint(got.ints()) != "[1 0 9 1000 10]" {
				t.Error(got)
			}
		})
	}
}

// TestReplacedReplica: with repl-ack all a replica that is gone counts, until another
// server with nothing on its disk is at its address.
func TestReplacedReplica(t *testing.T) {
	a := startTest(t, []string{"--repl-ack", "all", "--repl-ack-on-timeout", "refuse", "--repl-ack-timeout", "50ms"})
	follow := []string{"--replicaof", strings.Join(a.hostWords(), " "), "--port", freePort(t)}
	c := dial(t, a.addr)
	online := func() bool { return strings.Contains(c.section("replication")["slave0"], "state=online") }
	b := startTest(t, follow)
	until(t, "the replica is in step", online)
	b.down()
	until(t, "it is gone", func() bool { return !online() })
	if got := c.do("RL.ACQUIRE", "k", "1/1d", "10"); got.mark != '-' {
		t.Error("without one of all replicas:", got.lines())
	}
	startTest(t, follow)
	until(t, "another one is in step", online)
	until(t, "it counts in the place of the first", func() bool { return len(c.do("RL.ACQUIRE", "k", "1/1d", "10").items) == 5 })
}

// TestWait: a client hears how many replicas have what it has changed.
func TestWait(t *testing.T) {
	a := startTest(t, nil)
	c := dial(t, a.addr)
	began := time.Now()
	if got := c.do("WAIT", "1", "60"); got.text != "0" || time.Since(began) < 60*time.Millisecond {
		t.Errorf("without replicas: %v after %v", got, time.Since(began))
	}
	for range 2 {
		b := startTest(t, []string{"--replicaof", strings.Join(a.hostWords(), " ")})
		cb := dial(t, b.addr)
		until(t, "the replica is in step", func() bool { return cb.section("replication")["master_link_status"] == "up" })
	}
	// Another client goes on changing all the while.
	busy, over := dial(t, a.addr), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			default:
				busy.do("RL.ACQUIRE", "busy", "1", "1000000")
			}
		}
	}()
	for range 20 {
		c.do("RL.ACQUIRE", "k", "1", "100")
		if got := c.do("WAIT", "2", "0"); got.text != "2" {
			t.Fatal(got)
		}
	}
	close(over)
	<-done
	for i, words := range [][]string{{"MULTI"}, {"RL.ACQUIRE", "k", "1", "100"}, {"WAIT", "9", "0"}, {"EXEC"}} {
		if got := c.do(words...); i == 3 && (len(got.items) != 2 || got.items[1].mark != ':') {
			t.Error("inside EXEC it does not wait", got)
		}
	}

	// Who goes away while it waits is let go.
	gone := dial(t, a.addr)
	id := gone.do("CLIENT", "ID").text
	io.WriteString(gone.nc, frame("WAIT", "9", "0"))
	gone.nc.(*net.TCPConn).SetLinger(0)
	gone.nc.Close()
	until(t, "nobody waits any more", func() bool { return !strings.Contains(c.do("CLIENT", "LIST").text, "id="+id+" ") })
}

// TestFlushReaches: that all keys are gone is told though nothing else changes.
func TestFlushReaches(t *testing.T) {
	a := startTest(t, nil)
	b := startTest(t, []string{"--replicaof", strings.Join(a.hostWords(), " ")})
	ca, cb := dial(t, a.addr), dial(t, b.addr)
	until(t, "the replica is in step", func() bool { return cb.section("replication")["master_link_status"] == "up" })
	ca.do("RL.ACQUIRE", "k", "1", "10")
	until(t, "the replica has the key", func() bool { return cb.do("DBSIZE").text == "1" })
	ca.do("FLUSHALL")
	until(t, "the replica has none", func() bool { return cb.do("DBSIZE").text == "0" })
}

// TestLiveAcks: what replies wait for may change while the server runs, and the
// metrics say what it is.
func TestLiveAcks(t *testing.T) {
	a := startTest(t, []string{"--http-addr", "127.0.0.1:0"})
	c := dial(t, a.addr)
	metric := func(name string) string {
		t.Helper()
		answer, err := http.Get("http://" + a.node.webAddr + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "\nrlserver_"+name+" ")
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	acquire := func(want string) {
		t.Helper()
		if got := c.do("RL.ACQUIRE", "k", "1/1d", "100"); got.text != want {
			t.Errorf("%q, want %q", got.text, want)
		}
	}
	set := func(words ...string) {
		t.Helper()
		if got := c.do(append([]string{"CONFIG", "SET"}, words...)...); got.text != "OK" {
			t.Error(words, got)
		}
	}
	const decision = "5" // elements
	acquire(decision)
	set("repl-ack", "1", "repl-ack-on-timeout", "refuse")
	acquire("NOREPLICAS Not enough good replicas to write.")
	b := startTest(t, []string{"--replicaof", strings.Join(a.hostWords(), " ")})
	until(t, "the replica is in step", func() bool { return metric("online_replicas") == "1" })
	set("repl-ack-timeout", "30s", "repl-ack-on-timeout", "refuse")
	acquire(decision)
	set("repl-ack", "2", "repl-ack-timeout", "50ms", "repl-ack-on-timeout", "degrade")
	began := time.Now()
	acquire(decision)
	if took := time.Since(began); took < 50*time.Millisecond || took > 5*time.Second { // 7.5 s is how often it was looked before
		t.Error("answered without acks after", took)
	}
	if primary, needed, late := metric("primary"), metric("acks_needed"), metric("acks_timed_out_total"); primary != "1" || needed != "2" || late != "1" {
		t.Error("primary, acks needed, timed out:", primary, needed, late)
	}
	if got := dial(t, b.addr).section("replication"); got["rl_term"] != metric("term") || got["slave_priority"] != "100" {
		t.Error(got)
	}
	if got := dial(t, b.addr).do("CONFIG", "SET", "replica-priority", "7"); got.text != "OK" {
		t.Error(got)
	}
	if got := dial(t, b.addr).section("replication"); got["slave_priority"] != "7" {
		t.Error(got)
	}
	set("repl-ack", "0")
	acquire(decision)
	set("fence-after", "3s")
}

// TestReplicationTLS: nodes reach one another by TLS, in both directions, and none
// follows a primary that its authority does not know.
func TestReplicationTLS(t *testing.T) {
	yes := newAuthority(t)
	begin := func(by *authority, args ...string) *secured {
		s := &secured{authority: by, files: t.TempDir()}
		s.write(by, "node")
		port := freePort(t)
		s.testServer = startTest(t, append(append(s.flags("yes"), "--port", freePort(t), "--tls-port", port, "--tls-replication", "yes"), args...))
		s.tlsAddr = "127.0.0.1:" + port
		return s
	}
	a := begin(yes)
	_, port, _ := net.SplitHostPort(a.tlsAddr)
	follow := []string{"--replicaof", "127.0.0.1 " + port}
	b, stranger := begin(yes, follow...), begin(newAuthority(t), follow...)
	ca, cb := dial(t, a.addr), dial(t, b.addr)
	until(t, "the replica is in step", func() bool { return cb.section("replication")["master_link_status"] == "up" })
	_, port, _ = net.SplitHostPort(b.tlsAddr)
	if got := ca.section("replication")["slave0"]; !strings.Contains(got, "port="+port+",") {
		t.Error("the replica announces not where it speaks TLS:", got)
	}
	ca.do("RL.ACQUIRE", "k", "1/1d", "10")
	_, secure := a.ask(a.client(yes))
	io.WriteString(secure, frame("RL.ACQUIRE", "j", "1", "10")+frame("WAIT", "1", "0"))
	replies := bufio.NewReader(secure)
	readReply(replies)
	if got, err := readReply(replies); err != nil || got.text != "1" {
		t.Error("WAIT over TLS:", got, err)
	}
	cb.do("REPLICAOF", "NO", "ONE")
	until(t, "the old primary follows", func() bool {
		return dial(t, a.addr).section("replication")["master_link_status"] == "up"
	})
	if got := cb.do("RL.ACQUIRE", "k", "1/1d", "10").ints(); len(got) != 5 || got[2] != 8 {
		t.Error("on the new primary", got)
	}
	until(t, "it is said why", func() bool { return strings.Contains(stranger.log.String(), "unknown authority") })
	if got := dial(t, stranger.addr).section("replication")["master_link_status"]; got != "down" {
		t.Error("a node follows one that its authority does not know")
	}
}
