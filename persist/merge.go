package persist

import (
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rlserver/rlserver/shard"
)

// mergeJournal brings the table up to the journal's last round and empties the journal. j must describe the journal exactly. Nothing is
// synced: cut off anywhere it leaves a state from which it can be done again, because the journal goes in the last batch.
func mergeJournal(db *pebble.DB, j journal, maxDistinct int) error {
	m := merger{db: db, batch: db.NewBatch(), journal: j}
	defer func() { m.batch.Close() }()
	if j.cleared != 0 {
		if err := m.batch.DeleteRange([]byte{tableSpace}, []byte{tableSpace + 1}, nil); err != nil {
			return err
		}
	}
	if err := m.table(maxDistinct); err != nil {
		return err
	}
	if err := m.batch.DeleteRange([]byte{journalSpace}, []byte{journalSpace + 1}, nil); err != nil {
		return err
	}
	if err := m.batch.Set([]byte{baseSpace}, encodeBase(j.last), nil); err != nil {
		return err
	}
	return m.flush()
}

// A merger writes journal lines into the table.
type merger struct {
	db      *pebble.DB
	batch   *pebble.Batch
	journal journal

	seeds [2]maphash.Seed
	seen  map[[2]uint64]struct{} // 128-bit hashes of the keys written, nil: every line is written
	lines []line
	key   []byte
}

// table merges the rounds. If there are few enough distinct keys to remember, it goes from the newest to the oldest and writes each key
// once; else, which is one huge round as a rule, it goes forward and writes everything.
func (m *merger) table(maxDistinct int) error {
	distinct := min(m.journal.changes, m.journal.last.keys)
	backward := distinct <= maxDistinct
	if backward {
		m.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
		m.seen = make(map[[2]uint64]struct{}, distinct)
	}
	it, err := m.db.NewIter(&pebble.IterOptions{
		LowerBound: journalKey(m.journal.base.round+1, 0),
		UpperBound: journalKey(m.journal.last.round, commitChunk),
	})
	if err != nil {
		return err
	}
	defer it.Close()
	step, ok := it.Next, false
	if backward {
		step, ok = it.Prev, it.Last()
	} else {
		ok = it.First()
	}
	for ; ok; ok = step() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = m.chunk(it.Key(), value)
		}
		if err != nil {
			return fmt.Errorf("journal record %x: %w", it.Key(), err)
		}
	}
	return it.Error()
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

func (m *merger) flush() error {
	err := m.batch.Commit(pebble.NoSync)
	m.batch.Close()
	m.batch = m.db.NewBatch()
	return err
}
