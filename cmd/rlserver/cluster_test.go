package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A cluster is three servers as programs of their own, watched by three stock
// Sentinels, with callers of all three servers. What callers were granted tells
// who decided when, and what was lost: see ledger_cluster_test.go.
type cluster struct {
	t         *testing.T
	o         clusterOptions
	nodes     []*clusterNode
	sentinels []*clusterSentinel
	load      *clusterLoad
}

type clusterOptions struct {
	downAfter, failoverTimeout time.Duration // of the Sentinels
	args                       []string      // of each server
	net                        *network      // nil = all on loopback
}

// A clusterNode is one server; process is its present run.
type clusterNode struct {
	*process
	at   *namespace // nil = here
	addr string
	args []string
}

// A clusterSentinel is a stock Sentinel, that logs to a file.
type clusterSentinel struct {
	at        *namespace
	addr, log string
}

const (
	// clusterSlack bounds what takes well under a second on a machine at rest, and
	// anew each time: a slow machine is allowed a multiple.
	clusterSlack = 20 * time.Second
	// tiltFor is how long a Sentinel that finds itself late does nothing.
	tiltFor = 30 * time.Second
	// talkWithin is how long an answer is waited for that may never come.
	talkWithin = 2 * time.Second
	logLines   = 40 // of each log are shown when a test fails
)

const sentinelConf = `port %s
bind %s
protected-mode no
dir %s
logfile %s
sentinel monitor mymaster %s 2
sentinel down-after-milliseconds mymaster %d
sentinel failover-timeout mymaster %d
`

// startCluster starts the servers, has two follow the first, then the Sentinels,
// and then callers. It returns when all of them know one another.
func startCluster(t *testing.T, o clusterOptions) *cluster {
	t.Helper()
	sentinel := tool(t, "redis-sentinel")
	c := &cluster{t: t, o: o}
	t.TempDir() // so that the logs are there when they are shown
	t.Cleanup(c.tell)
	for i := range 3 {
		n := &clusterNode{at: o.net.of("node", i)}
		n.addr = net.JoinHostPort(n.at.ip(), freePort(t))
		n.args = append([]string{"--protected-mode", "no", "--bind", n.at.ip(), "--http-addr", ""}, o.args...)
		dir := t.TempDir()
		n.args = append(n.args, "--dir", dir, "--backup-dir", dir+"-backups", "--port", portOf(n.addr))
		if i > 0 {
			n.args = append(n.args, "--replicaof", strings.ReplaceAll(c.nodes[0].addr, ":", " "))
		}
		c.nodes = append(c.nodes, n)
		n.run(t, dir)
	}
	c.within(clusterSlack, "the replicas follow", func() bool {
		return strings.Count(talk(c.nodes[0].at, c.nodes[0].addr, "INFO", "replication"), "state=online") == 2
	})
	for i := range 3 {
		c.addSentinel(sentinel, o.net.of("sentinel", i))
	}
	began := time.Now()
	c.within(clusterSlack+tiltFor, "the Sentinels know one another", func() bool {
		for _, s := range c.sentinels {
			text := talk(s.at, s.addr, "SENTINEL", "MASTER", "mymaster")
			if !strings.Contains(text, "num-other-sentinels 2") || !strings.Contains(text, "num-slaves 2") {
				return false
			}
		}
		return true
	})
	c.within(clusterSlack, "the servers know the Sentinels", func() bool {
		for _, n := range c.nodes {
			if n.info("rl_sentinels") != "3" {
				return false
			}
		}
		return true
	})
	t.Logf("Sentinels and servers know one another after %.2f s", time.Since(began).Seconds())
	c.load = startLoad(c)
	c.leads(0)
	return c
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// run starts the server on a directory, and on the address that it had before if
// any.
func (n *clusterNode) run(t *testing.T, dir string) {
	t.Helper()
	n.at.enter(t, func() { n.process = launch(t, dir, program(t, n.args...)) })
	n.await("the banner", func() bool { return readyLine.MatchString(n.out.String()) })
}

// info is a field of INFO replication, empty if there is no answer.
func (n *clusterNode) info(field string) string {
	_, rest, _ := strings.Cut(talk(n.at, n.addr, "INFO", "replication"), "\r\n"+field+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

func (c *cluster) addSentinel(path string, at *namespace) {
	c.t.Helper()
	dir, port := c.t.TempDir(), freePort(c.t)
	s := &clusterSentinel{at, net.JoinHostPort(at.ip(), port), filepath.Join(dir, "log")}
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Appendf(nil, sentinelConf, port, at.ip(), dir, s.log, strings.ReplaceAll(c.nodes[0].addr, ":", " "),
		c.o.downAfter.Milliseconds(), c.o.failoverTimeout.Milliseconds())
	if err := os.WriteFile(conf, text, 0o600); err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(path, conf)
	at.enter(c.t, func() {
		if err := cmd.Start(); err != nil {
			c.t.Fatal(err)
		}
	})
	c.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	c.sentinels = append(c.sentinels, s)
}

// tell shows the end of all logs if the test has failed.
func (c *cluster) tell() {
	if !c.t.Failed() {
		return
	}
	tail := func(text string) string {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		return strings.Join(lines[max(0, len(lines)-logLines):], "\n")
	}
	for _, n := range c.nodes {
		if n.process != nil {
			c.t.Logf("server %s:\n%s", n.addr, tail(n.out.String()))
		}
	}
	for _, s := range c.sentinels {
		text, _ := os.ReadFile(s.log)
		c.t.Logf("Sentinel %s:\n%s", s.addr, tail(string(text)))
	}
}

// within waits for something that must come to be, and says how long it took.
func (c *cluster) within(most time.Duration, what string, ok func() bool) time.Duration {
	c.t.Helper()
	began := time.Now()
	for ; !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > most {
			c.t.Fatalf("within %v it did not come to be that %s", most, what)
		}
	}
	return time.Since(began)
}

// talk sends one command on a connection of its own; the answer's words are
// joined, and it is empty if there is none.
func talk(at *namespace, addr string, words ...string) string {
	v, err := question(at, addr, words...)
	if err != nil {
		return ""
	}
	all := []string{v.text}
	for _, item := range v.items {
		all = append(all, item.text)
	}
	return strings.Join(all, " ")
}

func question(at *namespace, addr string, words ...string) (reply, error) {
	nc, err := at.dial(addr)
	if err != nil {
		return reply{}, err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(talkWithin))
	io.WriteString(nc, frame(words...))
	return readReply(bufio.NewReader(nc))
}

// leader is the number of the server that a Sentinel names, -1 if it names none.
func (c *cluster) leader(sentinel int) int {
	s := c.sentinels[sentinel]
	words := strings.Fields(talk(s.at, s.addr, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"))
	for i, n := range c.nodes {
		if len(words) == 3 && n.addr == net.JoinHostPort(words[1], words[2]) { // their number comes first
			return i
		}
	}
	return -1
}

// leads is the primary, by a Sentinel, once it has granted something in this stage.
func (c *cluster) leads(sentinel int) (i int) {
	c.t.Helper()
	c.within(clusterSlack, "the primary answers", func() bool {
		i = c.leader(sentinel)
		return i >= 0 && c.load.answered(i, c.load.stage.Load())
	})
	return i
}

// A takeover is what is seen of one server taking over from another, or of
// several in a row: a stage of the test.
type takeover struct {
	old, now int
	began    time.Time
	term     uint64        // before it began
	named    time.Duration // until a Sentinel named another primary
	last     time.Duration // until old was asked for the last that it granted
	lost     int           // grants that the primary knows nothing of
}

// begins is the beginning of a stage: what is done from now on makes another
// server the primary.
func (c *cluster) begins() *takeover {
	c.t.Helper()
	old := c.leads(0)
	return &takeover{old: old, now: -1, term: c.nodes[old].term(), began: time.Now()}
}

func (n *clusterNode) term() (term uint64) {
	fmt.Sscan(n.info("rl_term"), &term)
	return term
}

// takesOver waits until another server than old leads and answers.
func (c *cluster) takesOver(o *takeover) {
	c.t.Helper()
	// It may begin with a Sentinel that does nothing for a while.
	c.within(clusterSlack+2*tiltFor, "Sentinel names another primary", func() bool {
		o.now = c.leader(0)
		return o.now >= 0 && o.now != o.old
	})
	o.named = time.Since(o.began)
	c.within(clusterSlack, "it answers", func() bool { return c.load.answered(o.now, c.load.stage.Load()) })
}

// settled waits until all agree on a primary and are in step with it. Callers
// stop then, and what they were granted is looked at.
func (c *cluster) settled(name string, o *takeover) {
	c.t.Helper()
	took := c.within(2*clusterSlack+tiltFor, "two servers follow whom all Sentinels name", func() bool {
		o.now = c.leader(0)
		return o.now >= 0 && c.leader(1) == o.now && c.leader(2) == o.now && c.follow(o.now)
	})
	stage := c.load.pause()
	lost, charged := c.load.missing(stage, c.nodes[o.now])
	all := c.load.of(stage)
	o.lost, o.last = lost, lastOf(all, o.old).Sub(o.began)
	gap, after := longestGap(all)
	c.t.Logf("%s at %s: Sentinel names the new primary after %.2f s, all follow it %.2f s later; no grant for %.2f s, after %.3f s; of %d grants %d are lost, and %d answers that nobody got are charged",
		name, o.began.Format("15:04:05.000"), o.named.Seconds(), took.Seconds(), gap.Seconds(), after.Sub(o.began).Seconds(), len(all), lost, charged)
	if most := clusterSlack + c.tilted(); gap > most {
		c.t.Fatalf("%s: no grant for %v, at most %v are expected", name, gap, most)
	}
	if n, terms := turnsOf(all), c.nodes[o.now].term()-o.term; n > int(terms) {
		c.t.Fatalf("%s: servers decided in turns, %d times, though only %d terms have begun: two decided at the same time", name, n, terms)
	}
	c.load.resume()
}

// tilted is how long Sentinels may have done nothing since they found themselves
// late.
func (c *cluster) tilted() (d time.Duration) {
	for _, s := range c.sentinels {
		text, _ := os.ReadFile(s.log)
		d += tiltFor * time.Duration(bytes.Count(text, []byte("+tilt")))
	}
	return d
}

// follow says whether all but one are replicas in step.
func (c *cluster) follow(leader int) bool {
	for i, n := range c.nodes {
		if i != leader && (n.info("role") != "slave" || n.info("master_link_status") != "up") {
			return false
		}
	}
	return true
}
