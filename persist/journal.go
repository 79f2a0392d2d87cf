package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rlserver/rlserver/shard"
)

// commitChunk is the chunk number under which a round's commit record is; no chunk has it.
const commitChunk = 1<<32 - 1

// A point is the state of a generation at the end of a round.
type point struct {
	round uint64 // counts the rounds written to this directory, from 1; not the feed's number
	saved int64  // Unix ms of the round's cut
	keys  int    // held by the store then, about
	chain uint32
}

// A commit is a round's commit record.
type commit struct {
	point
	cleared         bool
	chunks, changes int
	bytes           int
}

// A journal says what the journal of a generation holds.
type journal struct {
	base    point  // the table is complete up to here
	last    point  // the last round committed
	changes int    // in all rounds
	bytes   int    // of all chunks
	cleared uint64 // the newest round that begins with a clear, 0 if none
	torn    bool   // chunks of a round without a commit record follow
	steps   steps  // that the table was written in
}

// add takes note of a round committed after the last one.
func (j *journal) add(c commit) {
	j.last = c.point
	j.changes += c.changes
	j.bytes += c.bytes
	if c.cleared {
		j.cleared = c.round
	}
}

// merged takes note that the rounds which an earlier state of the journal had are in the table and out of the journal.
func (j *journal) merged(old journal) {
	j.base, j.torn, j.steps = old.last, false, old.steps
	j.changes -= old.changes
	j.bytes -= old.bytes
	if j.cleared <= old.last.round {
		j.cleared = 0
	}
}

func journalKey(round uint64, chunk uint32) []byte {
	k := make([]byte, 0, 13)
	k = append(k, journalSpace)
	k = binary.BigEndian.AppendUint64(k, round)
	return binary.BigEndian.AppendUint32(k, chunk)
}

func parseJournalKey(k []byte) (round uint64, chunk uint32, ok bool) {
	if len(k) != 13 || k[0] != journalSpace {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(k[1:]), binary.BigEndian.Uint32(k[9:]), true
}

// appendChange appends a change to a chunk.
func appendChange(dst []byte, c shard.Change, entry []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.Key)))
	dst = append(dst, c.Key...)
	dst = binary.AppendUvarint(dst, uint64(len(entry)))
	return append(dst, entry...)
}

// openChunk begins a chunk of changes in one space.
func openChunk(dst []byte, space byte) []byte {
	if space == shard.KeySpace {
		return append(dst, recordVersion)
	}
	return append(dst, spaceVersion, space)
}

// A line is a change as a chunk holds it: an entry ready for the table, or none for a tombstone.
type line struct{ key, entry []byte }

var errNoChunk = errors.New("not a chunk, though its checksum matches")

// readChunk appends the lines of a chunk, that alias it, and says which space they are in.
func readChunk(dst []line, key, value []byte) (space byte, lines []line, err error) {
	version, body, err := unsealUpTo(spaceVersion, value, key)
	if err != nil {
		return 0, nil, err
	}
	r := reader{body}
	if version == spaceVersion {
		space = r.byte()
		if r.rest == nil || space != shard.LimitSpace {
			return 0, nil, errNoChunk
		}
	}
	for len(r.rest) > 0 {
		l := line{key: r.bytes()}
		l.entry = r.bytes()
		if r.rest == nil || len(l.key) > shard.MaxKeyBytes {
			return 0, nil, errNoChunk
		}
		dst = append(dst, l)
	}
	return space, dst, nil
}

func encodeCommit(c commit) []byte {
	var flags uint64
	if c.cleared {
		flags = 1
	}
	v := []byte{recordVersion}
	for _, n := range []uint64{flags, uint64(c.chunks), uint64(c.changes), uint64(c.bytes), uint64(c.saved), uint64(c.keys), uint64(c.chain)} {
		v = binary.AppendUvarint(v, n)
	}
	return seal(v, 0, journalKey(c.round, commitChunk))
}

func decodeCommit(round uint64, key, value []byte) (commit, error) {
	body, err := unseal(value, key)
	if err != nil {
		return commit{}, err
	}
	r := reader{body}
	flags := r.uvarint()
	c := commit{cleared: flags&1 != 0, chunks: int(r.uvarint()), changes: int(r.uvarint()), bytes: int(r.uvarint())}
	c.point = point{round: round, saved: int64(r.uvarint()), keys: int(r.uvarint()), chain: uint32(r.uvarint())}
	if r.rest == nil || flags > 1 {
		return commit{}, errors.New("not a commit record, though its checksum matches")
	}
	return c, nil
}

func encodeBase(p point, s steps) []byte {
	v := []byte{recordVersion}
	for _, n := range []uint64{p.round, uint64(p.saved), uint64(p.keys), uint64(p.chain), s.kept, s.last} {
		v = binary.AppendUvarint(v, n)
	}
	return seal(v, 0, []byte{baseSpace})
}

func readBase(db *pebble.DB) (point, steps, error) {
	value, closer, err := db.Get([]byte{baseSpace})
	if err != nil {
		return point{}, steps{}, fmt.Errorf("base record: %w", err)
	}
	defer closer.Close()
	return decodeBase(value)
}

func decodeBase(value []byte) (point, steps, error) {
	body, err := unseal(value, []byte{baseSpace})
	if err != nil {
		return point{}, steps{}, fmt.Errorf("base record: %w", err)
	}
	r := reader{body}
	p := point{round: r.uvarint(), saved: int64(r.uvarint()), keys: int(r.uvarint()), chain: uint32(r.uvarint())}
	if r.rest == nil {
		return point{}, steps{}, errors.New("base record: too short, though its checksum matches")
	}
	if len(r.rest) == 0 {
		return p, steps{}, nil // written before there were steps
	}
	s := steps{kept: r.uvarint(), last: r.uvarint()}
	if r.rest == nil {
		return point{}, steps{}, errors.New("base record: too short, though its checksum matches")
	}
	return p, s, nil
}

// readJournal verifies the journal: every chunk, every commit record, and that no round is missing. A round without a commit record is
// the one that a crash cut off, if it is the last; anything else is damage. The keys are added to distinct.
func readJournal(db *pebble.DB, distinct *sketch) (journal, error) {
	base, steps, err := readBase(db)
	if err != nil {
		return journal{}, err
	}
	if err := steps.read(pebbleRecords{db}); err != nil {
		return journal{}, err
	}
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{journalSpace}, UpperBound: []byte{journalSpace + 1}})
	if err != nil {
		return journal{}, err
	}
	defer it.Close()
	s := journalScan{journal: journal{base: base, last: base, steps: steps}, distinct: distinct}
	s.open(base.round + 1)
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = s.record(it.Key(), value)
		}
		if err != nil {
			return journal{}, fmt.Errorf("journal record %x: %w", it.Key(), err)
		}
	}
	if err := it.Error(); err != nil {
		return journal{}, err
	}
	s.torn = s.torn || s.seen.chunks > 0
	return s.journal, nil
}

// A journalScan checks journal records in their order.
type journalScan struct {
	journal
	seen     commit // of the round being read, as far as read
	lines    []line
	distinct *sketch
}

func (s *journalScan) open(round uint64) {
	s.seen = commit{point: point{round: round, chain: s.last.chain}}
}

func (s *journalScan) record(key, value []byte) error {
	round, chunk, ok := parseJournalKey(key)
	switch {
	case !ok:
		return errors.New("not a journal key")
	case round != s.seen.round:
		return fmt.Errorf("round %d, expected round %d", round, s.seen.round)
	case chunk == commitChunk:
		return s.commit(key, value)
	case int(chunk) != s.seen.chunks:
		return fmt.Errorf("expected chunk %d", s.seen.chunks)
	}
	var err error
	if _, s.lines, err = readChunk(s.lines[:0], key, value); err != nil {
		return err
	}
	for _, l := range s.lines {
		s.distinct.add(l.key)
	}
	s.seen.chunks++
	s.seen.changes += len(s.lines)
	s.seen.bytes += len(value)
	s.seen.chain = link(s.seen.chain, value)
	return nil
}

func (s *journalScan) commit(key, value []byte) error {
	c, err := decodeCommit(s.seen.round, key, value)
	if err != nil {
		return err
	}
	if c.chunks != s.seen.chunks || c.changes != s.seen.changes || c.chain != s.seen.chain {
		return fmt.Errorf("the round has %d chunks with %d changes and chain %08x, its commit record says %d, %d and %08x",
			s.seen.chunks, s.seen.changes, s.seen.chain, c.chunks, c.changes, c.chain)
	}
	s.add(c)
	s.open(c.round + 1)
	return nil
}

// link carries the chain on over a chunk's checksum.
func link(chain uint32, chunk []byte) uint32 {
	return crc32.Update(chain, castagnoli, chunk[len(chunk)-crcBytes:])
}
