package persist

import (
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rlserver/rlserver/shard"
)

// A schedule is when the flusher did what. It belongs to the flusher.
type schedule struct {
	lastCut   time.Time // also the base of the next round
	sealed    point     // up to which the mark speaks
	sealedAt  time.Time
	journalAt time.Time // of the oldest round in the journal
	mergeAt   time.Time // of the next step of a merge, at the earliest
	figuresAt time.Time
	memoryAt  time.Time
	lookedAt  time.Time // when the feed was last looked at for changes
	droppedAt time.Time // when the feed was last looked at for dropping a round

	retryAt     time.Time // while writing fails: when to look next
	retryPause  time.Duration
	backOff     time.Time // an attempt is not made before, unless there is a reason
	noRoom      bool      // the last failure was a full disk
	tooLittle   uint64    // free bytes that did not suffice
	recoveredAt time.Time
	failLog     sparse
	failLogged  bool // of the failure that goes on, so that its end is logged as well
}

// Start begins to write the rounds of a feed of the store that Load filled. Only the DB cuts the feed from now on.
func (d *DB) Start(f *shard.Feed, s *shard.Store) {
	if d.h == nil || d.started {
		panic("persist: Start without Load, or twice")
	}
	d.started, d.store = true, s
	go d.h.compactions.release() // takes Pebble's locks
	now := time.Now()
	d.schedule.lastCut, d.schedule.figuresAt, d.schedule.droppedAt, d.schedule.sealed = now, now, now, d.journal.last
	d.status.mu.Lock()
	d.feed, d.status.durableAt = f, now
	d.status.mu.Unlock()
	go d.flush()
}

// flush is the flusher: the one goroutine that cuts rounds and writes.
func (d *DB) flush() {
	defer close(d.done)
	defer d.status.end()
	d.watch = time.AfterFunc(stalled, d.hangs)
	defer d.watch.Stop()
	d.watched(d.begin)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-d.wake:
		case <-d.dead():
		case <-d.stop:
			d.watched(func() { d.result = d.finish() })
			return
		}
		d.watched(d.step)
		timer.Reset(max(0, time.Until(d.due())))
	}
}

// watched does a piece of the flusher's work. If it does not come back the figures and the log say so, whatever it is that hangs: Pebble,
// one of our own files, the removal of a directory.
func (d *DB) watched(work func()) {
	d.status.works(time.Now())
	d.watch.Reset(stalled)
	work()
	d.watch.Stop()
	d.status.works(time.Time{})
}

// hangs says that the flusher's work has not come back for long.
func (d *DB) hangs() {
	now := time.Now()
	since := d.status.worksSince()
	if since.IsZero() || now.Sub(since) < stalled {
		return // it came back just now
	}
	if missed, ok := d.hangLog.allow(now); ok {
		d.log.Error("the disk hangs; "+d.o.Mode.meanwhile(), "dir", d.o.Dir, "for", now.Sub(since),
			"lag_ms", d.Stats().LagMs, "unlogged", missed)
	}
	d.watch.Reset(logEvery)
}

// dead is closed when the handle in use has failed.
func (d *DB) dead() <-chan struct{} {
	if d.h == nil {
		return nil
	}
	return d.h.guard.dead
}

// begin removes what an earlier process left behind.
func (d *DB) begin() {
	for _, name := range d.layout.others {
		if dir := d.fs.PathJoin(d.o.Dir, name); dir != d.current {
			d.removeGeneration(dir)
		}
	}
}

// removeGeneration removes a generation that counts no more. While that fails it only takes space: it is tried again.
func (d *DB) removeGeneration(dir string) {
	d.litter = append(d.litter, dir)
	d.removeLitter()
}

// removeLitter removes what counts no more, as far as the disk lets it.
func (d *DB) removeLitter() {
	if len(d.litter) > 0 && d.owned() != nil {
		return
	}
	for ; len(d.litter) > 0; d.litter = d.litter[1:] {
		err := d.fs.RemoveAll(d.litter[0])
		if err == nil {
			continue
		}
		if missed, ok := d.litterLog.allow(time.Now()); ok {
			d.log.Warn("could not remove an old generation", "dir", d.litter[0], "more", len(d.litter)-1, "error", err, "unlogged", missed)
		}
		return
	}
}

// due is when there is something to do next, if nobody asks.
func (d *DB) due() time.Time {
	s := &d.schedule
	if d.h == nil {
		if !d.o.Mode.periodic() {
			return time.Now().Add(mergeEvery)
		}
		return s.retryAt
	}
	if d.backups.isWanted() {
		return time.Now()
	}
	due := s.figuresAt.Add(figuresEvery)
	earlier := func(t time.Time) {
		if t.Before(due) {
			due = t
		}
	}
	if d.merging != nil {
		earlier(s.mergeAt)
	}
	if d.o.Mode.periodic() {
		earlier(s.lastCut.Add(d.o.Interval))
	}
	earlier(s.looked().Add(lookEvery))
	if _, soon := d.status.wants(); soon {
		earlier(s.lastCut.Add(urgentGap))
	}
	if s.sealed != d.journal.last {
		earlier(s.sealedAt.Add(sealEvery))
	}
	return due
}

// step does what is due.
func (d *DB) step() {
	now := time.Now()
	s := &d.schedule
	asked, soon := d.status.wants()
	if !asked && d.dropDue(now) {
		d.drop()
	}
	if d.h == nil {
		if asked || d.o.Mode.periodic() && !now.Before(s.retryAt) {
			d.recover(asked)
		}
		if err := d.backUp(); err != nil {
			d.fail(err)
		}
		return
	}
	err := d.h.guard.failed()
	late := d.o.Mode.periodic() && now.Sub(s.lastCut) >= d.o.Interval
	if err == nil && (asked || late || soon && now.Sub(s.lastCut) >= urgentGap) {
		if d.status.owes() {
			d.rewrite()
			return
		}
		err = d.round()
	}
	if err == nil && now.Sub(s.looked()) >= lookEvery {
		d.look(now)
	}
	if err == nil && s.sealed != d.journal.last && now.Sub(s.sealedAt) >= sealEvery {
		err = d.seal()
	}
	if err == nil {
		err = d.backUp()
	}
	if err == nil && !now.Before(s.mergeAt) && (d.merging != nil || d.mergeDue(now)) {
		err = d.merge()
	}
	if err == nil && now.Sub(s.figuresAt) >= figuresEvery {
		d.removeLitter()
		err = d.takeFigures(now)
	}
	if err == nil && now.Sub(s.memoryAt) >= memoryEvery {
		err = d.takeMemory(now)
	}
	if err != nil {
		d.fail(err)
	}
}

// looked is when it was last known whether anything is waiting for a round.
func (s *schedule) looked() time.Time {
	if s.lookedAt.After(s.lastCut) {
		return s.lookedAt
	}
	return s.lastCut
}

// look sees whether anything is waiting for a round. If not, all up to now is on disk, so that what changes next is no older than it is.
func (d *DB) look(now time.Time) {
	d.schedule.lookedAt = now
	if d.feed.Pending() == 0 {
		d.status.idle(now)
	}
}

// round cuts a round and writes it. An empty one is durable as it is.
func (d *DB) round() error {
	w := newRoundWriter(d.h, d.o.tune, d.journal.last, &d.distinct)
	w.chunk, w.entry, d.chunkRoom = d.chunkRoom, d.entryRoom, nil
	var err error
	w.rest = func(began time.Time) { d.rest(w.cut, began) }
	n, at := d.cut(func(r *shard.Round) { err = w.drain(r) })
	d.schedule.lastCut = at
	if err != nil {
		return err
	}
	var c commit
	if !w.empty() {
		if c, err = w.commit(at.UnixMilli(), d.store.Len()); err != nil {
			return err
		}
		if d.journal.last == d.journal.base {
			d.schedule.journalAt = at
		}
		d.journal.add(c)
	}
	d.chunkRoom, d.entryRoom = w.chunk, w.entry
	d.status.wrote(n, at, c)
	return nil
}

// seal makes Pebble vouch for the rounds so far, with one more synced record, and brings the mark up to them.
func (d *DB) seal() error {
	if err := d.h.run(func(db *pebble.DB) error { return db.LogData(nil, pebble.Sync) }); err != nil {
		return err
	}
	return d.writeMark(false)
}

func (d *DB) writeMark(clean bool) error {
	if err := d.owned(); err != nil {
		return err
	}
	last := d.journal.last
	m := mark{generation: d.h.generation, round: last.round, chain: last.chain, clean: clean,
		durability: d.o.Mode.String(), drained: d.store.DrainedAt()}
	if err := writeMark(d.fs, d.o.Dir, m); err != nil {
		return fmt.Errorf("file MARK: %w", err)
	}
	d.marked = m
	d.schedule.sealed, d.schedule.sealedAt = last, time.Now()
	return nil
}

func (d *DB) mergeDue(now time.Time) bool {
	j := &d.journal
	if j.last == j.base {
		return false
	}
	t := d.o.tune
	return j.bytes >= t.mergeBytes || d.distinct.count >= t.mergeEntries || now.Sub(d.schedule.journalAt) >= mergeEvery
}

// merge does a step of the merge, if it is the moment, and says when the next one is due.
func (d *DB) merge() error {
	full, err := d.crowded()
	if err != nil {
		return err
	}
	if full {
		d.schedule.mergeAt = time.Now().Add(restMost)
		return nil
	}
	began := time.Now()
	err = d.mergeStep()
	d.schedule.mergeAt = d.nextMerge(began)
	return err
}

// mergeStep does a part of the merge under way, and begins one if there is none. After the last part Pebble writes its memtables into
// tables, in the background.
func (d *DB) mergeStep() error {
	if d.merging == nil {
		d.merging = newMerger(d.journal, d.distinct.count, 2*d.o.tune.mergeEntries)
		d.schedule.journalAt = time.Now()
		d.distinct = sketch{}
	}
	m, lines, done := d.merging, d.o.tune.mergeLines, false
	h := d.h
	err := h.run(func(db *pebble.DB) (err error) {
		done, err = m.step(db, lines)
		h.scan = m.rest
		return err
	})
	if err != nil || !done {
		return err
	}
	d.journal.merged(m.journal)
	d.mergeSeen = max(d.mergeSeen, m.seen.memory())
	d.merging = nil
	d.status.keep(func(f *figures) { f.merges++ })
	return d.h.run(func(db *pebble.DB) error {
		_, err := db.AsyncFlush()
		return err
	})
}

// unmerged says whether the table lacks something that the journal has.
func (d *DB) unmerged() bool {
	return d.merging != nil || d.journal.torn || d.journal.last != d.journal.base
}

// crowded says whether a merge had better wait: if it made one more memtable Pebble would have it, and the next round behind it, wait until
// another one is written. If the next merge is due as well Pebble is not paced meanwhile.
func (d *DB) crowded() (full bool, err error) {
	pace, late := &d.h.guard.pace, d.late()
	err = d.h.run(func(db *pebble.DB) error {
		full = db.Metrics().MemTable.Count >= maxMemTables
		pace.crowded.Store(full && late)
		return nil
	})
	return full, err
}

// mergeAll brings the table up to date and empties the journal.
func (d *DB) mergeAll() error {
	for d.unmerged() {
		if err := d.mergeStep(); err != nil {
			return err
		}
	}
	return nil
}

func (d *DB) takeFigures(now time.Time) error {
	d.schedule.figuresAt = now
	return d.h.run(func(db *pebble.DB) error {
		m := db.Metrics()
		disk, wal := m.DiskSpaceUsage(), m.WAL.Size
		d.status.keep(func(f *figures) { f.diskBytes, f.walBytes = disk, wal })
		return nil
	})
}

// takeMemory looks how much memory is in use for writing, and whether compactions fall behind.
func (d *DB) takeMemory(now time.Time) error {
	d.schedule.memoryAt = now
	merge := d.mergeSeen
	if d.merging != nil {
		merge = max(merge, d.merging.seen.memory())
	}
	d.mergeSeen = 0
	pace := &d.h.guard.pace
	return d.h.run(func(db *pebble.DB) error {
		m := db.Metrics()
		memory := int64(m.MemTable.Size+m.MemTable.ZombieSize) + m.BlockCache.Size + int64(merge)
		d.status.keep(func(f *figures) { f.memory = max(memory, f.memory-f.memory/memoryFade) })
		pace.sees(int(m.Levels[0].Sublevels))
		return nil
	})
}

// Memory returns the bytes of memory that writing to disk has lately taken at the most.
func (d *DB) Memory() int64 {
	d.status.mu.Lock()
	defer d.status.mu.Unlock()
	return d.status.figures.memory
}
