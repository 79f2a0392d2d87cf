package resp

import (
	"net"
	"syscall"
	"time"
	"unsafe"
)

// push has the loop send what comes unasked. It may be called from any goroutine.
func (c *sock) push(raw []byte) { c.loop.post(func() { c.pushHere(raw) }) }

// pushHere sends a message as soon as what is under way is out.
func (c *sock) pushHere(raw []byte) {
	switch c.state {
	case gone:
		return
	case reading, queued:
		if len(c.pushed) == 0 {
			c.send(raw)
			break
		}
		fallthrough
	default:
		c.pushed = append(c.pushed, raw...)
	}
	if len(c.pushed) > maxPushed {
		c.srv.counters.slowListeners.Add(1)
		c.srv.log.Warn("closing a client that does not take its messages", "client", c.s.addr)
		c.close()
	}
}

// sendPushed sends the messages that waited; it says no if they are stuck.
func (c *sock) sendPushed() bool {
	if len(c.pushed) == 0 {
		return c.state != gone
	}
	raw := c.pushed
	c.pushed = nil
	return c.send(raw)
}

// confirmed calls f when all that was sent until now has arrived.
func (c *sock) confirmed(f func()) { c.confirmAfter(confirmFirst, f) }

func (c *sock) confirmAfter(wait time.Duration, f func()) {
	time.AfterFunc(wait, func() {
		c.loop.post(func() {
			switch {
			case c.state == gone:
			case len(c.out) == 0 && hasArrived(c.fd):
				f()
			case wait < confirmFor:
				c.confirmAfter(2*wait, f)
			}
		})
	})
}

// hasArrived says whether the other host has acknowledged all that was sent.
func hasArrived(fd int) bool {
	var n int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&n)))
	return errno == 0 && n == 0
}

// arrivedAt is hasArrived for a connection that has a goroutine.
func arrivedAt(nc net.Conn) (ok bool) {
	sc, is := raw(nc).(syscall.Conn)
	if !is {
		return false
	}
	rc, err := sc.SyscallConn()
	return err == nil && rc.Control(func(fd uintptr) { ok = hasArrived(int(fd)) }) == nil && ok
}
