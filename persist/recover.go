package persist

import (
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rlserver/rlserver/shard"
)

// fail gives the handle up after an error of it. Decisions go on; the rounds cut so far are not on disk.
func (d *DB) fail(err error) {
	h := d.h
	d.h, d.merging, d.schedule.tooLittle = nil, nil, 0
	if time.Since(d.schedule.recoveredAt) > retryMost {
		d.schedule.retryPause = 0
	}
	d.failed(err)
	d.status.keep(func(f *figures) { f.memory = 0 })
	h.abandon()
}

// failed notes an error and when to try next.
func (d *DB) failed(err error) {
	s, now := &d.schedule, time.Now()
	s.noRoom = vfs.IsNoSpaceError(err)
	most := retryMost
	if d.o.Mode.Promise() != shard.Nothing {
		most = retryPromised
	}
	s.retryPause = max(retryFirst, min(2*s.retryPause, most))
	s.backOff = now.Add(s.retryPause)
	if s.retryAt = s.backOff; s.noRoom {
		s.retryAt = now.Add(retryFirst)
	}
	d.status.fails(fmt.Errorf("not on disk: %w", err))
	if missed, ok := s.failLog.allow(now); ok {
		s.failLogged = true
		d.log.Error("cannot write to the data directory; "+d.o.Mode.meanwhile(), "dir", d.o.Dir,
			"error", err, "lag_ms", d.Stats().LagMs, "next_attempt", s.retryPause, "unlogged_attempts", missed)
	}
}

// recover tries to write a new generation and to put it in the place of the old one. If there is no room for it, it is not tried,
// unless somebody asked.
func (d *DB) recover(asked bool) {
	start := time.Now()
	if d.schedule.noRoom && !d.room(start) && !asked {
		d.schedule.retryAt = start.Add(retryFirst)
		return
	}
	if d.replace() && d.schedule.failLogged {
		d.schedule.failLogged = false
		d.log.Warn("writing to the data directory works again; everything is on disk", "dir", d.o.Dir, "generation", d.h.generation,
			"took", time.Since(start))
	}
}

// replace puts a new generation in the place of the old one, whose handle has been given up, and says whether that worked.
func (d *DB) replace() bool {
	if err := d.newGeneration(); err != nil {
		d.failed(err)
		return false
	}
	d.schedule.recoveredAt = time.Now()
	if err := d.writeMark(false); err != nil {
		d.fail(err)
		return false
	}
	return true
}

// room says whether the disk seems to have room for a new generation beside the old one, and, until the back-off is over, more than when
// the last attempt found too little. A file system that does not tell has, then.
func (d *DB) room(now time.Time) bool {
	s := &d.schedule
	over := !now.Before(s.backOff)
	u, err := d.fs.GetDiskUsage(d.o.Dir)
	if err != nil {
		return over
	}
	need := 2*uint64(max(0, d.store.Stats().UsedBytes)) + roomSpare
	if u.AvailBytes < need || !over && u.AvailBytes < s.tooLittle+need/2 {
		return false
	}
	s.tooLittle = u.AvailBytes
	return true
}

// newGeneration writes everything into a new generation and makes it current. Until CURRENT names the new one the old one counts, so it
// can be cut off anywhere.
func (d *DB) newGeneration() error {
	if err := d.reclaim(); err != nil {
		return err
	}
	d.lastGen++
	n, dir := d.lastGen, d.generationDir(d.lastGen)
	h, err := newGeneration(d.fs, dir, n, d.journal.last, &d.site)
	if err != nil {
		d.removeGeneration(dir)
		return err
	}
	h.guard.pace.rushing.Store(true)
	done, err := d.fill(h)
	h.guard.pace.rushing.Store(false)
	if err != nil {
		h.abandon()
		d.removeGeneration(dir)
		return err
	}
	if err := d.owned(); err != nil {
		h.abandon()
		return err
	}
	d.stale = append(d.stale, d.current)
	if err := writeCurrent(d.fs, d.o.Dir, n, stateLive); err != nil {
		// It may name the new one or the old one now, and after a crash either: both stay until a later one is known to be named.
		h.abandon()
		d.current = dir
		return fmt.Errorf("file CURRENT: %w", err)
	}
	d.h, d.current = h, dir
	d.journal = journal{base: d.journal.last, last: d.journal.last, steps: done.steps}
	d.journal.add(done.commit)
	d.schedule.lastCut, d.schedule.journalAt = done.at, done.at
	d.status.wrote(done.round, done.at, done.commit)
	d.status.keep(func(f *figures) { f.generations++; f.generation = n })
	for _, old := range d.stale {
		d.removeGeneration(old)
	}
	d.stale = nil
	return nil
}

// filled says up to where a generation was filled.
type filled struct {
	round  uint64 // as the feed counts
	at     time.Time
	commit commit
	steps  steps // of the table
}

// fill writes the whole store into a generation and syncs it. The entries are written while they change; the round that collected the
// changes meanwhile is written after them and makes it the state of one moment.
func (d *DB) fill(h *handle) (filled, error) {
	d.cut(discard)
	steps, err := writeAll(h, d.store, d.journal.last)
	if err != nil {
		return filled{}, err
	}
	d.distinct = sketch{}
	w := newRoundWriter(h, d.o.tune, d.journal.last, &d.distinct)
	round, at := d.cut(func(r *shard.Round) { err = w.drain(r) })
	if err != nil {
		return filled{}, err
	}
	c, err := w.commit(at.UnixMilli(), d.store.Len())
	if err == nil {
		err = h.run(func(db *pebble.DB) error { return db.Flush() })
	}
	return filled{round, at, c, steps}, err
}

// cut cuts a round and has it drained.
func (d *DB) cut(drain func(*shard.Round)) (round uint64, at time.Time) {
	at = time.Now()
	d.status.cuts(at)
	r := d.feed.Cut()
	d.status.wasCut(r.Number)
	drain(r)
	return r.Number, at
}
