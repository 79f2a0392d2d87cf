package shard

import (
	"math"
	"sync"
	"time"
)

// sweepState is where the cyclic sweep is. mu lets one Sweep run at a time.
type sweepState struct {
	mu    sync.Mutex
	shard int
	pos   uint64 // hash of the next segment to look at
}

// holdSegments is how many segments with nothing due are passed under one lock
// hold.
const holdSegments = 256

// Sweep goes on with the cyclic sweep at clock, ms, until budget is used up or
// one cycle is complete (done). An entry past its deadline is dropped if it is
// idle and gets a new deadline if it is not. It returns how many were dropped.
// A lock is held for at most 256 entries at a time; a segment with nothing due
// costs one look. With Config.KeepExpired it does nothing.
func (s *Store) Sweep(clock int64, budget time.Duration) (dropped int, done bool) {
	if s.keepExpired {
		return 0, true
	}
	s.sweep.mu.Lock()
	defer s.sweep.mu.Unlock()
	started := time.Now()
	for visited := 0; visited < len(s.shards); {
		n, more := s.sweepHold(clock)
		dropped += n
		if !more {
			visited++
			s.sweep.pos = 0
			s.sweep.shard = (s.sweep.shard + 1) % len(s.shards)
		}
		if time.Since(started) >= budget {
			return dropped, visited == len(s.shards)
		}
	}
	return dropped, true
}

// sweepHold is the part of a sweep done under one hold of a shard's lock; more
// says whether the shard has more segments.
func (s *Store) sweepHold(clock int64) (dropped int, more bool) {
	sh := &s.shards[s.sweep.shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.table.dir == nil {
		return 0, false
	}
	more = true
	for n := 0; more && n < holdSegments; n++ {
		seg := sh.table.segmentOf(s.sweep.pos)
		s.sweep.pos, more = seg.end(s.sweep.pos)
		if seg.due <= clock {
			return s.sweepSegment(sh, seg, clock), more
		}
	}
	return 0, more
}

// sweepSegment looks at every entry of a segment, of which one may be due.
func (s *Store) sweepSegment(sh *shard, seg *segment, clock int64) (dropped int) {
	w := s.writer()
	t := sh.table
	due := int64(math.MaxInt64)
	for b := range seg.buckets {
		for i := range bucketSlots {
			bk := &seg.buckets[b]
			if bk.tags[i] == 0 {
				continue
			}
			at := spot{seg, bk.refs[i], uint8(b), uint8(i), true}
			rec := t.arena.at(at.ref)
			if rec.deadline() > clock {
				due = min(due, rec.deadline())
				continue
			}
			reset := resetOf(rec, clock)
			if reset == 0 {
				sh.remove(&w, t.hash(rec.key()), at)
				sh.expired++
				dropped++
				continue
			}
			sh.mark(&w, at.ref, rec, w.open|w.closed)
			rec.setHead(rec.kind(), s.deadline(clock, reset))
			due = min(due, rec.deadline())
		}
	}
	seg.due = due
	return dropped
}
