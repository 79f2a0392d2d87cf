package persist

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rlserver/rlserver/shard"
)

// write makes the new directory. FORMAT is written last: without it nothing starts on the directory.
func (r *repairer) write() error {
	r.lost()
	dir := r.fs.PathJoin(r.newDir, generationName(1))
	// The directory is never on disk without something in it, so that nothing takes it for an empty one.
	err := r.fs.MkdirAll(dir, dirMode)
	if err == nil {
		err = syncDir(r.fs, r.newDir)
	}
	if err == nil {
		err = syncDir(r.fs, r.fs.PathDir(r.newDir))
	}
	if err != nil {
		return unwritable(r.newDir, err)
	}
	at := &site{log: slog.New(slog.DiscardHandler)}
	h, err := newGeneration(r.fs, dir, 1, point{}, at)
	if err != nil {
		return unwritable(r.newDir, err)
	}
	if err := r.fill(h); err != nil {
		h.abandon()
		return err
	}
	if err := h.close(); err != nil {
		return unwritable(r.newDir, err)
	}
	return r.complete()
}

// fill writes everything that can be saved into a generation.
func (r *repairer) fill(h *handle) error {
	s := r.survey
	r.judge.found = &r.report.Lost
	w := &tableWriter{h: h}
	limits, err := s.limits(r.raw)
	if err != nil {
		return err
	}
	right := r.judge.limits(limits, &r.report.Census)
	r.report.Damaged += len(limits) - len(right)
	for _, l := range right {
		if err := w.put(shard.LimitSpace, l); err != nil {
			return unwritable(r.newDir, err)
		}
	}
	for spans := s.spans(); len(spans) > 1; spans = spans[1:] {
		if err := r.entries(w, spans[0], spans[1]); err != nil {
			return err
		}
	}
	r.judge.n.into(&r.report.Census, &r.judge.names)
	r.report.Unsure = r.raw.unsure[tableSpace] + r.raw.unsure[limitSpace]
	if n := r.report.Unsure; n > 0 {
		r.report.Lost.add("%d entries and named limits left out: which of their states is the last cannot be told", n)
	}
	for _, t := range r.raw.tables {
		r.report.LostRecords += max(0, t.lost)
	}
	base := s.sound
	base.round, base.chain, base.keys = max(s.last.round, r.marked()), 0, r.report.Entries
	if err := w.flush(&base); err != nil {
		return unwritable(r.newDir, err)
	}
	return nil
}

// marked is the round that the witness knows of.
func (r *repairer) marked() uint64 {
	if r.mark == nil {
		return 0
	}
	return r.mark.round
}

// entries writes some partitions of the table, with the journal over it.
func (r *repairer) entries(w *tableWriter, from, to int) error {
	over, err := r.survey.overlay(r.raw, from, to)
	if err != nil {
		return err
	}
	put := func(l line) error {
		if !r.judge.entry(l.key, l.entry) {
			r.report.Damaged++
			return nil
		}
		if now := time.Now(); r.progress != nil && now.Sub(r.said) >= sayEvery {
			r.said = now
			r.progress(w.entries)
		}
		if err := w.put(shard.KeySpace, l); err != nil {
			return unwritable(r.newDir, err)
		}
		return nil
	}
	if s := r.survey; s.cleared == 0 || s.loose {
		err = r.raw.scan(tableBound(from), tableBound(to), func(key, value []byte) error {
			name := key[2:]
			if s.covers(over, name, r.raw.seq) {
				return nil
			}
			delete(over, string(name))
			if int(key[1]) != partitionOf(name) {
				r.judge.found.add("entry of key %.64q: in the wrong partition", name)
				r.report.Damaged++
				return nil
			}
			return put(line{name, value})
		})
		if err != nil {
			return err
		}
	}
	for key, l := range over {
		if len(l.entry) > 0 {
			if err := put(line{[]byte(key), l.entry}); err != nil {
				return err
			}
		}
	}
	return nil
}

// complete makes a directory of the generation that was written.
func (r *repairer) complete() error {
	base := r.survey.sound
	base.round = max(r.survey.last.round, r.marked())
	r.report.Clean = r.report.Whole() && r.mark.clean
	m := mark{}
	if r.mark != nil {
		m = *r.mark
	}
	m.generation, m.round, m.chain, m.clean = 1, base.round, 0, r.report.Clean
	if !r.report.Whole() {
		m.origin = OriginRepair
	}
	err := writeMark(r.fs, r.newDir, m)
	if err == nil {
		err = writeCurrent(r.fs, r.newDir, 1, stateLive)
	}
	if err == nil {
		err = syncDir(r.fs, r.fs.PathDir(r.newDir))
	}
	if err == nil {
		err = writeFormat(r.fs, r.newDir)
	}
	if err != nil {
		return unwritable(r.newDir, err)
	}
	c, err := Check(r.newDir, r.fs)
	switch {
	case err != nil:
		return err
	case c.Damage.Total > 0:
		return fmt.Errorf("what was written into %s does not pass the check: %s", r.newDir, c.Damage.Lines[0])
	case c.Entries != r.report.Entries || c.Limits != r.report.Limits:
		return fmt.Errorf("%d entries were written into %s, the check finds %d", r.report.Entries, r.newDir, c.Entries)
	}
	return nil
}

// discard removes what was made.
func (r *repairer) discard(fresh bool) {
	if fresh {
		r.fs.RemoveAll(r.newDir)
		return
	}
	names, _ := r.fs.List(r.newDir)
	for _, name := range names {
		if name != lostAndFound {
			r.fs.RemoveAll(r.fs.PathJoin(r.newDir, name))
		}
	}
}

// A tableWriter fills the table of a new generation with records as they are.
type tableWriter struct {
	h       *handle
	lines   []line // keys of the table
	bytes   int
	entries int
	steps   steps
}

func (w *tableWriter) put(space byte, l line) error {
	key := appendTableKey(nil, space, l.key)
	w.lines = append(w.lines, line{key, slices.Clone(l.entry)})
	w.entries++
	if w.bytes += len(key) + len(l.entry); len(w.lines) < chunkRecords && w.bytes < chunkBytes {
		return nil
	}
	return w.flush(nil)
}

// flush writes what has been put as a step, and, at the end, the base record, that says how many steps there were.
func (w *tableWriter) flush(end *point) error {
	lines, step := w.lines, w.steps
	w.lines, w.bytes = nil, 0 // the worker may keep the others when run has returned
	w.steps.last++
	return w.h.run(func(db *pebble.DB) error {
		b := db.NewBatch()
		defer b.Close()
		for _, l := range lines {
			if err := b.Set(l.key, l.entry, nil); err != nil {
				return err
			}
		}
		if err := step.mark(b); err != nil || end == nil {
			return errors.Join(err, b.Commit(pebble.NoSync))
		}
		if err := b.Set([]byte{baseSpace}, encodeBase(*end, step), nil); err != nil {
			return err
		}
		return b.Commit(pebble.Sync)
	})
}
