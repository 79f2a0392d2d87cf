package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A trio is three servers as programs of their own, watched by three stock
// Sentinels.
type trio struct {
	t         *testing.T
	nodes     []*process
	sentinels []string // addresses
	mu        sync.Mutex
	grants    []seenGrant
	done      chan struct{}
}

// A seenGrant is a positive answer: it was decided between the two times.
type seenGrant struct {
	node      string
	sent, got time.Time
}

const sentinelConf = `port %s
dir %s
sentinel monitor mymaster %s 2
sentinel down-after-milliseconds mymaster 2000
sentinel failover-timeout mymaster 6000
`

func startTrio(t *testing.T) *trio {
	t.Helper()
	tr := &trio{t: t, done: make(chan struct{})}
	first := start(t, t.TempDir())
	host, port, _ := net.SplitHostPort(first.addr)
	tr.nodes = []*process{first}
	for range 2 {
		tr.nodes = append(tr.nodes, start(t, t.TempDir(), "--replicaof", host+" "+port))
	}
	tr.within(10*time.Second, "the replicas follow", func() bool {
		return strings.Count(tr.ask(first.addr, "INFO", "replication"), "state=online") == 2
	})
	for range 3 {
		dir, port := t.TempDir(), freePort(t)
		conf := filepath.Join(dir, "sentinel.conf")
		if err := os.WriteFile(conf, fmt.Appendf(nil, sentinelConf, port, dir, host+" "+strings.TrimPrefix(first.addr, host+":")), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(tool(t, "redis-sentinel"), conf)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		tr.sentinels = append(tr.sentinels, "127.0.0.1:"+port)
	}
	for _, s := range tr.sentinels {
		tr.within(30*time.Second, "the Sentinels know one another", func() bool {
			text := tr.ask(s, "SENTINEL", "MASTER", "mymaster")
			return strings.Contains(text, "num-other-sentinels 2") && strings.Contains(text, "num-slaves 2")
		})
	}
	tr.within(10*time.Second, "the nodes know the Sentinels", func() bool {
		return strings.Contains(tr.ask(first.addr, "INFO", "replication"), "rl_sentinels:3")
	})
	for _, n := range tr.nodes {
		go tr.probe(n.addr)
	}
	t.Cleanup(func() { close(tr.done) })
	return tr
}

func (tr *trio) within(most time.Duration, what string, ok func() bool) time.Duration {
	tr.t.Helper()
	began := time.Now()
	for ; !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > most {
			for _, n := range tr.nodes {
				tr.t.Log(n.addr, n.out.String())
			}
			tr.t.Fatalf("within %v it did not come to be that %s", most, what)
		}
	}
	return time.Since(began)
}

// ask sends one command on a connection of its own; the answer's words are
// joined, and it is empty if there is none.
func (tr *trio) ask(addr string, words ...string) string {
	nc, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return ""
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(2 * time.Second))
	io.WriteString(nc, frame(words...))
	v, err := readReply(bufio.NewReader(nc))
	if err != nil {
		return ""
	}
	all := []string{v.text}
	for _, item := range v.items {
		all = append(all, item.text)
	}
	return strings.Join(all, " ")
}

// probe asks one node again and again, on one connection for as long as it lasts.
func (tr *trio) probe(addr string) {
	request := frame("RL.ACQUIRE", "k", "1000000", "1000000")
	for {
		nc, err := net.DialTimeout("tcp", addr, time.Second)
		for r := bufio.NewReader(nc); err == nil; time.Sleep(4 * time.Millisecond) {
			nc.SetDeadline(time.Now().Add(20 * time.Second))
			sent := time.Now()
			if _, err = io.WriteString(nc, request); err != nil {
				break
			}
			var v reply
			if v, err = readReply(r); err == nil && len(v.items) == 5 && v.items[0].text == "1" {
				tr.mu.Lock()
				tr.grants = append(tr.grants, seenGrant{addr, sent, time.Now()})
				tr.mu.Unlock()
			}
		}
		if nc != nil {
			nc.Close()
		}
		select {
		case <-tr.done:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// leader is whom a Sentinel names.
func (tr *trio) leader() *process {
	words := strings.Fields(tr.ask(tr.sentinels[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"))
	for _, n := range tr.nodes {
		if len(words) == 3 && n.addr == net.JoinHostPort(words[1], words[2]) { // their number comes first
			return n
		}
	}
	return nil
}

// failover waits until another node leads and answers, and checks that the old
// one answered nothing that it was asked after the new one's first answer.
func (tr *trio) failover(name string, old *process, from time.Time) {
	tr.t.Helper()
	// On a busy machine a Sentinel that finds itself late does nothing for 30 s.
	took := tr.within(90*time.Second, "another one leads", func() bool { n := tr.leader(); return n != nil && n != old })
	now := tr.leader()
	tr.within(10*time.Second, "it answers", func() bool { return !tr.firstOf(now, from).IsZero() })
	if old.cmd.ProcessState == nil {
		old.signal(syscall.SIGCONT)
	}
	time.Sleep(3 * time.Second) // what the old one was asked meanwhile would be answered now
	first, last := tr.firstOf(now, from), time.Time{}
	tr.mu.Lock()
	for _, g := range tr.grants {
		if g.node == old.addr && g.sent.After(last) {
			last = g.sent
		}
	}
	tr.mu.Unlock()
	tr.t.Logf("%s: Sentinel names the new primary after %.2f s, its first answer came after %.3f s, the old one's last after %.3f s",
		name, took.Seconds(), first.Sub(from).Seconds(), last.Sub(from).Seconds())
	if last.After(first) {
		tr.t.Errorf("%s: both decided, for %v at least", name, last.Sub(first))
	}
}

// firstOf is when the first answer of a node came after a time.
func (tr *trio) firstOf(n *process, after time.Time) time.Time {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, g := range tr.grants {
		if g.node == n.addr && g.sent.After(after) {
			return g.got
		}
	}
	return time.Time{}
}

// TestSentinel has stock Sentinels fail over three times: because an operator
// says so, because the primary's process stands still, because it was killed.
func TestSentinel(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	tr := startTrio(t)
	tr.within(10*time.Second, "the primary answers", func() bool { return !tr.firstOf(tr.nodes[0], time.Time{}).IsZero() })

	old, began := tr.leader(), time.Now()
	if got := tr.ask(tr.sentinels[0], "SENTINEL", "FAILOVER", "mymaster"); got != "OK" {
		t.Fatal(got)
	}
	tr.failover("planned", old, began)

	time.Sleep(3 * time.Second)
	old, began = tr.leader(), time.Now()
	old.signal(syscall.SIGSTOP)
	tr.failover("stopped", old, began)

	time.Sleep(10 * time.Second) // Sentinel waits 2 x failover-timeout between two
	old, began = tr.leader(), time.Now()
	old.kill()
	tr.failover("killed", old, began)
}
