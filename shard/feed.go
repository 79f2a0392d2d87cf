package shard

import "sync/atomic"

// maxFeeds is how many feeds a store can have: persist's and replicate's.
const maxFeeds = 2

// The spaces of changes: a key of one has nothing to do with the same key of
// another.
const (
	KeySpace   byte = 0 // entries
	LimitSpace byte = 1 // named limits: name, Origin, expression; what adaptive ones have found, see adaptive.go; no deadline
)

// A Change is an entry as shipped to disk or to a replica: absolute, so that
// of several for one key the last one counts. Kind 0 is a tombstone: the key
// is gone, Value is nil and Deadline 0.
type Change struct {
	Key, Value []byte
	Space      byte
	Kind       byte
	Deadline   int64 // ms since the epoch
}

// A Feed tells all changes of a store, in rounds. A round is the store's state
// at the moment of its Cut: applied in order, rounds 1 to n give exactly the
// entries that were there, and what one Tx changed is in one round. Of a key
// that changed more than once in a round only the last state is told.
//
// One goroutine at a time cuts a feed and drains its rounds.
type Feed struct {
	store *Store
	n     int           // which feed, 0 or 1
	round atomic.Uint64 // the open round
	off   bool          // nothing is noted for it; written with all locks held
	// cleared says, by round parity, that a Clear was in the round. Written
	// with all shard locks held, or while no Tx can be in such a round.
	cleared [2]bool
	last    *Round // the round being drained, nil when there is none
	out     []Change
	buf     []byte // what out points into; both serve one round after the other
}

// A changeSet is what one feed has yet to hear of one shard about one round.
// While the round is open, refs grows; from the cut to the end of the drain,
// saved does.
type changeSet struct {
	refs  []ref
	bytes int // of their records when they were listed
	next  int // refs before this one are drained
	// saved holds copies of records, end to end, made before a later round
	// changed them. They are the state at the cut, so they are told after refs,
	// where a tombstone of the same key may be.
	saved []byte
	// arena is what refs point into if that is not the shard's any more,
	// because a Clear came between.
	arena *arena
}

// keepRefs is the room for refs that a drained set keeps in any case; with more
// it keeps what the next round of the same size needs.
const keepRefs = 1024

// A writer is what a change needs to know of the feeds: the rounds open at the
// moment when its locks were held. open and closed are masks of dirty bits: of
// the open rounds, and of those before them, that may still be undrained.
type writer struct {
	rounds       [maxFeeds]uint64
	open, closed byte
}

// NewFeed adds a feed. There are at most two, made before the first entry; the
// first one is that of Tx.Round.
//
// A feed is to be cut and drained again and again, or switched off (Feed.Off):
// slots of deleted and moved entries are kept until then.
func (s *Store) NewFeed() *Feed {
	s.lockAll()
	defer s.unlockAll()
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	used := s.limits.changes != 0
	for i := range s.shards {
		sh := &s.shards[i]
		used = used || sh.table.keys != 0 || sh.changes != 0
	}
	if used {
		panic("shard: a feed made after the first change")
	}
	for n := range s.feeds {
		if s.feeds[n] == nil {
			f := &Feed{store: s, n: n}
			f.round.Store(1)
			s.feeds[n] = f
			return f
		}
	}
	panic("shard: more than two feeds")
}

// Round returns the number of the open round, from 1.
func (f *Feed) Round() uint64 { return f.round.Load() }

// writer reads the open rounds. The caller holds all the locks it is going to
// change something under.
func (s *Store) writer() (w writer) {
	w.read(s)
	return w
}

func (w *writer) read(s *Store) {
	w.open, w.closed = 0, 0
	for n, f := range s.feeds {
		if f == nil {
			break
		}
		w.rounds[n] = 0
		if f.off {
			continue
		}
		r := f.round.Load()
		w.rounds[n] = r
		w.open |= dirtyBit(n, r)
		w.closed |= dirtyBit(n, r+1)
	}
}

func dirtyBit(feed int, round uint64) byte { return 1 << (2*feed + int(round&1)) }

// feedsOf widens dirty bits to both bits of every feed that has one.
func feedsOf(dirty byte) byte {
	any := (dirty | dirty>>1) & 0x05
	return any | any<<1
}

// mark makes a record part of the open rounds, before it is changed: a closed
// round that has not told it yet gets a copy. Only feeds in mask are served.
func (sh *shard) mark(w *writer, r ref, rec record, mask byte) {
	fl := rec.flags()
	save := fl & w.closed & mask
	list := w.open & mask &^ fl
	if save|list != 0 {
		sh.markSlow(r, rec, save, list)
	}
}

func (sh *shard) markSlow(r ref, rec record, save, list byte) {
	grew := false
	for n := range sh.feeds {
		for parity := range sh.feeds[n] {
			bit, set := dirtyBit(n, uint64(parity)), &sh.feeds[n][parity]
			if save&bit != 0 {
				if rec.flags()&flagGone != 0 {
					panic("shard: a change to a record that is gone")
				}
				grew = grew || cap(set.saved)-len(set.saved) < rec.size()
				set.saved = append(set.saved, rec[:rec.size()]...)
			}
			if list&bit != 0 {
				grew = grew || cap(set.refs) == len(set.refs)
				set.refs = append(set.refs, r)
				set.bytes += rec.size()
			}
		}
	}
	rec[0] = rec[0]&^save | list
	if grew {
		sh.account()
	}
}

// Pending returns the number of entries changed in the open round, at least; a
// few are counted twice, and that all were dropped counts as one.
func (f *Feed) Pending() int {
	n, _ := f.Backlog()
	return n
}

// Backlog is Pending, and about how many bytes of keys and values that is; those of named limits are not counted.
func (f *Feed) Backlog() (n, bytes int) {
	for i := range f.store.shards {
		sh := &f.store.shards[i]
		sh.mu.Lock()
		set := &sh.feeds[f.n][f.round.Load()&1]
		n += len(set.refs)
		bytes += set.bytes
		if i == 0 && f.cleared[f.round.Load()&1] { // under any shard's lock
			n++
		}
		sh.mu.Unlock()
	}
	_, _, limits := f.store.limits.figures(f)
	return n + limits, bytes
}

// Clear drops every entry, in one step for all who look, and returns the round
// of the first feed that this lands in (0 without a feed) and the number of
// entries dropped. It takes the same short time however many there are. The
// named limits stay; what adaptive ones have found does not.
func (s *Store) Clear() (round uint64, dropped int) {
	t := s.LockAll(0)
	defer t.Unlock()
	return t.Round(), t.Clear()
}

// clearFeed forgets what the open round had to tell and lets the one before it
// keep the arena that is about to be replaced.
func (sh *shard) clearFeed(n int, round uint64) {
	open, closed := &sh.feeds[n][round&1], &sh.feeds[n][(round+1)&1]
	open.refs, open.bytes = open.refs[:0], 0
	if len(closed.refs) > 0 && closed.arena == nil {
		closed.arena = &sh.table.arena
	}
}

// Cut closes the open round, opens the next one and returns the closed one. The
// round before must be drained.
func (f *Feed) Cut() *Round {
	if f.last != nil {
		panic("shard: a round cut before the one before it was drained")
	}
	closed := f.round.Load()
	// The next round has the parity of the one before, that no Tx is in.
	f.cleared[(closed+1)&1] = false
	f.round.Store(closed + 1)
	// Who read the old number holds a lock until it is done: having had each
	// lock once, nobody is left who adds to the closed round.
	for i := range f.store.shards {
		sh := &f.store.shards[i]
		sh.mu.Lock()
		sh.mu.Unlock() //lint:ignore SA2001 the lock is a barrier, nothing is done under it
	}
	limits := f.store.limits.take(f.n, closed)
	f.last = &Round{Number: closed, Cleared: f.cleared[closed&1], feed: f, limits: limits}
	return f.last
}
