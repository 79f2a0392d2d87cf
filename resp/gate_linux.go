package resp

import (
	"slices"
	"syscall"
	"time"
)

// A gate is where the sockets of a loop wait for the disk and for replicas, without a goroutine
// each: the disk tells the loops when to look, and each lets out those whose
// round is durable, in the order in which they came. It belongs to its loop.
type gate struct {
	waiting []*sock // in the order in which they came; one that was closed may be among them
	next    int     // those before it have left
	wanted  uint64  // the latest round that one of them waits for
	asked   uint64  // the latest round that the disk was asked for
	ship    uint64  // the latest round that one of them wants replicas to have
	shipped uint64  // the latest that they were asked for
	again   func()  // openGate, for post
}

// gatesMayOpen has the loops look who may leave. It does not wait.
func (srv *Server) gatesMayOpen() {
	if all := srv.loops.gates.Load(); all != nil {
		for _, l := range *all {
			l.post(l.gate.again)
		}
	}
}

// enter has a socket wait for its round. The loop asks the disk for it at the end
// of its turns, once for all who came.
func (g *gate) enter(c *sock) {
	if g.next > len(g.waiting)/2 {
		left := copy(g.waiting, g.waiting[g.next:])
		clear(g.waiting[left:])
		g.waiting, g.next = g.waiting[:left], 0
	}
	g.waiting = append(g.waiting, c)
	g.wanted, g.ship = max(g.wanted, c.s.round), max(g.ship, c.s.ship)
}

// askAtGate lets out whom the disk has kept up with, and asks it for the others.
func (l *loop) askAtGate() {
	g := &l.gate
	for g.wanted > g.asked {
		g.asked = g.wanted
		if ready, _ := l.srv.durability.Ready(g.wanted); ready {
			l.openGate()
		}
	}
	if g.ship > g.shipped {
		g.shipped = g.ship
		if ready, _ := l.srv.repl.Acked(g.ship); ready {
			l.openGate()
		}
	}
}

// openGate lets out all whose round is durable, and ends those whose round
// failed.
func (l *loop) openGate() {
	g := &l.gate
	for g.next < len(g.waiting) {
		c := g.waiting[g.next]
		if c.state == gated {
			ready, err := l.srv.ready(c.s)
			if !ready {
				return
			}
			g.next++
			c.unpark(err)
			continue
		}
		g.next++ // it was closed meanwhile
	}
	clear(g.waiting)
	g.waiting, g.next = g.waiting[:0], 0
	if cap(g.waiting) > keptAtGate {
		g.waiting = nil
	}
}

// keptAtGate is how many may wait at a gate without it giving their room back.
const keptAtGate = 1024

// park keeps the output until it may go out and its round is durable.
func (c *sock) park() {
	c.out, c.state = slices.Clone(c.s.out), gated
	if c.s.delay == 0 {
		c.loop.gate.enter(c)
		return
	}
	l := c.loop
	time.AfterFunc(c.s.delay, func() {
		l.post(func() {
			if c.state != gated { // it was closed meanwhile
				return
			}
			if ready, err := l.srv.ready(c.s); ready {
				c.unpark(err)
			} else {
				l.gate.enter(c)
			}
		})
	})
}

// overhear is called when something came of a socket that waits at the gate. It
// is not looked at before it has left; a peer that hung up would be reported
// without end.
func (c *sock) overhear() {
	c.deaf = c.expect(syscall.EPOLL_CTL_DEL, 0)
}

// unpark sends what waited at the gate, or ends the connection unanswered.
func (c *sock) unpark(fault error) {
	if fault != nil {
		c.srv.closedAtGate(c.s.addr, fault)
		c.close()
		return
	}
	if c.deaf && !c.expect(syscall.EPOLL_CTL_ADD, syscall.EPOLLIN) {
		return
	}
	c.deaf, c.state = false, reading
	if !c.s.mayLeave() {
		c.close()
		return
	}
	switch {
	case !c.send(c.out):
	case len(c.in.buf) == 0:
		c.sent()
	default: // it has its next turn behind the others
		c.out = nil
		c.s.Written()
		if !c.sendPushed() {
			return
		}
		c.state = queued
		c.loop.again = append(c.loop.again, c)
	}
}
