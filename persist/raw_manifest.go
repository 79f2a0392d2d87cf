package persist

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/record"
)

// A manifest is what Pebble's MANIFEST says, a log of edits to the set of table files. Pebble has no function that reads one without
// opening the store, and, when it opens one, takes the first damaged edit for the end.
type manifest struct {
	tables   map[tableID]tableFact // that count
	firstLog uint64                // logs with lower numbers are in the tables
	whole    bool                  // it was read to its end
	why      error                 // if not
}

// A tableID is a table on a level.
type tableID struct{ level, number uint64 }

// A tableFact is what the MANIFEST says of a table.
type tableFact struct {
	smallest, largest []byte // user keys
	seq               uint64 // of the newest record
}

// The tags of an edit's fields that a store of ours has. The numbers are LevelDB's, RocksDB's and Pebble's.
const (
	tagComparer    = 1
	tagLogNumber   = 2
	tagNextFile    = 3
	tagLastSeq     = 4
	tagDeletedFile = 6
	tagNewFile2    = 100
	tagNewFile4    = 103
	// The fields of a new file that may follow it, each a number and bytes. Those from customUnsafe on change what the file means.
	customEnd    = 1
	customUnsafe = 64
)

var errEdit = errors.New("an edit that this version does not know")

// readManifest reads edits up to the first that cannot be read.
func readManifest(r io.Reader) *manifest {
	m := &manifest{tables: map[tableID]tableFact{}}
	rr := record.NewReader(r, 0)
	for {
		next, err := rr.Next()
		if errors.Is(err, io.EOF) {
			m.whole = true
			return m
		}
		var edit []byte
		if err == nil {
			edit, err = io.ReadAll(next)
		}
		if err == nil {
			err = m.edit(edit)
		}
		if err != nil {
			m.why = err
			return m
		}
	}
}

// edit makes an edit, all of it or nothing.
func (m *manifest) edit(b []byte) error {
	r := reader{b}
	var gone []tableID
	added := map[tableID]tableFact{}
	log := m.firstLog
	for len(r.rest) > 0 {
		switch tag := r.uvarint(); tag {
		case tagComparer:
			r.bytes()
		case tagLogNumber:
			log = r.uvarint()
		case tagNextFile, tagLastSeq:
			r.uvarint()
		case tagDeletedFile:
			gone = append(gone, tableID{r.uvarint(), r.uvarint()})
		case tagNewFile2, tagNewFile4:
			id, fact, err := r.newFile(tag)
			if err != nil {
				return err
			}
			added[id] = fact
		default:
			return fmt.Errorf("%w: field %d", errEdit, tag)
		}
	}
	if r.rest == nil {
		return errors.New("an edit is cut off")
	}
	for _, id := range gone {
		delete(m.tables, id)
	}
	for id, fact := range added {
		m.tables[id] = fact
	}
	m.firstLog = log
	return nil
}

// trailerBytes follow the user key in an internal key: its sequence number and its kind.
const trailerBytes = 8

func (r *reader) newFile(tag uint64) (id tableID, f tableFact, err error) {
	id = tableID{r.uvarint(), r.uvarint()}
	r.uvarint() // size
	for _, bound := range []*[]byte{&f.smallest, &f.largest} {
		key := r.bytes()
		if len(key) < trailerBytes {
			return id, f, errors.New("an edit is cut off")
		}
		*bound = bytes.Clone(key[:len(key)-trailerBytes])
	}
	r.uvarint() // the oldest record
	f.seq = r.uvarint()
	for tag == tagNewFile4 {
		custom := r.uvarint()
		if custom == customEnd || r.rest == nil {
			break
		}
		if custom >= customUnsafe {
			return id, f, fmt.Errorf("%w: field %d of a file", errEdit, custom)
		}
		r.bytes()
	}
	return id, f, nil
}

// fileNumber reads a name such as 000012.sst.
func fileNumber(name, suffix string) (n uint64, ok bool) {
	digits, ok := bytes.CutSuffix([]byte(name), []byte(suffix))
	if !ok || len(digits) < 6 {
		return 0, false
	}
	for _, ch := range digits {
		if ch < '0' || ch > '9' {
			return 0, false
		}
		n = n*10 + uint64(ch-'0')
	}
	return n, true
}

func tableName(n uint64) string { return fmt.Sprintf("%06d.sst", n) }
