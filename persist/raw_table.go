package persist

import (
	"bytes"
	"context"
	"fmt"
	"math/big"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A rawTable is one of Pebble's table files, read by itself. A damaged block does not end the reading: what is before it and behind it is
// read, and what it hides is noted as a gap.
type rawTable struct {
	name string
	file uint64 // its number
	// What the MANIFEST says of it; without it the bounds are nil and seq is seqUnknown.
	smallest, largest []byte // user keys, both in it
	seq               uint64 // no record in it is newer

	reader *sstable.Reader
	spans  []keySpan // what can be read, in order
	gaps   []keySpan // what cannot
	lost   int       // records in the gaps
	why    error     // the first trouble; nil: all can be read
}

const seqUnknown = ^uint64(0)

// A keySpan is a range of keys, [lower, upper); nil is no bound.
type keySpan struct{ lower, upper []byte }

func (k keySpan) holds(key []byte) bool {
	return bytes.Compare(k.lower, key) <= 0 && (k.upper == nil || bytes.Compare(key, k.upper) < 0)
}

func (k keySpan) overlaps(lower, upper []byte) bool {
	return (k.upper == nil || bytes.Compare(k.upper, lower) > 0) && bytes.Compare(k.lower, upper) < 0
}

// cut returns the part of it in [lower, upper).
func (k keySpan) cut(lower, upper []byte) keySpan {
	if bytes.Compare(k.lower, lower) < 0 {
		k.lower = lower
	}
	if k.upper == nil || bytes.Compare(k.upper, upper) > 0 {
		k.upper = upper
	}
	return k
}

// after is the key behind another, with none in between.
func after(key []byte) []byte { return append(bytes.Clone(key), 0) }

// A rangeDelete says that all records in [lower, upper) older than seq are gone.
type rangeDelete struct {
	keySpan
	seq  uint64
	file uint64 // as in a version
}

// A version is a record as Pebble keeps it. It belongs to who passes it, until the next one.
type version struct {
	key, value []byte
	seq        uint64
	kind       pebble.InternalKeyKind
	file       uint64 // number of the file it is in: Pebble numbers tables and logs in the order in which it makes them
}

// openTable opens a table and finds out what of it can be read. It changes nothing. A table that cannot be opened at all has no reader and
// no spans.
func openTable(fs vfs.FS, dir, name string) *rawTable {
	t := &rawTable{name: name, seq: seqUnknown}
	t.file, _ = fileNumber(name, ".sst")
	t.why = t.careful(func() error {
		f, err := fs.Open(fs.PathJoin(dir, name))
		if err != nil {
			return err
		}
		readable, err := sstable.NewSimpleReadable(f)
		if err != nil {
			f.Close()
			return err
		}
		var o pebble.Options
		o.EnsureDefaults()
		r, err := sstable.NewReader(context.Background(), readable, o.MakeReaderOptions())
		if err != nil {
			readable.Close()
			return err
		}
		t.reader = r
		return r.ValidateBlockChecksums()
	})
	switch {
	case t.why == nil:
		t.spans = []keySpan{{}}
	case t.reader != nil:
		if err := t.careful(t.explore); err != nil {
			t.spans, t.gaps = nil, nil
		}
	}
	return t
}

// careful makes an error of a panic: Pebble's readers trust what has the right checksum.
func (t *rawTable) careful(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return f()
}

func (t *rawTable) close() {
	if t.reader != nil {
		t.reader.Close()
	}
}

// explore finds the spans and gaps of a damaged table, and how many records are lost.
func (t *rawTable) explore() error {
	read, at := 0, []byte(nil)
	for {
		n, last, err := t.run(at)
		read += n
		if err == nil {
			t.spans = append(t.spans, keySpan{at, nil})
			break
		}
		from := at
		if last != nil {
			from = after(last)
			t.spans = append(t.spans, keySpan{at, from})
		}
		next := t.beyond(from)
		t.gaps = append(t.gaps, keySpan{from, next})
		if next == nil {
			break
		}
		at = next
	}
	p, err := t.reader.ReadPropertiesBlock(context.Background(), nil)
	t.lost = int(p.NumEntries-p.NumRangeDeletions) - read
	return err
}

// run reads from a key on and returns how many records it read, the key of the last one, and what ended it, nil at the end of the table.
func (t *rawTable) run(from []byte) (n int, last []byte, err error) {
	it, err := t.iter(from, nil)
	if err != nil {
		return 0, nil, err
	}
	defer it.Close()
	for kv := it.SeekGE(from, 0); kv != nil; kv = it.Next() {
		n++
		last = append(last[:0], kv.K.UserKey...)
	}
	return n, last, it.Error()
}

func (t *rawTable) iter(lower, upper []byte) (sstable.Iterator, error) {
	return t.reader.NewIter(sstable.NoTransforms, lower, upper, sstable.TableBlobContext{})
}

// probe looks whether a key can be sought, and returns the key that is there or the next one, nil if there is none.
func (t *rawTable) probe(key []byte) (at []byte, err error) {
	it, err := t.iter(nil, nil)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	if kv := it.SeekGE(key, 0); kv != nil {
		at = bytes.Clone(kv.K.UserKey)
	}
	return at, it.Error()
}

// beyond returns the first key that can be read again from one that cannot be sought, nil if there is none.
func (t *rawTable) beyond(from []byte) []byte {
	for {
		next := t.nextBlock(from)
		if next == nil {
			return nil
		}
		if at, err := t.probe(next); err == nil {
			return at
		}
		from = next
	}
}

// nextBlock returns the lowest key that is sought in a later block than from, or, if the index cannot be read there, that can be sought;
// nil if there is none. It narrows the place down by halves. The index is asked for sizes, because Pebble takes 30 ms to report a damaged
// block: it looks for the bit that was flipped.
func (t *rawTable) nextBlock(from []byte) []byte {
	low, high := from, []byte{tableSpace + 1}
	size := func(to []byte) (uint64, error) { return t.reader.EstimateDiskUsage(from, to, sstable.NoReadEnv) }
	here, err := size(from)
	later := func(key []byte) bool {
		n, err := size(key)
		return err == nil && n > here
	}
	if err != nil {
		later = func(key []byte) bool {
			_, err := t.probe(key)
			return err == nil
		}
	}
	if !later(high) {
		return nil
	}
	for range 8 * keyBytesTold {
		mid := between(low, high)
		if mid == nil {
			break
		}
		if later(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// keyBytesTold is in how many bytes two keys have to differ to be told apart when damage is narrowed down.
const keyBytesTold = 64

// between returns a key in the middle of two, nil if there is none of keyBytesTold bytes.
func between(a, b []byte) []byte {
	number := func(key []byte) *big.Int {
		padded := make([]byte, keyBytesTold)
		copy(padded, key)
		return new(big.Int).SetBytes(padded)
	}
	from, to := number(a), number(b)
	mid := new(big.Int).Add(from, to)
	if mid.Rsh(mid, 1); mid.Cmp(from) <= 0 || mid.Cmp(to) >= 0 {
		return nil
	}
	return bytes.TrimRight(mid.FillBytes(make([]byte, keyBytesTold)), "\x00")
}

// deletes reads the range deletions of the table.
func (t *rawTable) deletes() (all []rangeDelete, err error) {
	if t.reader == nil {
		return nil, t.why
	}
	err = t.careful(func() error {
		it, err := t.reader.NewRawRangeDelIter(context.Background(), sstable.NoFragmentTransforms, sstable.NoReadEnv)
		if err != nil || it == nil {
			return err
		}
		defer it.Close()
		span, err := it.First()
		for ; err == nil && span != nil; span, err = it.Next() {
			for _, k := range span.Keys {
				all = append(all, rangeDelete{keySpan{bytes.Clone(span.Start), bytes.Clone(span.End)}, uint64(k.Trailer.SeqNum()), t.file})
			}
		}
		return err
	})
	return all, err
}
