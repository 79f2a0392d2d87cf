package main

import (
	"testing"
	"time"
)

// TestPartition has a primary cut off from all others, while callers are on both
// sides: wholly, and so that it is heard and does not hear, or hears and is not
// heard. It decides no longer than fence-after, and the next one not before.
func TestPartition(t *testing.T) {
	longCase(t)
	c := startCluster(t, clusterOptions{downAfter: 2 * time.Second, failoverTimeout: 4 * time.Second, net: newNetwork(t)})
	for range rounds(5) {
		c.partition("it hears nobody and nobody hears it", true, true)
		c.partition("nobody hears it", true, false)
		c.partition("it hears nobody", false, true)
	}
}

const (
	fenceAfter = 1500 * time.Millisecond // the default of the option
	// underWay is what the network may have held when it was cut.
	underWay = 100 * time.Millisecond
)

// partition cuts the primary off: what it sends is lost, or what is sent to it.
func (c *cluster) partition(name string, out, in bool) {
	c.t.Helper()
	o := c.begins()
	var alone, others []*namespace
	for i, n := range c.nodes {
		if i == o.old {
			alone = append(alone, n.at)
		} else {
			others = append(others, n.at)
		}
	}
	for _, s := range c.sentinels {
		others = append(others, s.at)
	}
	if out {
		c.o.net.cut(alone, others)
	}
	if in {
		c.o.net.cut(others, alone)
	}
	cut := time.Now()
	c.takesOver(o)
	time.Sleep(time.Second)
	if out {
		c.o.net.mend(alone, others)
	}
	if in {
		c.o.net.mend(others, alone)
	}
	c.settled(name, o)
	if last := o.began.Add(o.last); last.After(cut.Add(fenceAfter + underWay)) {
		c.t.Errorf("%s: the old primary decided %v after it was cut off", name, last.Sub(cut))
	}
	o.losesAtMost(c.t, len(c.load.late(o.old, o.began.Add(-underWay))))
}
