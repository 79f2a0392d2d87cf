package persist

import (
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rlserver/rlserver/shard"
)

// A roundWriter writes one round into the journal of a handle.
type roundWriter struct {
	h     *handle
	tune  tuning
	c     commit // as far as written
	chunk []byte
	space byte // of the lines in chunk
	lines int  // in chunk
	entry []byte
	cut   time.Time             // about
	rest  func(began time.Time) // after a piece of draining; nil = none

	distinct *sketch // of the keys in the journal
}

func newRoundWriter(h *handle, tune tuning, last point, distinct *sketch) *roundWriter {
	return &roundWriter{h: h, tune: tune, distinct: distinct, c: commit{point: point{round: last.round + 1, chain: last.chain}}}
}

// drain writes all that a round of the feed tells; on an error the round is drained nonetheless, as the feed demands.
func (w *roundWriter) drain(r *shard.Round) error {
	w.c.cleared = r.Cleared
	w.cut = time.Now()
	for piece := w.cut; ; piece = time.Now() {
		changes := r.Next(min(w.tune.chunkRecords, pieceChanges))
		if changes == nil {
			return nil
		}
		for _, c := range changes {
			if err := w.add(c); err != nil {
				discard(r)
				return err
			}
		}
		if w.rest != nil {
			w.rest(piece)
		}
	}
}

// discard drains a round that is not going to be written.
func discard(r *shard.Round) {
	for r.Next(chunkRecords) != nil {
	}
}

func (w *roundWriter) add(c shard.Change) error {
	if w.lines == w.tune.chunkRecords || len(w.chunk) >= chunkBytes || w.lines > 0 && w.space != c.Space {
		key, value := w.closeChunk()
		// A new buffer for the next one: the worker may still use this one when run has returned.
		err := w.h.run(func(db *pebble.DB) error { return db.Set(key, value, pebble.NoSync) })
		if err != nil {
			return err
		}
		w.chunk = value[:0]
	}
	if w.lines == 0 {
		w.chunk, w.space = openChunk(w.chunk[:0], c.Space), c.Space
	}
	w.entry = w.entry[:0]
	if c.Kind != 0 {
		w.entry = appendEntry(w.entry, c)
	}
	w.chunk = appendChange(w.chunk, c, w.entry)
	w.distinct.add(c.Key)
	w.lines++
	w.c.changes++
	return nil
}

func (w *roundWriter) closeChunk() (key, value []byte) {
	key = journalKey(w.c.round, uint32(w.c.chunks))
	value = seal(w.chunk, 0, key)
	w.c.chunks++
	w.c.bytes += len(value)
	w.c.chain = link(w.c.chain, value)
	w.chunk, w.lines = nil, 0
	return key, value
}

// empty says that the round changes nothing.
func (w *roundWriter) empty() bool { return w.c.changes == 0 && !w.c.cleared }

// commit writes the rest and the commit record, in one batch, and syncs. When it returns nil the round is durable.
func (w *roundWriter) commit(saved int64, keys int) (commit, error) {
	var lastKey, last []byte
	if w.lines > 0 {
		lastKey, last = w.closeChunk()
	}
	w.c.saved, w.c.keys = saved, keys
	c := w.c
	err := w.h.run(func(db *pebble.DB) error {
		b := db.NewBatch()
		defer b.Close()
		if last != nil {
			if err := b.Set(lastKey, last, nil); err != nil {
				return err
			}
		}
		if err := b.Set(journalKey(c.round, commitChunk), encodeCommit(c), nil); err != nil {
			return err
		}
		return b.Commit(pebble.Sync)
	})
	if err == nil {
		w.chunk = last[:0] // the worker is done with it
	}
	return c, err
}

// writeAll fills the table of a new generation with every named limit and every entry of the store, and then makes the base record say in
// how many steps. It is the state of no single moment: entries change while it runs. The round cut after it, written on top, makes it
// one.
func writeAll(h *handle, s *shard.Store, at point) (done steps, err error) {
	type pair struct{ key, entry []byte }
	var pairs []pair
	put := func(last bool) error {
		batch, step := slices.Clone(pairs), done
		pairs = pairs[:0]
		err := h.run(func(db *pebble.DB) error {
			b := db.NewBatch()
			defer b.Close()
			for _, p := range batch {
				if err := b.Set(p.key, p.entry, nil); err != nil {
					return err
				}
			}
			if err := step.mark(b); err != nil {
				return err
			}
			if last {
				if err := b.Set([]byte{baseSpace}, encodeBase(at, step), nil); err != nil {
					return err
				}
			}
			return b.Commit(pebble.NoSync)
		})
		done.last++
		return err
	}
	add := func(changes []shard.Change) bool {
		for _, c := range changes {
			pairs = append(pairs, pair{appendTableKey(nil, c.Space, c.Key), appendEntry(nil, c)})
		}
		if len(pairs) >= chunkRecords {
			err = put(false)
		}
		return err == nil
	}
	if add(s.Limits().Changes()) {
		s.Each(add)
	}
	if err == nil {
		err = put(true)
	}
	return done, err
}
