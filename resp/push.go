package resp

import "time"

// confirmEvery is how often it is looked whether the other host has what was
// sent to it, confirmFor how long.
const (
	confirmEvery = 15 * time.Millisecond
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
func (c *conn) confirmed(f func()) { c.confirmBy(f, time.Now().Add(confirmFor)) }

func (c *conn) confirmBy(f func(), by time.Time) {
	time.AfterFunc(confirmEvery, func() {
		if arrivedAt(c.nc) {
			f()
		} else if time.Now().Before(by) {
			c.confirmBy(f, by)
		}
	})
}
