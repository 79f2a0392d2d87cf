package replicate

import (
	"testing"
	"time"
)

// A planted is a mistake and what brings it to light: the same life without it
// passes.
type planted struct {
	name  string
	fault fault
	set   func(c *scenario)
	life  func(w *world)
}

var plantedFaults = []planted{
	{"no fence", noFence, nil, func(w *world) {
		w.pauseLeader(4 * time.Second)
	}},
	{"ack before apply", ackEarly, func(c *scenario) { c.acks = 1 }, func(w *world) {
		w.until(w.now + 5*time.Second)
		w.sentinels[0].startFailover(true)
		w.until(w.now + 5*time.Second)
	}},
	{"drop by own clock", ownClock, nil, func(w *world) {
		w.until(w.now + 20*time.Second)
	}},
	{"no pull from siblings", noPull, func(c *scenario) { c.acks, c.prefer, c.ringBytes = 1, 1, 0 }, func(w *world) {
		w.slow[0][1] = 60 * time.Millisecond
		w.crashLeader()
	}},
	{"lease not checked after the gate", noGateLease, func(c *scenario) {
		c.acks = 0
		for i := range c.keys {
			c.keys[i].setLimit(5000, 100)
		}
	}, func(w *world) {
		w.pauseLeader(4 * time.Second)
	}},
	{"partial resync across histories", crossHistory, func(c *scenario) { c.acks, c.prefer = 0, 1 }, func(w *world) {
		// n2 is ahead of n1 and cannot be reached when that is promoted.
		w.slow[0][1] = 400 * time.Millisecond
		w.until(w.now + 3*time.Second)
		w.setCut(1, 2, true)
		w.setCut(2, 1, true)
		w.crashLeader()
		w.setCut(1, 2, false)
		w.setCut(2, 1, false)
		w.until(w.now + 5*time.Second)
	}},
	{"a younger content is not taken whole", noTake, func(c *scenario) { c.acks, c.prefer = 1, 1 }, func(w *world) {
		// n1 lags by what n2, started anew, has not in its log.
		w.until(w.now + 2*time.Second)
		w.setCut(0, 1, true)
		w.until(w.now + 500*time.Millisecond)
		w.stop(w.nodes[2], false, 100*time.Millisecond)
		w.until(w.now + 2*time.Second)
		w.crashLeader()
	}},
	{"a crash forgotten over a clean stop", forgetUnclean, func(c *scenario) { c.acks = 1 }, func(w *world) {
		w.until(w.now + 2500*time.Millisecond)
		p := w.anyLeader()
		if p == nil {
			return
		}
		w.stop(p.host, false, 50*time.Millisecond)
		w.until(w.now + 100*time.Millisecond)
		w.stop(p.host, true, 50*time.Millisecond)
		w.until(w.now + 6*time.Second)
	}},
}

// pauseLeader stops the primary's process for a while, as SIGSTOP does.
func (w *world) pauseLeader(d Time) {
	w.until(w.now + w.between(3*time.Second, 4*time.Second))
	if p := w.anyLeader(); p != nil {
		p.pause()
		w.until(w.now + d)
		p.resume()
	}
	w.until(w.now + 6*time.Second)
}

func (w *world) crashLeader() {
	w.until(w.now + w.between(3*time.Second, 4*time.Second))
	if p := w.anyLeader(); p != nil {
		w.stop(p.host, false, 8*time.Second)
	}
	w.until(w.now + 6*time.Second)
}

// life runs one planted fault, or the same life without.
func (p *planted) run(seed uint64, f fault) string {
	w := newWorld(seed, f)
	w.conf.pace = 500 * time.Microsecond
	if p.set != nil {
		p.set(&w.conf)
	}
	return w.live(func() { p.life(w) })
}

// TestPlantedFaults: each mistake is caught within a few lives, and nothing is
// wrong with those lives but the mistake.
func TestPlantedFaults(t *testing.T) {
	for i := range plantedFaults {
		p := &plantedFaults[i]
		t.Run(p.name, func(t *testing.T) {
			caught, enough := 0, 2
			if testing.Short() {
				enough = 1
			}
			for seed := uint64(1); seed <= 12 && caught < enough; seed++ {
				if why := p.run(seed, noFault); why != "" {
					t.Fatalf("seed %d, without the fault: %s", seed, why)
				}
				if why := p.run(seed, p.fault); why != "" {
					t.Logf("seed %d: %.200s", seed, why)
					caught++
				}
			}
			if caught < enough {
				t.Errorf("caught in %d of 12 lives", caught)
			}
		})
	}
}
