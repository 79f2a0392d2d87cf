package replicate

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLateHello: a node that was promoted is not deposed by Sentinels that have not
// heard of it and name the primary before it, though in an epoch that is news here.
func TestLateHello(t *testing.T) {
	const me, before, third = "10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"
	type hello struct {
		epoch uint64
		addr  string
		at    time.Duration
	}
	for _, c := range []struct {
		name    string
		heard   []hello // as a replica
		said    []hello // after the promotion
		deposed bool
	}{
		{"the epoch is news", nil, []hello{{8, before, time.Second}, {8, before, 2 * time.Second}}, false},
		{"then this node is named", nil, []hello{{8, before, time.Second}, {9, me, 2 * time.Second}, {8, before, 3 * time.Second}}, false},
		{"it leads again", nil, []hello{{8, before, time.Second}, {10, before, 2 * time.Second}}, true},
		{"it leads again later", nil, []hello{{8, before, time.Second}, {9, me, 2 * time.Second}, {10, before, 3 * time.Second}}, true},
		{"the epoch was known", []hello{{8, before, -time.Second}}, []hello{{10, before, time.Second}}, true},
		{"it is named for long", nil, []hello{{8, before, time.Second}, {8, before, 2 * time.Minute}}, true},
		{"a third one leads", nil, []hello{{8, third, time.Second}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ids := 0
			n := New(Config{Self: Peer{"me", me}, Mine: func(a string) bool { return a == me }, FenceAfter: FenceAfter,
				NewID: func() string { ids++; return fmt.Sprintf("%040x", ids) }})
			began := time.Hour
			n.Step(0, Start{State: State{Term: 3, Epoch: 7, Primary: before, Group: "g"}, Clock: 1})
			say := func(h hello) {
				n.Step(began+h.at, Hello{Sentinel: strings.Repeat("5", 40), From: "10.0.0.9:1", Name: "g", Addr: h.addr, Epoch: h.epoch})
			}
			for _, h := range c.heard {
				say(h)
			}
			for _, e := range n.Step(began, Lead{}) {
				if d, ok := e.(Dial); ok {
					n.Step(began, Closed{d.Link, true})
				}
			}
			if n.role != Leading {
				t.Fatal("it was not promoted")
			}
			for _, h := range c.said {
				say(h)
			}
			if deposed := n.role != Leading || n.depose != nil; deposed != c.deposed {
				t.Errorf("deposed: %v, want %v", deposed, c.deposed)
			}
		})
	}
}
