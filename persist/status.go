package persist

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is what Wait returns for a round that Close did not write.
var ErrClosed = errors.New("the store is closed")

// ErrHangs is the trouble of a disk that has not answered for long.
var ErrHangs = errors.New("the disk hangs")

// A status is what the flusher and its callers tell one another. The lock is held for moments only, never during I/O.
type status struct {
	mu   sync.Mutex
	cond sync.Cond // something of what waiters look at has changed

	// What callers look at without the lock. It is brought up to date before waiters are told.
	durableNow atomic.Uint64         // durable
	trouble    atomic.Pointer[error] // why a change made now could not become durable, nil if it can
	told       atomic.Pointer[func()]
	hang       *time.Timer // runs while waiting is set

	// Rounds here are numbered as the feed does.
	cut     uint64 // the last round cut
	durable uint64 // this round and all before it are on disk
	failed  uint64 // while err is set: an attempt that was to bring this round and all before it has failed
	asked   uint64 // somebody wants this round now
	urgent  uint64 // somebody wants this round soon
	err     error  // why writing fails now, nil if it does not
	attempt bool   // while err is set: somebody asked for an attempt to recover, it may be under way
	closed  bool   // nothing more is coming
	relieve bool   // somebody is short of memory
	owed    int    // changes of rounds that were dropped: only a new generation brings them

	durableAt time.Time // everything up to here is on disk
	writing   time.Time // the cut of the round being written; zero when there is none
	waiting   time.Time // since when a round is being written or was asked for and the disk owes an answer; zero = it owes none
	working   time.Time // when the flusher began what it does now; zero when it rests
	figures   figures
}

// Figures are the parts of Stats that are simply kept.
type figures struct {
	rounds, failures, generations uint64
	generation                    uint64
	changes, bytes                uint64
	lastEntries                   int
	lastTook                      time.Duration
	maxTook                       time.Duration
	lastSave                      time.Time // wall clock
	diskBytes                     uint64
	walBytes                      uint64
	memory                        int64
	merges                        uint64
	unclean                       bool
	loadTook                      time.Duration
	loadKeys, loadDropped         int
}

func (s *status) init(now time.Time) {
	s.cond.L = &s.mu
	s.durableAt = now
	s.figures.lastSave = now
}

// tell has waiters look again. The caller has the lock.
func (s *status) tell() {
	s.durableNow.Store(s.durable)
	s.cond.Broadcast()
	if f := s.told.Load(); f != nil {
		(*f)()
	}
}

// waits notes that the disk owes an answer from now on, if it does not already. The caller has the lock.
func (s *status) waits(now time.Time) {
	switch {
	case !s.waiting.IsZero():
		return
	case s.hang == nil:
		s.hang = time.AfterFunc(stalled, s.hangs)
	default:
		s.hang.Reset(stalled)
	}
	s.waiting = now
}

// answered notes that the disk owes no answer. The caller has the lock.
func (s *status) answered() {
	if s.waiting = (time.Time{}); s.hang != nil {
		s.hang.Stop()
	}
}

// hangs notes that the disk owes an answer for too long.
func (s *status) hangs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && s.stalled(time.Now()) {
		s.trouble.Store(&ErrHangs)
	}
}

// stalled says whether the disk owes an answer for too long, to whom ever. The caller has the lock.
func (s *status) stalled(now time.Time) bool {
	late := func(since time.Time) bool { return !since.IsZero() && now.Sub(since) >= stalled }
	return late(s.waiting) || late(s.working)
}

func (s *status) loaded(info LoadInfo, generation uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &s.figures
	f.unclean, f.loadTook, f.loadKeys, f.loadDropped, f.generation = !info.Clean, info.Took, info.Keys, info.Dropped, generation
	if !info.SavedAt.IsZero() {
		f.lastSave = info.SavedAt
	}
}

// cuts notes that a round is under way, before it is cut: who finds that nothing is pending any more must not take that for durable.
func (s *status) cuts(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = at
	s.waits(at)
}

// wasCut notes the number of the round under way.
func (s *status) wasCut(round uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = round
}

// wrote notes that a round is durable, cut at the time given.
func (s *status) wrote(round uint64, at time.Time, c commit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.durable, s.durableAt, s.writing = round, at, time.Time{}
	s.err, s.attempt, s.owed = nil, false, 0
	s.trouble.Store(nil)
	if s.answered(); s.asked > round {
		s.waits(time.Now())
	}
	f := &s.figures
	f.lastSave, f.lastEntries, f.lastTook = at, c.changes, time.Since(at)
	f.maxTook = max(f.maxTook, f.lastTook)
	if c.round != 0 {
		f.rounds++
		f.changes += uint64(c.changes)
		f.bytes += uint64(c.bytes)
	}
	s.tell()
}

// idle notes that nothing was waiting for a round at the time given.
func (s *status) idle(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && s.owed == 0 {
		s.durableAt = at
	}
}

// fails notes that writing fails: the rounds cut so far, and those asked for, are not on disk.
func (s *status) fails(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed, s.err, s.attempt, s.writing = max(s.cut, s.asked), err, false, time.Time{}
	s.figures.failures++
	s.trouble.Store(&err)
	s.answered()
	s.tell()
}

// works notes that the flusher began something, or with zero that it rests.
func (s *status) works(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.working = since
}

// worksSince is when the flusher began what it does now, zero when it rests.
func (s *status) worksSince() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.working
}

// end notes that nothing more will be written.
func (s *status) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.answered()
	s.tell()
}

// keep changes figures.
func (s *status) keep(f func(*figures)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.figures)
}

// wants says whether a round is wanted now (while writing fails: an attempt), and whether one is wanted soon.
func (s *status) wants() (now, soon bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.attempt, false
	}
	return s.asked > s.cut, s.urgent > s.cut
}

// ask notes that somebody wants a round now, or an attempt.
func (s *status) ask(round uint64) {
	s.asked = max(s.asked, round)
	s.waits(time.Now())
	if s.err != nil {
		s.attempt = true
		s.failed = min(s.failed, round-1)
	}
}

// Save asks for a round now and returns its number: that round holds everything changed before the call. While writing fails it asks
// for an attempt to recover. It does not wait.
func (d *DB) Save() (round uint64) {
	round = d.feed.Round()
	d.status.mu.Lock()
	d.status.ask(round)
	d.status.mu.Unlock()
	d.wakeUp()
	return round
}

// Urgent asks for a round soon, for a change that should not wait for the interval; in mode Shutdown it asks for nothing. It returns
// the number of the round and does not wait.
func (d *DB) Urgent() (round uint64) {
	if !d.o.Mode.periodic() {
		return d.feed.Round()
	}
	round = d.feed.Round()
	s := &d.status
	s.mu.Lock()
	news := s.urgent < round
	s.urgent = max(s.urgent, round)
	s.mu.Unlock()
	if news {
		d.wakeUp()
	}
	return round
}

// wakeUp makes the flusher look what there is to do.
func (d *DB) wakeUp() {
	select {
	case d.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

// Durable is the last round that is durable, with all before it. It takes no lock.
func (d *DB) Durable() uint64 { return d.status.durableNow.Load() }

// Trouble is why a change made now could not become durable: writing fails, or the disk hangs. It is nil if it can. It takes no lock.
func (d *DB) Trouble() error {
	if err := d.status.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// Notify has f called whenever what Ready answers may have changed. It is called with a lock held: it must not wait nor call the DB.
// There is one such f, named before Start.
func (d *DB) Notify(f func()) { d.status.told.Store(&f) }

// Ready is Wait for who does not wait: it asks for the round if nobody has, and says whether a Wait would return, and with what.
func (d *DB) Ready(round uint64) (ready bool, err error) {
	if d.Durable() >= round {
		return true, nil
	}
	s := &d.status
	s.mu.Lock()
	defer s.mu.Unlock()
	return d.ready(round)
}

func (d *DB) ready(round uint64) (ready bool, err error) {
	s := &d.status
	switch {
	case s.durable >= round:
		return true, nil
	case s.err != nil && (s.failed >= round || !s.attempt):
		return true, s.err
	case s.closed:
		return true, ErrClosed
	}
	if s.asked < round {
		s.ask(round)
		d.wakeUp()
	}
	return false, nil
}

// Wait returns nil when the round, a number that Save, Urgent or shard.Tx.Round gave, and all before it are durable. It asks for the
// round if nobody has: waiters share one sync. It returns an error if the round could not be written, or at once if writing fails and
// nobody asked for an attempt (Save does), or ErrClosed. An error does not say that the changes are lost: they are in memory and go to
// disk when writing works again.
func (d *DB) Wait(round uint64) error {
	s := &d.status
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if ready, err := d.ready(round); ready {
			return err
		}
		s.cond.Wait()
	}
}

// LastSave is the Unix time in seconds of the last round, or before the first one that of the load.
func (d *DB) LastSave() int64 {
	d.status.mu.Lock()
	defer d.status.mu.Unlock()
	return d.status.figures.lastSave.Unix()
}
