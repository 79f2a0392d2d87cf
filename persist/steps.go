package persist

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Steps are the batches in which the table is written, numbered from 1. Each leaves a record of its number, and the base record names
// the last one. What Pebble loses without a word, the end of its MANIFEST or of a log, is batches in a row. If others after them are
// still there, which may make the table look complete, a number is missing.
type steps struct {
	kept uint64 // the records from this number on are there; those before have been deleted
	last uint64
}

// keepSteps is how many step records are kept: more than there are batches in the logs that Pebble has not written to tables yet.
const keepSteps = 4096

func stepKey(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{stepSpace}, n) }

// mark makes a batch the next step.
func (s *steps) mark(b *pebble.Batch) error {
	s.last++
	key := stepKey(s.last)
	return b.Set(key, seal([]byte{recordVersion}, 0, key), nil)
}

// prune forgets in a batch the records of old steps.
func (s *steps) prune(b *pebble.Batch) error {
	if s.last < s.kept+2*keepSteps { // seldom, since Pebble keeps a deletion of a range for long
		return nil
	}
	s.kept = s.last - keepSteps
	return b.DeleteRange(stepKey(0), stepKey(s.kept), nil)
}

// read checks that no step is missing up to the last, and makes those after it, of a merge that was cut off, count.
func (s *steps) read(r records) error {
	next, end := max(s.kept, 1), s.last
	err := r.scan(stepKey(next), []byte{stepSpace + 1}, func(key, value []byte) error {
		_, err := unseal(value, key)
		if err == nil && len(key) != len(stepKey(0)) {
			err = errors.New("not a step's key")
		}
		if err != nil {
			return fmt.Errorf("step record %x: %w", key, err)
		}
		n := binary.BigEndian.Uint64(key[1:])
		if n != next && next <= end {
			return fmt.Errorf("part %d of the %d that the table was written in is missing", next, end)
		}
		next, s.last = n+1, max(n, end)
		return nil
	})
	if err == nil && next <= end {
		err = fmt.Errorf("part %d of the %d that the table was written in is missing", next, end)
	}
	return err
}
