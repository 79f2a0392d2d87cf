package shard

import (
	"math"
	"runtime"
	"sync"
	"time"
)

// sweepState is where the cyclic sweep is. mu lets one Sweep run at a time.
type sweepState struct {
	mu    sync.Mutex
	shard int
	begun bool   // at least one segment of the shard was looked at
	pos   uint64 // hash of the next segment to look at
}

// holdSegments is how many segments with nothing due are passed under one lock
// hold.
const holdSegments = 256

// Sweep goes on with the cyclic sweep at clock, ms, until budget is used up or
// one cycle is complete (done). An entry past its deadline is dropped if it is
// idle and gets a new deadline if it is not; with Config.KeepExpired none is
// touched. It returns how many were dropped. On its way it gives memory back
// that many dropped or deleted entries left behind.
//
// A lock is held for at most 256 entries at a time, and then whoever is ready to
// run comes first: with ten million keys a cycle that finds nothing takes 3 ms. A
// segment with nothing due costs one look.
func (s *Store) Sweep(clock int64, budget time.Duration) (dropped int, done bool) {
	if s.keepExpired || s.follows.Load() {
		clock = math.MinInt64
	}
	s.sweep.mu.Lock()
	defer s.sweep.mu.Unlock()
	started := time.Now()
	for visited := 0; visited < len(s.shards); runtime.Gosched() {
		n, more := s.sweepHold(clock)
		dropped += n
		if !more {
			visited++
			s.sweep.pos, s.sweep.begun = 0, false
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
	defer sh.account()
	t := sh.table
	if t.dir == nil {
		return 0, false
	}
	if !s.sweep.begun {
		t.arena.beginCompaction(s.Pressed())
		s.sweep.begun = true
	}
	more = true
	for n, held := 0, false; more && !held && n < holdSegments; n++ {
		pos := s.sweep.pos
		seg := t.segmentOf(pos)
		s.sweep.pos, more = seg.end(pos)
		switch {
		case seg.due <= clock || t.arena.compact.victims != nil:
			dropped, held = s.sweepSegment(sh, seg, clock), true
		case t.merge(seg, pos):
			// Look at it once more: its new sister may be as empty.
			s.sweep.pos, more, held = seg.begin(pos), true, true
		}
	}
	if !more {
		t.arena.endCompaction()
	}
	return dropped, more
}

// sweepSegment looks at every entry of a segment, for those that are due and
// those that lie in a chunk being emptied.
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
			at := spotAt(seg, bk.refs[i], b, i)
			rec := t.arena.at(at.ref)
			if rec.deadline() > clock {
				due = min(due, rec.deadline())
				bk.refs[i] = t.arena.evacuate(at.ref)
				continue
			}
			reset := s.resetAfter(rec.value(), clock)
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
