package persist

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// Compactions say when Pebble may compact a generation: one at a time, as its own scheduler does, and none while they are held, so that a
// load has the processors to itself: after a kill a compaction that was due took as much of them as half the load.
type compactions struct {
	mu       sync.Mutex // comes after Pebble's locks, so it is not held while Pebble is called
	db       pebble.DBForCompaction
	held     bool
	running  int
	granting bool // Pebble is being asked whether it would like to compact
	refused  bool // it was refused one meanwhile
	ended    bool // it is closing
	granted  sync.Cond
}

func newCompactions(held bool) *compactions {
	c := &compactions{held: held}
	c.granted.L = &c.mu
	return c
}

// Register is called by Pebble before it first asks.
func (c *compactions) Register(_ int, db pebble.DBForCompaction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.db = db
}

// Unregister is called by Pebble when it closes, without its locks.
func (c *compactions) Unregister() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for c.granting {
		c.granted.Wait()
	}
}

// TrySchedule is called by Pebble when it would like to compact. It does not call again for the same: the grant that follows does.
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held || c.ended || c.running > 0 {
		c.refused = true
		return false, nil
	}
	c.running++
	return true, c
}

// release ends the hold, for good.
func (c *compactions) release() {
	c.mu.Lock()
	c.held = false
	c.mu.Unlock()
	c.grant()
}

// Done is told by a compaction at its end, without any lock.
func (c *compactions) Done() {
	c.mu.Lock()
	c.running--
	c.mu.Unlock()
	c.grant()
}

// grant has Pebble begin a compaction if it would like to and may.
func (c *compactions) grant() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.granting {
		c.granted.Wait()
	}
	for more := true; more && c.db != nil && !c.held && !c.ended && c.running == 0; {
		c.granting, c.refused = true, false
		c.running++
		c.mu.Unlock()
		waiting, _ := c.db.GetWaitingCompaction()
		begun := waiting && c.db.Schedule(c)
		c.mu.Lock()
		if !begun {
			c.running--
		}
		more = !begun && c.refused
	}
	c.granting = false
	c.granted.Broadcast()
}

// UpdateGetAllowedWithoutPermission tells that Pebble would like to run more at once.
func (c *compactions) UpdateGetAllowedWithoutPermission() {}

// Started, MeasureCPU and CumulativeStats are told by a compaction under way.
func (c *compactions) Started()                                          {}
func (c *compactions) MeasureCPU(pebble.CompactionGoroutineKind)         {}
func (c *compactions) CumulativeStats(pebble.CompactionGrantHandleStats) {}
