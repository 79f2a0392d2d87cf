package persist

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// logBlock is the size of the blocks of Pebble's log, in bytes: at the next one reading can begin again behind damage.
const logBlock = 32 << 10

// A rawLog is what Pebble's log files hold that is not in its tables.
type rawLog struct {
	versions []version // by key, then the newest first
	deletes  []rangeDelete
	cut      bool   // something could not be read; what follows is read for whole rounds only
	file     uint64 // number of the one being read
	single   bool   // logs are read each by itself and up to the first damage: they need not follow one another
}

// numbered makes a number of the type that Pebble has for those of files, and keeps to itself.
func numbered[T ~uint64](open func(io.Reader, T) *record.Reader, r io.Reader, number uint64) *record.Reader {
	return open(r, T(number))
}

// read takes in one log file. last says that it is the newest, which a crash may have left with a torn end.
func (l *rawLog) read(fs vfs.FS, dir, name string, number uint64, last bool) error {
	f, err := fs.Open(fs.PathJoin(dir, name))
	if err != nil {
		l.cut = true
		return err
	}
	defer f.Close()
	if l.file = number; l.single {
		l.cut = false
	}
	info, err := f.Stat()
	if err != nil {
		l.cut = true
		return err
	}
	var first error
	for at := int64(0); at < info.Size(); {
		r := numbered(record.NewReader, io.NewSectionReader(f, at, info.Size()-at), number)
		end, err := l.records(r)
		if err == nil || first == nil && last && errors.Is(err, record.ErrUnexpectedEOF) {
			break
		}
		if first == nil {
			first = fmt.Errorf("%w, at byte %d of %d", err, at+end, info.Size())
			l.cut = true
		}
		if l.single {
			break
		}
		at += (end/logBlock + 1) * logBlock
	}
	return first
}

// records takes in what a reader has, up to trouble, which is nil at the end, and says where in it that was.
func (l *rawLog) records(r *record.Reader) (at int64, err error) {
	for {
		at = r.Offset()
		next, err := r.Next()
		if errors.Is(err, io.EOF) {
			return at, nil
		}
		var batch []byte
		if err == nil {
			batch, err = io.ReadAll(next)
		}
		if err == nil {
			err = l.batch(batch)
		}
		if err != nil {
			return at, err
		}
	}
}

// batch takes in a batch. Behind damage only records of the journal count, which say by themselves whether their round is whole; what
// else is there rests on what was lost.
func (l *rawLog) batch(b []byte) (err error) {
	defer func() {
		if r := recover(); r != nil { // Pebble's reader runs past the end of a batch that is cut off
			err = fmt.Errorf("%v", r)
		}
	}()
	head, ok := batchrepr.ReadHeader(b)
	if !ok {
		return batchrepr.ErrInvalidBatch
	}
	seq := uint64(head.SeqNum)
	r := batchrepr.Read(b)
	for {
		kind, key, value, ok, err := r.Next()
		if err != nil || !ok {
			return err
		}
		if kind == pebble.InternalKeyKindLogData {
			continue
		}
		round := len(key) > 0 && key[0] == journalSpace && kind == pebble.InternalKeyKindSet
		switch {
		case l.cut && !round:
		case kind == pebble.InternalKeyKindRangeDelete:
			l.deletes = append(l.deletes, rangeDelete{keySpan{bytes.Clone(key), bytes.Clone(value)}, seq, l.file})
		default:
			l.versions = append(l.versions, version{bytes.Clone(key), bytes.Clone(value), seq, kind, l.file})
		}
		seq++
	}
}

// sort puts the versions in order.
func (l *rawLog) sort() {
	slices.SortStableFunc(l.versions, func(a, b version) int {
		return cmp.Or(bytes.Compare(a.key, b.key), cmp.Compare(b.seq, a.seq))
	})
}

// find returns the place of the first version of a key or a later one.
func (l *rawLog) find(key []byte) int {
	at, _ := slices.BinarySearchFunc(l.versions, key, func(v version, key []byte) int { return bytes.Compare(v.key, key) })
	return at
}
