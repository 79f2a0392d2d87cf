package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// A CheckReport is what Check found.
type CheckReport struct {
	Census
	Damage     Findings
	Generation uint64
	Round      uint64    // the last one
	SavedAt    time.Time // of it; zero if there was none
	Clean      bool      // the last stop wrote everything
	Origin     Origin
	Rounds     int      // in the journal, to be merged at the next start
	Changes    int      // in them
	Files      int      // of the generation and beside it
	Bytes      int64    // of them
	Leftovers  []string // what the next start would remove
}

// Check looks at all that a data directory holds, as a start would and beyond, and changes nothing. What is damaged is in the report. The
// error is for what could not be looked at: ErrInUse, ErrNewer, ErrNotOurs, ErrForbidden. A nil file system means the disk.
//
// Memory is bounded: what is kept of the directory is one part of its journal at a time.
func Check(dir string, fsys vfs.FS) (*CheckReport, error) {
	if fsys == nil {
		fsys = diskFS{vfs.Default}
	}
	lock, err := look(fsys, dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	c := checker{fs: view{fsys}, dir: dir}
	return &c.report, c.check()
}

// look refuses a directory that is not there, and holds one that is.
func look(fsys vfs.FS, dir string) (interface{ Close() error }, error) {
	info, err := fsys.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, notOurs(dir, ": it does not exist")
	case err != nil:
		return nil, forbidden(dir, err)
	case !info.IsDir():
		return nil, notOurs(dir, ": it is a file")
	}
	return hold(fsys, dir)
}

// A checker is a check under way.
type checker struct {
	fs     vfs.FS
	dir    string
	layout layout
	report CheckReport

	physical bool // damage of Pebble's own files has been found: what comes of it need not be told again
}

func (c *checker) check() error {
	var err error
	c.layout, err = readLayout(c.fs, c.dir)
	cause := new(refusal)
	if errors.As(err, &cause) && cause.sort == ErrDamaged {
		c.report.Damage.add("%v", cause.err)
		return nil
	}
	if err != nil {
		return err
	}
	if !c.layout.made {
		return notOurs(c.dir, ": it is empty")
	}
	c.report.Generation = c.layout.generation
	current := generationName(c.layout.generation)
	c.measure(current)
	if c.layout.generation == 0 || c.layout.creating {
		c.report.Clean = true // it never held anything
		return nil
	}
	dir := c.fs.PathJoin(c.dir, current)
	if err := checkPebbleFormat(c.fs, c.dir, dir); err != nil {
		if errors.Is(err, ErrNewer) {
			return err
		}
		c.report.Damage.add("%s: %v", current, err)
		return nil
	}
	c.generation(dir)
	return nil
}

// checkPebbleFormat refuses a generation whose Pebble format is newer than ours. Another error says that it cannot be read.
func checkPebbleFormat(fsys vfs.FS, dir, generation string) error {
	format, err := atomicfs.ReadMarker(fsys, generation, "format-version")
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(format); err == nil && n > int(pebbleFormat) {
		return newerFormat(dir, fmt.Sprintf("Pebble format %d, this version reads up to %d", n, pebbleFormat))
	}
	return nil
}

// measure adds up files, and finds those that count no more.
func (c *checker) measure(current string) {
	r := &c.report
	names, _ := c.fs.List(c.dir)
	for _, name := range names {
		path := c.fs.PathJoin(c.dir, name)
		leftover := strings.HasSuffix(name, tmpSuffix) || strings.HasPrefix(name, "gen-") && name != current
		if leftover {
			r.Leftovers = append(r.Leftovers, name)
			continue
		}
		files, bytes := c.size(path)
		r.Files += files
		r.Bytes += bytes
	}
}

// size returns how many files there are at a path and below it, and their bytes.
func (c *checker) size(path string) (files int, bytes int64) {
	info, err := c.fs.Stat(path)
	if err != nil {
		return 0, 0
	}
	if !info.IsDir() {
		return 1, info.Size()
	}
	names, _ := c.fs.List(path)
	for _, name := range names {
		f, b := c.size(c.fs.PathJoin(path, name))
		files += f
		bytes += b
	}
	return files, bytes
}

// generation looks at the current generation.
func (c *checker) generation(dir string) {
	found := &c.report.Damage
	db, err := openView(c.fs, dir)
	c.tables(db, dir)
	if err != nil {
		found.add("%s cannot be opened: %v", c.fs.PathBase(dir), err)
		return
	}
	defer db.Close()
	r := pebbleRecords{db}
	s, err := takeSurvey(r)
	if err != nil {
		c.trouble("the journal", err)
		return
	}
	s.tell(found)
	c.mark(s)
	c.report.Round, c.report.Rounds, c.report.Changes = s.last.round, s.rounds, s.changes
	if s.last.saved != 0 {
		c.report.SavedAt = time.UnixMilli(s.last.saved)
	}
	j := &judge{found: found}
	if limits, err := s.limits(r); err != nil {
		c.trouble("the named limits", err)
	} else {
		j.limits(limits, &c.report.Census)
	}
	for spans := s.spans(); len(spans) > 1; spans = spans[1:] {
		c.entries(r, s, j, spans[0], spans[1])
	}
	j.n.into(&c.report.Census, &j.names)
}

// trouble tells of an error, unless it is Pebble's about a file that was told of.
func (c *checker) trouble(what string, err error) {
	if !c.physical || !pebble.IsCorruptionError(err) {
		c.report.Damage.add("%s: %v", what, err)
	}
}

// openView opens a generation for reading only.
func openView(fsys vfs.FS, dir string) (*pebble.DB, error) {
	at := &site{log: slog.New(slog.DiscardHandler)}
	g := newGuard(fsys)
	return pebble.Open(dir, pebbleOptions(g, pebbleLog{guard: g, site: at}, newCompactions(true), true, false))
}

// tables looks at each table file by itself: those that count, or, if Pebble does not say which, all.
func (c *checker) tables(db *pebble.DB, dir string) {
	var names []string
	if db != nil {
		levels, err := db.SSTables()
		if err != nil {
			c.report.Damage.add("the tables: %v", err)
		}
		for _, level := range levels {
			for _, t := range level {
				names = append(names, tableName(uint64(t.FileNum)))
			}
		}
	} else {
		all, _ := c.fs.List(dir)
		names = slices.DeleteFunc(all, func(name string) bool { return !strings.HasSuffix(name, ".sst") })
	}
	slices.Sort(names)
	var damaged atomic.Bool
	parallel(len(names), func(i int) {
		t := openTable(c.fs, dir, names[i])
		defer t.close()
		if t.why == nil {
			return
		}
		damaged.Store(true)
		if len(t.spans) == 0 {
			c.report.Damage.add("table %s cannot be read: %v", t.name, t.why)
		} else {
			c.report.Damage.add("table %s: %d records in %d places cannot be read: %v", t.name, t.lost, len(t.gaps), t.why)
		}
	})
	c.physical = damaged.Load()
}

// mark holds the journal against the witness.
func (c *checker) mark(s *survey) {
	d := DB{layout: c.layout, journal: journal{last: s.last}}
	if err := d.checkMark(); err != nil {
		c.report.Damage.add("%v", err)
	}
	if d.info.Warning != "" {
		c.report.Damage.add("%s", d.info.Warning)
	}
	c.report.Clean, c.report.Origin = d.info.Clean, d.info.Origin
}

// entries looks at some partitions of the table, with the journal over it.
func (c *checker) entries(r records, s *survey, j *judge, from, to int) {
	over, err := s.overlay(r, from, to)
	if err != nil {
		c.trouble("the journal", err)
		return
	}
	var mu sync.Mutex
	parallel(to-from, func(i int) {
		p := &judge{found: j.found}
		if s.cleared == 0 {
			if err := c.partition(r, s, p, over, from+i); err != nil {
				c.trouble(fmt.Sprintf("partition %d of the table", from+i), err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		j.join(p)
	})
	for key, l := range over {
		if len(l.entry) > 0 {
			j.entry([]byte(key), l.entry)
		}
	}
}

func (c *checker) partition(r records, s *survey, j *judge, over overlay, p int) error {
	return r.scan(tableBound(p), tableBound(p+1), func(key, value []byte) error {
		name := key[2:]
		if s.covers(over, name, 0) {
			return nil
		}
		if partitionOf(name) != p {
			j.found.add("entry of key %.64q: in the wrong partition", name)
			return nil
		}
		j.entry(name, value)
		return nil
	})
}

// parallel calls f for 0 to n-1 on all cores.
func parallel(n int, f func(int)) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := int(next.Add(1) - 1); i < n; i = int(next.Add(1) - 1) {
				f(i)
			}
		})
	}
	wg.Wait()
}
