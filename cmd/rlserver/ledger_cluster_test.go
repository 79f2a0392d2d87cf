package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A clusterLoad is callers of each server of a cluster, whoever leads: each has
// its connection for as long as that lasts, so that a server that still decides
// is seen to.
type clusterLoad struct {
	c     *cluster
	stage atomic.Int64 // of the test; its keys are of their own
	idle  atomic.Bool
	done  chan struct{}
	busy  sync.WaitGroup
	turns sync.RWMutex // read-locked while a call is under way
	mu    sync.Mutex
	all   []grant
}

// A grant is a positive answer. It was decided between the two times.
type grant struct {
	node, key int
	stage     int64
	sent, got time.Time
}

const (
	callersOfEach = 4
	// callEvery is a caller's pause after a grant, refusedFor after any other answer.
	callEvery  = 2 * time.Millisecond
	refusedFor = 10 * time.Millisecond
	// ledgerBurst is what a key may be granted; its rate gives nothing back while a
	// test lasts.
	ledgerBurst = 1_000_000
	ledgerRate  = "1/30d"
)

func startLoad(c *cluster) *clusterLoad {
	l := &clusterLoad{c: c, done: make(chan struct{})}
	for node := range c.nodes {
		for key := range callersOfEach {
			l.busy.Add(1)
			go func() {
				defer l.busy.Done()
				l.call(node, key)
			}()
		}
	}
	c.t.Cleanup(func() {
		close(l.done)
		l.busy.Wait()
	})
	return l
}

func ledgerKey(stage int64, key int) string { return fmt.Sprintf("ledger:%d:%d", stage, key) }

// call asks one server again and again.
func (l *clusterLoad) call(node, key int) {
	for {
		if nc, err := l.c.nodes[node].at.dial(l.c.nodes[node].addr); err == nil {
			over := make(chan struct{})
			go func() {
				select {
				case <-l.done:
				case <-over:
				}
				nc.Close()
			}()
			for r := bufio.NewReader(nc); l.once(nc, r, node, key); {
			}
			close(over)
		}
		select {
		case <-l.done:
			return
		case <-time.After(refusedFor):
		}
	}
}

// once is one call; it says no when the connection is over.
func (l *clusterLoad) once(w io.Writer, r *bufio.Reader, node, key int) bool {
	if l.idle.Load() {
		time.Sleep(callEvery)
		return !l.over()
	}
	g := grant{node: node, key: key, stage: l.stage.Load(), sent: time.Now()}
	if _, err := io.WriteString(w, frame("RL.ACQUIRE", ledgerKey(g.stage, key), ledgerRate, fmt.Sprint(ledgerBurst))); err != nil {
		return false
	}
	v, err := readReply(r)
	if g.got = time.Now(); err != nil {
		return false
	}
	pause := refusedFor
	if len(v.items) == 5 && v.items[0].text == "1" {
		l.mu.Lock()
		l.all = append(l.all, g)
		l.mu.Unlock()
		pause = callEvery
	}
	time.Sleep(pause)
	return !l.over()
}

func (l *clusterLoad) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// of are the grants of a stage.
func (l *clusterLoad) of(stage int64) []grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.all), func(g grant) bool { return g.stage != stage })
}

// answered says whether a server has granted something in a stage.
func (l *clusterLoad) answered(node int, stage int64) bool {
	return slices.ContainsFunc(l.of(stage), func(g grant) bool { return g.node == node })
}

// pause has callers stop, and returns the stage that is over.
func (l *clusterLoad) pause() int64 {
	l.idle.Store(true)
	time.Sleep(50 * callEvery) // what is under way gets its answer
	return l.stage.Load()
}

// resume has callers go on, in the next stage.
func (l *clusterLoad) resume() {
	l.stage.Add(1)
	l.idle.Store(false)
}

// missing compares what callers were granted with what a server knows: lost are
// grants that it does not know of, charged what it counts and nobody was told.
func (l *clusterLoad) missing(stage int64, n *clusterNode) (lost, charged int) {
	var granted [callersOfEach]int
	for _, g := range l.of(stage) {
		granted[g.key]++
	}
	for key, have := range granted {
		used := 0
		if v, err := question(n.at, n.addr, "RL.PEEK", ledgerKey(stage, key)); err == nil && len(v.ints()) == 5 {
			used = ledgerBurst - int(v.ints()[2])
		}
		lost += max(0, have-used)
		charged += max(0, used-have)
	}
	return lost, charged
}

// late are the grants of a server that came after a time.
func (l *clusterLoad) late(node int, after time.Time) (late []grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.all {
		if g.node == node && g.got.After(after) {
			late = append(late, g)
		}
	}
	return late
}

// turnsOf is the least number of times that the lead must have gone from one
// server to another, if one at a time made these grants.
func turnsOf(all []grant) (n int) {
	slices.SortFunc(all, func(a, b grant) int { return a.got.Compare(b.got) })
	led := map[int]time.Time{} // until when, at the latest
	for i, now := 0, -1; i < len(all); i++ {
		g := all[i]
		if g.node == now || led[g.node].After(g.sent) {
			continue
		}
		if now >= 0 {
			led[now] = g.got // it led until then, or the grant would not be another's
			n++
		}
		now = g.node
	}
	return n
}

// lastOf is when a server was asked for the last that it granted.
func lastOf(all []grant, node int) (last time.Time) {
	for _, g := range all {
		if g.node == node && g.sent.After(last) {
			last = g.sent
		}
	}
	return last
}

// longestGap is the longest time in which callers were granted nothing, and when
// it began.
func longestGap(all []grant) (gap time.Duration, from time.Time) {
	slices.SortFunc(all, func(a, b grant) int { return a.got.Compare(b.got) })
	for i := 1; i < len(all); i++ {
		if d := all[i].got.Sub(all[i-1].got); d > gap {
			gap, from = d, all[i-1].got
		}
	}
	return gap, from
}
