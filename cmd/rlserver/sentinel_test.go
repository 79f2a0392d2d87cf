package main

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// rounds is how often a case is played: once, and many times when there is time.
func rounds(soak int) int {
	if os.Getenv("RLSERVER_SOAK") != "" {
		return soak
	}
	return 1
}

// TestSentinelKilled has the primary killed under load. The others go on without
// it; it comes back, follows, and decides nothing.
func TestSentinelKilled(t *testing.T) {
	longCase(t)
	c := startCluster(t, clusterOptions{downAfter: time.Second, failoverTimeout: 3 * time.Second})
	for range rounds(10) {
		old, began := c.leads(0), time.Now()
		c.nodes[old].kill()
		o := c.takesOver(old, 0, began)
		c.nodes[old].run(t, c.nodes[old].dir)
		c.follows(old)
		if lost := c.settled("killed", &o); lost > lostMost {
			t.Errorf("%d grants are lost: more than what was granted in 100 ms", lost)
		}
		c.rest()
	}
}

// TestSentinelPlanned has an operator say SENTINEL FAILOVER, and then the
// primary's process stand still while another is promoted.
func TestSentinelPlanned(t *testing.T) {
	longCase(t)
	c := startCluster(t, clusterOptions{downAfter: 2 * time.Second, failoverTimeout: 4 * time.Second})
	for range rounds(10) {
		old, began := c.leads(0), time.Now()
		if got := talk(c.sentinels[0].at, c.sentinels[0].addr, "SENTINEL", "FAILOVER", "mymaster"); got != "OK" {
			t.Fatal(got)
		}
		o := c.takesOver(old, 0, began)
		c.follows(old)
		if lost := c.settled("planned", &o); lost > 0 {
			t.Errorf("%d grants are lost", lost)
		}
		c.rest()

		old, began = c.leads(0), time.Now()
		c.nodes[old].signal(syscall.SIGSTOP)
		o = c.takesOver(old, 0, began)
		time.Sleep(time.Second)
		goes := time.Now()
		c.nodes[old].signal(syscall.SIGCONT)
		c.follows(old)
		if lost := c.settled("stopped", &o); lost > lostMost {
			t.Errorf("%d grants are lost", lost)
		}
		if late := c.load.late(old, goes); len(late) > 0 {
			t.Errorf("the server that stood still answered %d calls when it went on, the first %v later", len(late), late[0].got.Sub(goes))
		}
		c.rest()
	}
}

// TestSentinelRestarted has the primary killed and started at once, before anybody
// takes it for down: it asks to be replaced, since its replicas know more.
func TestSentinelRestarted(t *testing.T) {
	longCase(t)
	c := startCluster(t, clusterOptions{downAfter: 2 * time.Second, failoverTimeout: 4 * time.Second})
	for range rounds(10) {
		old, began := c.leads(0), time.Now()
		c.nodes[old].kill()
		c.nodes[old].run(t, c.nodes[old].dir)
		o := c.takesOver(old, 0, began)
		c.follows(old)
		if lost := c.settled("killed and started", &o); lost > lostMost {
			t.Errorf("%d grants are lost", lost)
		}
		c.rest()
	}
}

// lostMost is what may be lost of a primary that is killed: what its callers can
// be granted in 100 ms. Without --repl-ack a frame leaves 1 ms after a change.
const lostMost = int(callersOfEach * 100 * time.Millisecond / callEvery)

func longCase(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten seconds and more")
	}
}

// follows waits until a server is a replica in step.
func (c *cluster) follows(i int) {
	c.t.Helper()
	took := c.within(clusterSlack+tiltFor, "the old primary follows", func() bool {
		return c.nodes[i].info("role") == "slave" && c.nodes[i].info("master_link_status") == "up"
	})
	c.t.Logf("the old primary follows %.2f s later", took.Seconds())
}

// rest waits until Sentinel is willing to fail over again, if there is another
// round.
func (c *cluster) rest() {
	if rounds(2) > 1 {
		time.Sleep(2*c.o.failoverTimeout + time.Second)
	}
}
