package main

import (
	"sync/atomic"
	"time"

	"github.com/rlserver/rlserver/resp"
)

// A movedClock is the server's clock in step with a primary's, while there is one
// and after it was followed.
type movedClock struct {
	of    resp.Clock
	moved atomic.Int64 // ns
}

// clockSlack is what two readings may differ by that mean the same: both are
// rounded to ms.
const clockSlack = 2 * time.Millisecond

func (c *movedClock) NowNs() int64 { return c.of.NowNs() + c.moved.Load() }

// setBase makes the clock base, ms, plus the time since the machine was started.
func (c *movedClock) setBase(base int64) {
	by := base*1e6 + int64(sinceBoot()) - c.of.NowNs()
	if old := time.Duration(c.moved.Load()); time.Duration(by)-old > clockSlack || old-time.Duration(by) > clockSlack {
		c.moved.Store(by)
	}
}
