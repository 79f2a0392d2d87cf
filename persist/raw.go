package persist

import (
	"container/heap"
	"errors"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// A rawStore reads a generation without Pebble, which refuses to open one that is damaged: the MANIFEST says which tables count, each is
// read by itself, the logs are read as far as they go, and of the versions of a key the newest counts.
//
// Where a version cannot be read, the one before it is told instead, if there is one: an earlier state of an entry admits no more than
// none at all. How many records cannot be read is known, unless it is a whole table or log.
//
// If the MANIFEST cannot be read, it is not known which tables and logs count: all tables do after a clean stop, else some may have been
// replaced by others. The newest version that was written is then told if it can be told from the others; that the key was deleted may
// have been forgotten.
type rawStore struct {
	fs     vfs.FS
	dir    string
	known  bool // which files count
	tables []*rawTable
	log    rawLog

	deletes []rangeDelete
	gaps    []gap

	seq       uint64   // of the record that scan is telling
	unsure    [256]int // keys that scans did not tell because their versions contradict one another, by their first byte
	uncounted bool     // a table or a log cannot be read at all, or deletions cannot
}

// A gap may hide versions of the keys in it up to seq.
type gap struct {
	keySpan
	seq uint64
}

// hidden says whether there may have been a newer version of a key in a gap than one of seq.
func (s *rawStore) hidden(key []byte, seq uint64) bool {
	return slices.ContainsFunc(s.gaps, func(g gap) bool { return seq < g.seq && g.holds(key) })
}

// openRaw reads the logs of a generation and finds out what of its tables can be read. found gets what cannot. clean says that the
// last stop wrote everything into tables, trust that the MANIFEST is to be believed if it is whole.
func openRaw(fs vfs.FS, dir string, clean, trust bool, found *Findings) (*rawStore, error) {
	s := &rawStore{fs: fs, dir: dir}
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	m := s.manifest(names, trust, found)
	if s.known {
		s.openKnown(m, names, found)
	} else {
		s.openListed(names, found)
	}
	if s.known || !clean {
		s.readLogs(names, m.firstLog, found)
	}
	return s, nil
}

func (s *rawStore) close() {
	for _, t := range s.tables {
		t.close()
	}
}

// manifest reads the MANIFEST and says in s.known whether it tells which files count: it does if it was read to its end, or if what could
// be read is in step with the tables that are there, so that no later edit changed them.
func (s *rawStore) manifest(names []string, trust bool, found *Findings) *manifest {
	const prefix = "MANIFEST-"
	name, err := atomicfs.ReadMarker(s.fs, s.dir, "manifest")
	if err == nil && name == "" {
		err = errors.New("the marker that names it is missing")
	}
	marked := err == nil
	if !marked {
		for _, n := range names {
			if strings.HasPrefix(n, prefix) {
				name = n // the newest
			}
		}
	}
	m := &manifest{}
	if name != "" {
		f, e := s.fs.Open(s.fs.PathJoin(s.dir, name))
		if e == nil {
			m = readManifest(f)
			f.Close()
		} else {
			m.why = e
		}
	}
	s.known = m.whole && marked && trust || len(m.tables) > 0 && m.inStep(names)
	if !s.known {
		if err = errors.Join(err, m.why); err == nil {
			err = errors.New("its end is lost")
		}
		found.add("MANIFEST: %v. Which tables count is not known: entries deleted lately may be back", err)
	}
	return m
}

// inStep says whether the tables in a directory are exactly those that count.
func (m *manifest) inStep(names []string) bool {
	here := map[uint64]bool{}
	for _, name := range names {
		if n, ok := fileNumber(name, ".sst"); ok {
			here[n] = true
		}
	}
	for id := range m.tables {
		if !here[id.number] {
			return false
		}
		delete(here, id.number)
	}
	return len(here) == 0
}

// openKnown opens the tables that count.
func (s *rawStore) openKnown(m *manifest, names []string, found *Findings) {
	for id, fact := range m.tables {
		t := openTable(s.fs, s.dir, tableName(id.number))
		t.smallest, t.largest, t.seq = fact.smallest, fact.largest, fact.seq
		s.add(t, found)
	}
}

// openListed opens all tables that are there.
func (s *rawStore) openListed(names []string, found *Findings) {
	for _, name := range names {
		if _, ok := fileNumber(name, ".sst"); ok {
			s.add(openTable(s.fs, s.dir, name), found)
		}
	}
}

// add takes a table in, with what it deletes and what it may hide.
func (s *rawStore) add(t *rawTable, found *Findings) {
	s.tables = append(s.tables, t)
	deletes, err := t.deletes()
	s.deletes = append(s.deletes, deletes...)
	whole := keySpan{t.smallest, nil}
	if t.largest != nil {
		whole.upper = after(t.largest)
	}
	switch {
	case t.reader == nil || len(t.spans) == 0:
		found.add("table %s cannot be read: %v", t.name, t.why)
		s.gaps = append(s.gaps, gap{whole, t.seq})
		s.uncounted = true
		return
	case err != nil:
		found.add("table %s: what it deletes cannot be read, and may be back: %v", t.name, err)
		s.gaps = append(s.gaps, gap{whole, t.seq})
		s.uncounted = true
	case t.why != nil:
		found.add("table %s: %d records in %d places cannot be read: %v", t.name, t.lost, len(t.gaps), t.why)
	}
	for _, g := range t.gaps {
		if g.lower == nil {
			g.lower = whole.lower
		}
		if g.upper == nil {
			g.upper = whole.upper
		}
		s.gaps = append(s.gaps, gap{g, t.seq})
	}
}

// readLogs reads the logs that are not in the tables, or, if that is not known, all of them.
func (s *rawStore) readLogs(names []string, first uint64, found *Findings) {
	type file struct {
		name   string
		number uint64
	}
	var logs []file
	for _, name := range names {
		if n, ok := fileNumber(name, ".log"); ok && (!s.known || n >= first) {
			logs = append(logs, file{name, n})
		}
	}
	s.log.single = !s.known
	for i, f := range logs {
		last := i == len(logs)-1 || !s.known
		if err := s.log.read(s.fs, s.dir, f.name, f.number, last); err != nil {
			found.add("log %s: %v", f.name, err)
			s.uncounted = true
		}
	}
	s.log.sort()
	s.deletes = append(s.deletes, s.log.deletes...)
}

// scan implements records.
func (s *rawStore) scan(lower, upper []byte, f func(key, value []byte) error) error {
	m, err := s.merge(lower, upper)
	defer m.close()
	if err != nil {
		return err
	}
	var deletes []rangeDelete
	for _, d := range s.deletes {
		if d.overlaps(lower, upper) {
			deletes = append(deletes, d)
		}
	}
	for len(m.heads) > 0 {
		m.pop()
		v, sure := m.same[0].version, true
		if !s.known {
			v, sure = m.pick()
		}
		there := v.kind == pebble.InternalKeyKindSet || v.kind == pebble.InternalKeyKindSetWithDelete
		for _, d := range deletes {
			if v.seq >= d.seq || !d.holds(v.key) {
				continue
			}
			there = false
			if v.seq == 0 && v.file > d.file {
				sure = sure && s.known // it may have been written after the deletion, and lost its number
			}
		}
		if !sure {
			s.unsure[lower[0]]++
		} else if there {
			s.seq = v.seq
			if err := f(v.key, v.value); err != nil {
				return err
			}
		}
		if err := m.push(); err != nil {
			return err
		}
	}
	return nil
}

// merge begins to go through the versions in [lower, upper) of all sources.
func (s *rawStore) merge(lower, upper []byte) (*rawMerge, error) {
	m := &rawMerge{}
	if from, to := s.log.find(lower), s.log.find(upper); from < to {
		if err := m.add(&logSource{s.log.versions[from:to]}); err != nil {
			return m, err
		}
	}
	for _, t := range s.tables {
		var spans []keySpan
		for _, k := range t.spans {
			if k.overlaps(lower, upper) {
				spans = append(spans, k.cut(lower, upper))
			}
		}
		if len(spans) > 0 {
			if err := m.add(&tableSource{t: t, spans: spans}); err != nil {
				return m, err
			}
		}
	}
	heap.Init(m)
	return m, nil
}
