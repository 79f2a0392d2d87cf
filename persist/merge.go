package persist

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rlserver/rlserver/shard"
)

// A merger brings the table up to a round of the journal, in steps, so that rounds can be written in between: they only add to the
// journal. Nothing is synced: cut off anywhere it leaves a state from which it can be done again, because what it has merged leaves the
// journal in its last batch.
//
// The journal it is given must describe what is there exactly, up to its last round. If there are few enough distinct keys to remember,
// it goes from the newest chunk to the oldest and writes each key once; else, which is one huge round as a rule, it goes forward and
// writes everything. The table is the same in the end.
type merger struct {
	journal journal
	begun   bool
	at      []byte // the last chunk merged

	seeds [2]maphash.Seed
	seen  map[[2]uint64]struct{} // 128-bit hashes of the keys written, nil: every line is written

	passed int // changes of the journal so far

	batch *pebble.Batch // of the step under way
	lines []line
	key   []byte
}

// newMerger makes a merger that expects so many distinct keys and may remember so many.
func newMerger(j journal, distinct, remember int) *merger {
	m := &merger{journal: j}
	if distinct <= remember {
		m.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
		m.seen = make(map[[2]uint64]struct{}, distinct)
	}
	return m
}

// step merges so many lines, up to the end of a chunk, and says whether that was the last step.
func (m *merger) step(db *pebble.DB, lines int) (done bool, err error) {
	m.batch = db.NewBatch()
	defer func() { m.batch.Close() }()
	if !m.begun && m.journal.cleared != 0 {
		if err := m.batch.DeleteRange([]byte{tableSpace}, []byte{tableSpace + 1}, nil); err != nil {
			return false, err
		}
	}
	it, err := m.iterator(db)
	if err != nil {
		return false, err
	}
	defer it.Close()
	next, ok := it.Next, false
	if m.seen != nil {
		next, ok = it.Prev, it.Last()
	} else {
		ok = it.First()
	}
	for until := m.passed + lines; ok && m.passed < until; ok = next() {
		m.passed++ // a record of few lines is work as well
		value, err := it.ValueAndErr()
		if err == nil {
			err = m.chunk(it.Key(), value)
		}
		if err != nil {
			return false, fmt.Errorf("journal record %x: %w", it.Key(), err)
		}
		m.at = append(m.at[:0], it.Key()...)
	}
	m.begun = true
	if ok {
		return false, m.flush()
	}
	if err := it.Error(); err != nil {
		return false, err
	}
	return true, m.finish()
}

// iterator is over what is still to be merged.
func (m *merger) iterator(db *pebble.DB) (*pebble.Iterator, error) {
	o := &pebble.IterOptions{
		LowerBound: journalKey(m.journal.base.round+1, 0),
		UpperBound: journalKey(m.journal.last.round, commitChunk),
	}
	switch {
	case !m.begun:
	case m.seen != nil:
		o.UpperBound = m.at
	default:
		o.LowerBound = append(slices.Clone(m.at), 0)
	}
	return db.NewIter(o)
}

func (m *merger) finish() error {
	end := journalKey(m.journal.last.round+1, 0)
	if m.journal.torn {
		end = []byte{journalSpace + 1}
	}
	if err := m.batch.DeleteRange([]byte{journalSpace}, end, nil); err != nil {
		return err
	}
	s := &m.journal.steps
	if err := errors.Join(s.mark(m.batch), s.prune(m.batch)); err != nil {
		return err
	}
	if err := m.batch.Set([]byte{baseSpace}, encodeBase(m.journal.last, *s), nil); err != nil {
		return err
	}
	return m.commit()
}

// chunk merges one chunk; commit records are passed over, and so are the entries before a clear, that count no more.
func (m *merger) chunk(key, value []byte) error {
	round, n, _ := parseJournalKey(key)
	if n == commitChunk {
		return nil
	}
	space, lines, err := readChunk(m.lines[:0], key, value)
	if err != nil {
		return err
	}
	m.lines = lines
	m.passed += len(lines)
	if space == shard.KeySpace && round < m.journal.cleared {
		return nil
	}
	if m.seen != nil {
		// A key may be in a round twice, gone and then there again.
		slices.Reverse(m.lines)
	}
	for _, l := range m.lines {
		m.key = appendTableKey(m.key[:0], space, l.key)
		if m.first(m.key) {
			if err := m.put(l); err != nil {
				return err
			}
		}
	}
	if m.batch.Count() < chunkRecords && m.batch.Len() < chunkBytes {
		return nil
	}
	return m.flush()
}

// first says whether a line of this key of the table has not been written yet.
func (m *merger) first(key []byte) bool {
	if m.seen == nil {
		return true
	}
	h := [2]uint64{maphash.Bytes(m.seeds[0], key), maphash.Bytes(m.seeds[1], key)}
	if _, ok := m.seen[h]; ok {
		return false
	}
	m.seen[h] = struct{}{}
	return true
}

// put writes a line under m.key.
func (m *merger) put(l line) error {
	if len(l.entry) == 0 {
		return m.batch.Delete(m.key, nil)
	}
	return m.batch.Set(m.key, l.entry, nil)
}

// flush commits what is in the batch, as a step, and empties it.
func (m *merger) flush() error {
	if m.batch.Empty() {
		return nil
	}
	if err := m.journal.steps.mark(m.batch); err != nil {
		return err
	}
	return m.commit()
}

func (m *merger) commit() error {
	if err := m.batch.Commit(pebble.NoSync); err != nil {
		return err
	}
	m.batch.Reset()
	return nil
}

// A sketch counts distinct keys in 128 KiB: never too many, and a tenth too few when there are sketchBits/5.
type sketch struct {
	bits  [sketchBits / 64]uint64
	count int
}

const sketchBits = 1 << 20

var sketchSeed = maphash.MakeSeed()

func (s *sketch) add(key []byte) {
	h := maphash.Bytes(sketchSeed, key) % sketchBits
	if bit := uint64(1) << (h % 64); s.bits[h/64]&bit == 0 {
		s.bits[h/64] |= bit
		s.count++
	}
}
