package persist

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
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
	rest    *pebble.Iterator // over what is still to be merged, nil before the first step and after the last
	more    bool             // it is at something

	seen *seen // the keys written, nil: every line is written

	passed int // changes of the journal so far

	batch  *pebble.Batch // of the step under way
	lines  []line
	hashes [][2]uint64
	key    []byte
}

// newMerger makes a merger that expects so many distinct keys and may remember so many.
func newMerger(j journal, distinct, remember int) *merger {
	m := &merger{journal: j}
	if distinct <= remember {
		m.seen = newSeen(distinct)
	}
	return m
}

// step merges so many lines, up to the end of a chunk, and says whether that was the last step. All steps are for one db.
func (m *merger) step(db *pebble.DB, lines int) (done bool, err error) {
	m.batch = db.NewBatch()
	defer func() { m.batch.Close() }()
	if m.rest == nil {
		if err := m.begin(db); err != nil {
			return false, err
		}
	}
	next := m.rest.Next
	if m.seen != nil {
		next = m.rest.Prev
	}
	for until := m.passed + lines; m.more && m.passed < until; m.more = next() {
		m.passed++ // a record of few lines is work as well
		value, err := m.rest.ValueAndErr()
		if err == nil {
			err = m.chunk(m.rest.Key(), value)
		}
		if err != nil {
			return false, fmt.Errorf("journal record %x: %w", m.rest.Key(), err)
		}
	}
	if m.more {
		return false, m.flush()
	}
	err = m.rest.Close()
	m.rest = nil
	if err != nil {
		return false, err
	}
	return true, m.finish()
}

// begin looks at the journal as it is now, once: to find the place again for each chunk took a quarter of a merge's time.
func (m *merger) begin(db *pebble.DB) (err error) {
	if m.journal.cleared != 0 {
		if err := m.batch.DeleteRange([]byte{tableSpace}, []byte{tableSpace + 1}, nil); err != nil {
			return err
		}
	}
	m.rest, err = db.NewIter(&pebble.IterOptions{
		LowerBound: journalKey(m.journal.base.round+1, 0),
		UpperBound: journalKey(m.journal.last.round, commitChunk),
	})
	if err != nil {
		return err
	}
	if m.seen != nil {
		m.more = m.rest.Last()
	} else {
		m.more = m.rest.First()
	}
	return nil
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
		slices.Reverse(m.lines) // a key may be in a round twice, gone and then there again
		m.lines = m.unseen(space, m.lines)
	}
	for _, l := range m.lines {
		m.key = appendTableKey(m.key[:0], space, l.key)
		if err := m.put(l); err != nil {
			return err
		}
	}
	if m.batch.Count() < chunkRecords && m.batch.Len() < chunkBytes {
		return nil
	}
	return m.flush()
}

// unseen keeps the lines whose keys are seen for the first time.
func (m *merger) unseen(space byte, lines []line) []line {
	m.hashes = m.hashes[:0]
	for _, l := range lines {
		m.hashes = append(m.hashes, m.seen.hash(space, l.key))
	}
	m.seen.touch(m.hashes)
	kept := lines[:0]
	for i, l := range lines {
		if m.seen.add(m.hashes[i]) {
			kept = append(kept, l)
		}
	}
	return kept
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

// A seen is a set of keys, of which it keeps hashes of 128 bits: that two of them are the same does not happen. It is an open table, a
// quarter empty at least, because a Go map took a third of a merge's time.
type seen struct {
	seeds [2]maphash.Seed
	slots [][2]uint64 // a power of two; zero is an empty one
	count int

	touched uint64 // means nothing, so that reading is not optimized away
}

// newSeen makes a set that expects so many keys.
func newSeen(expected int) *seen {
	return &seen{
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		slots: make([][2]uint64, 1<<bits.Len(uint(max(expected, 8)*4/3))),
	}
}

// hash is what the set keeps of a key of a space.
func (s *seen) hash(space byte, key []byte) [2]uint64 {
	return [2]uint64{maphash.Bytes(s.seeds[0], key) ^ uint64(space), maphash.Bytes(s.seeds[1], key) | 1} // not zero
}

// touch reads where these hashes belong, one right after the other, so that their memory is fetched at the same time.
func (s *seen) touch(hashes [][2]uint64) {
	for _, h := range hashes {
		s.touched ^= s.slots[h[0]&uint64(len(s.slots)-1)][1]
	}
}

// add says whether the hash is new.
func (s *seen) add(h [2]uint64) bool {
	slot := s.slot(h)
	if *slot == h {
		return false
	}
	*slot = h
	if s.count++; s.count > len(s.slots)*3/4 {
		s.grow()
	}
	return true
}

// slot is where the hash is, or belongs.
func (s *seen) slot(h [2]uint64) *[2]uint64 {
	for i := h[0]; ; i++ {
		if slot := &s.slots[i&uint64(len(s.slots)-1)]; *slot == h || slot[1] == 0 {
			return slot
		}
	}
}

func (s *seen) grow() {
	old := s.slots
	s.slots = make([][2]uint64, 2*len(old))
	for _, h := range old {
		if h[1] != 0 {
			*s.slot(h) = h
		}
	}
}

// memory is how many bytes it takes; none if there is no set.
func (s *seen) memory() int {
	if s == nil {
		return 0
	}
	return len(s.slots) * 16
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
