package resp

import "time"

// It is looked whether the other host has what was sent to it after confirmFirst,
// then each time after twice as long, for confirmFor at most.
const (
	confirmFirst = 2 * time.Millisecond
	confirmFor   = 3 * time.Second
)

// push sends what comes unasked. It may be called from any goroutine and does not
// wait.
func (c *conn) push(raw []byte) {
	c.pushing.Lock()
	defer c.pushing.Unlock()
	if len(c.pushed)+len(raw) > maxPushed {
		c.srv.counters.slowListeners.Add(1)
		go c.cut()
		return
	}
	first := len(c.pushed) == 0
	c.pushed = append(c.pushed, raw...)
	if first {
		go c.sendPushed()
	}
}

// sendPushed writes the messages that are there.
func (c *conn) sendPushed() {
	c.writes.Lock()
	defer c.writes.Unlock()
	c.pushing.Lock()
	raw := c.pushed
	c.pushed = nil
	c.pushing.Unlock()
	if len(raw) == 0 {
		return
	}
	c.nc.SetWriteDeadline(time.Now().Add(c.srv.within.write))
	n, err := c.nc.Write(raw)
	c.srv.counters.bytesOut.Add(uint64(n))
	if err != nil {
		c.cut()
	}
}

// confirmed calls f when all that was sent until now has arrived.
func (c *conn) confirmed(f func()) { c.confirmAfter(confirmFirst, f) }

func (c *conn) confirmAfter(wait time.Duration, f func()) {
	time.AfterFunc(wait, func() {
		if arrivedAt(c.nc) {
			f()
		} else if wait < confirmFor {
			c.confirmAfter(2*wait, f)
		}
	})
}
