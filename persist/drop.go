package persist

import "time"

// Rounds nobody writes. The feed keeps the slots of deleted and moved entries until it is drained, so in mode Shutdown, and while writing
// fails, keys that come and go would take more and more memory. Then a round is cut and dropped. The disk lacks what it told until
// everything is written anew: the next save is a new generation instead of a round. What is on disk until then is an earlier state, as
// without the drop.

const (
	// dropEvery is how often the feed is looked at.
	dropEvery = time.Minute
	// dropSpare is how many changes the feed may keep beyond two for each entry that there is.
	dropSpare = 64 << 10
)

// Relieve asks that the memory of slots which the feed keeps be given back soon: by a round, or, where none would be written before
// somebody asks for it, by dropping one. It does not wait. A caller that is short of memory asks at most every second.
func (d *DB) Relieve() {
	d.Urgent()
	d.status.mu.Lock()
	d.status.relieve = true
	d.status.mu.Unlock()
	d.wakeUp()
}

// dropDue says whether the open round is to be dropped.
func (d *DB) dropDue(now time.Time) bool {
	relieve := d.status.takeRelieve()
	if d.h != nil && d.o.Mode.periodic() {
		return false
	}
	pending := d.feed.Pending()
	if relieve {
		return pending > 0
	}
	if now.Sub(d.schedule.droppedAt) < dropEvery {
		return false
	}
	d.schedule.droppedAt = now
	return pending > 2*d.store.Len()+dropSpare
}

// drop drops the open round. It is not noted as cut: who waits for it waits for the rewrite.
func (d *DB) drop() {
	n := d.feed.Pending()
	discard(d.feed.Cut())
	d.status.owe(n)
}

// rewrite brings a new generation, with everything, in place of a round. The state that the old one holds is synced, so it is only
// closed, and counts until CURRENT names the new one.
func (d *DB) rewrite() {
	old, start := d.h, time.Now()
	d.h, d.merging = nil, nil
	old.abandon()
	if !d.replace() {
		return
	}
	if missed, ok := d.rewriteLog.allow(time.Now()); ok {
		d.log.Info("everything is on disk, written anew because rounds had been dropped", "dir", d.o.Dir, "generation", d.h.generation,
			"took", time.Since(start), "unlogged", missed)
	}
}

// owe notes that changes were dropped: only a rewrite brings them to disk.
func (s *status) owe(changes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owed += changes
}

// owes says whether a round would not be enough.
func (s *status) owes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owed > 0
}

func (s *status) takeRelieve() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.relieve
	s.relieve = false
	return was
}
