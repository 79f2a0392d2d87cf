package persist

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rlserver/rlserver/shard"
)

// Records are the records of a generation, as the tools read them.
type records interface {
	// scan calls f for each record with a key in [lower, upper), in order. What f gets is valid until it returns; its error ends the scan.
	scan(lower, upper []byte, f func(key, value []byte) error) error
}

// pebbleRecords are those that Pebble has.
type pebbleRecords struct{ db *pebble.DB }

func (p pebbleRecords) scan(lower, upper []byte, f func(key, value []byte) error) error {
	it, err := p.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = f(it.Key(), value)
		}
		if err != nil {
			return err
		}
	}
	return it.Error()
}

// A survey is a journal read by a tool: damage in it does not end the reading, as it does for a start.
//
// A round counts if its commit record and all its chunks verify. One that does not is left out as a whole. The rounds after it count
// nonetheless: changes are absolute, so what they say of a key is right on its own.
type survey struct {
	base, last point // last: of the newest commit record
	noBase     error // why there is no base record

	rounds, changes, bytes int // of those that count
	cleared                uint64
	bad                    map[uint64]badRound
	missing                int    // rounds of which there is nothing
	firstLost              uint64 // the first round that is bad or missing, 0 if none
	sound                  point  // the last round before firstLost
	torn                   bool
	strays                 Findings // what is no part of a round
	steps                  steps
	noStep                 error // which part of what was written into the table is missing

	// loose says that there may have been a newer base record: rounds that are here may be in the table already, and changed there
	// since.
	loose bool

	cur roundScan
	buf []line
}

// A badRound is one that was committed and cannot be used.
type badRound struct {
	why     error
	changes int // that it had, or -1 if nothing says so
}

// A roundScan is a round as far as it has been read.
type roundScan struct {
	round          uint64
	chunks         int // seen, and the number of the next one
	changes, bytes int
	chain          uint32
	why            error // the first trouble
	commit         *commit
}

// takeSurvey reads the journal twice at most: for what is in it, and, with lines, for what it says.
func takeSurvey(r records) (*survey, error) {
	s := &survey{bad: map[uint64]badRound{}, noBase: errors.New("the base record is missing")}
	err := r.scan([]byte{baseSpace}, []byte{baseSpace + 1}, func(key, value []byte) error {
		if len(key) != 1 {
			s.strays.add("record %x belongs to nothing", key)
			return nil
		}
		s.base, s.steps, s.noBase = decodeBase(value)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.last, s.sound = s.base, s.base
	err = r.scan([]byte{journalSpace}, []byte{journalSpace + 1}, func(key, value []byte) error {
		s.record(key, value)
		return nil
	})
	if err != nil {
		return s, err
	}
	s.finish(true)
	if s.noBase == nil {
		s.noStep = s.steps.read(r)
	}
	return s, nil
}

func (s *survey) record(key, value []byte) {
	round, chunk, ok := parseJournalKey(key)
	if !ok {
		s.strays.add("journal record %x: not a journal key", key)
		return
	}
	if round != s.cur.round {
		s.finish(false)
		s.open(round)
	}
	c := &s.cur
	if chunk == commitChunk {
		got, err := decodeCommit(round, key, value)
		if err != nil {
			c.fail(fmt.Errorf("commit record: %w", err))
			return
		}
		c.commit = &got
		return
	}
	if int(chunk) != c.chunks {
		c.fail(fmt.Errorf("chunk %d is missing", c.chunks))
		c.chunks = int(chunk)
	}
	c.chunks++
	_, lines, err := readChunk(s.buf[:0], key, value)
	if err != nil {
		c.fail(fmt.Errorf("chunk %d: %w", chunk, err))
		return
	}
	s.buf = lines
	c.changes += len(lines)
	c.bytes += len(value)
	c.chain = link(c.chain, value)
}

func (c *roundScan) fail(err error) {
	if c.why == nil {
		c.why = err
	}
}

// open begins with a round, after the rounds in between, that are missing.
func (s *survey) open(round uint64) {
	if s.noBase != nil && s.last.round == 0 {
		// Without a base record, the journal is taken to begin where it does.
		s.last = point{round: round - 1}
	}
	s.cur = roundScan{round: round, chain: s.last.chain}
	if round > s.last.round+1 {
		s.missing += int(round - s.last.round - 1)
		s.lost(s.last.round + 1)
	}
}

// finish judges the round that was read last.
func (s *survey) finish(end bool) {
	c := s.cur
	if c.round == 0 {
		return
	}
	known := c.commit != nil
	switch {
	case c.round <= s.base.round && s.noBase == nil:
		s.strays.add("round %d is in the journal though the table has it", c.round)
		return
	case !known && end && c.why == nil:
		s.torn = true // what a crash leaves
		return
	case !known:
		c.fail(errors.New("its commit record is missing"))
	case c.commit.chunks != c.chunks || c.commit.changes != c.changes:
		c.fail(fmt.Errorf("it has %d chunks with %d changes, its commit record says %d and %d", c.chunks, c.changes, c.commit.chunks, c.commit.changes))
	case s.chained(c.round) && c.commit.chain != c.chain:
		c.fail(fmt.Errorf("its chain is %08x, its commit record says %08x", c.chain, c.commit.chain))
	}
	if c.why != nil {
		b := badRound{c.why, -1}
		if known {
			b.changes = c.commit.changes
			s.last = c.commit.point
		} else {
			s.last = point{round: c.round}
		}
		s.bad[c.round] = b
		s.lost(c.round)
		return
	}
	s.last = c.commit.point
	s.rounds++
	s.changes += c.changes
	s.bytes += c.bytes
	if c.commit.cleared {
		s.cleared = c.round
	}
	if s.firstLost == 0 {
		s.sound = s.last
	}
}

// chained says whether the chain up to a round is known, so that the round's can be held against it.
func (s *survey) chained(round uint64) bool {
	return round == s.last.round+1 && (s.last.saved != 0 || s.noBase == nil && s.last == s.base)
}

// lost notes that a round is not there.
func (s *survey) lost(round uint64) {
	if s.firstLost == 0 {
		s.firstLost = round
	}
}

// counts says whether the entries of a round count: it is whole, newer than the table, and not before a clear.
func (s *survey) counts(round uint64) bool {
	_, bad := s.bad[round]
	return !bad && round > s.base.round && round <= s.last.round
}

// tell says in a line each what is wrong with the journal.
func (s *survey) tell(f *Findings) {
	if s.noBase != nil {
		f.add("%v", s.noBase)
	}
	for _, round := range slices.Sorted(maps.Keys(s.bad)) {
		b := s.bad[round]
		of := "it is not known how many changes it had"
		if b.changes >= 0 {
			of = fmt.Sprintf("it had %d changes", b.changes)
		}
		f.add("round %d of the journal: %v; %s", round, b.why, of)
	}
	if s.loose {
		f.add("the base record is lost, so it is not known which rounds the table has")
	} else if s.missing > 0 {
		f.add("%d rounds are missing in the journal, the first is %d", s.missing, s.firstLost)
	}
	if s.noStep != nil {
		f.add("%v", s.noStep)
	}
	f.addAll(&s.strays)
}

// lines tells what the rounds that count say, oldest first.
func (s *survey) lines(r records, f func(space byte, l line) error) error {
	return r.scan([]byte{journalSpace}, []byte{journalSpace + 1}, func(key, value []byte) error {
		round, chunk, ok := parseJournalKey(key)
		if !ok || chunk == commitChunk || !s.counts(round) {
			return nil
		}
		space, lines, err := readChunk(s.buf[:0], key, value)
		if err != nil {
			return err
		}
		s.buf = lines
		if space == shard.KeySpace && round < s.cleared {
			return nil
		}
		for _, l := range lines {
			if err := f(space, l); err != nil {
				return err
			}
		}
		return nil
	})
}

// overlayBytes is how much of the journal is brought over the table at a time, in bytes; in memory it takes a few times that.
const overlayBytes = 64 << 20

// An overlay has the newest line of each key that the journal changes, in some partitions or of the named limits.
type overlay map[string]overline

type overline struct {
	entry []byte // empty for a tombstone
	seq   uint64 // of the chunk, if the records are those of a rawStore
}

// spans are the parts of the table to go through one after the other, so that the journal's part of each fits into memory: the first
// partition of each, and the end.
func (s *survey) spans() []int {
	n := min(1+s.bytes/overlayBytes, partitions)
	var at []int
	for i := range n + 1 {
		at = append(at, i*partitions/n)
	}
	return at
}

// overlay reads the newest lines of some partitions.
func (s *survey) overlay(r records, from, to int) (overlay, error) {
	o := overlay{}
	if s.changes == 0 {
		return o, nil
	}
	return o, s.lines(r, func(space byte, l line) error {
		if p := partitionOf(l.key); space == shard.KeySpace && p >= from && p < to {
			o[string(l.key)] = overline{bytes.Clone(l.entry), seqOf(r)}
		}
		return nil
	})
}

// seqOf is the sequence number of the record being told, 0 if there is none to see.
func seqOf(r records) uint64 {
	if raw, ok := r.(*rawStore); ok {
		return raw.seq
	}
	return 0
}

// covers says whether the overlay has something newer for a key than the table's record, of seq if the records are those of a rawStore.
func (s *survey) covers(o overlay, key []byte, seq uint64) bool {
	over, ok := o[string(key)]
	return ok && (!s.loose || over.seq > seq)
}

// limits returns the named limits and what adaptive ones have found, those of the table that the journal does not change and those of
// the journal, sealed as they are in the table.
func (s *survey) limits(r records) ([]line, error) {
	o, found := overlay{}, []line(nil)
	err := s.lines(r, func(space byte, l line) error {
		if space == shard.LimitSpace {
			o[string(l.key)] = overline{bytes.Clone(l.entry), seqOf(r)}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = r.scan([]byte{limitSpace}, []byte{limitSpace + 1}, func(key, value []byte) error {
		if name := key[1:]; !s.covers(o, name, seqOf(r)) {
			found = append(found, line{bytes.Clone(name), bytes.Clone(value)})
			delete(o, string(name))
		}
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if entry := o[name].entry; len(entry) > 0 {
			found = append(found, line{[]byte(name), entry})
		}
	}
	return found, err
}

// partitionOf is the part of the table that a key is in.
func partitionOf(key []byte) int { return int(byte(crc32.Checksum(key, castagnoli))) }
