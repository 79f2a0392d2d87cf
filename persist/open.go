package persist

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/rlserver/rlserver/shard"
)

// A DB is a store's copy on disk. Open, Load and Start are called once, in this order; the other methods may be called from any
// goroutine after that.
type DB struct {
	o    Options
	fs   vfs.FS
	log  *slog.Logger
	lock io.Closer // nil if it was lost
	site site
	info LoadInfo

	loading loading

	// Owned by the caller of Open and Load, then by the flusher.
	h            *handle // nil while writing fails, and before Load
	layout       layout
	journal      journal
	merging      *merger // the merge under way
	mergeSeen    int     // bytes that merges took to remember keys since the memory was last looked at
	distinct     sketch  // of the keys in the journal, less what is being merged
	chunkRoom    []byte  // for the chunks of the next round, and for an entry
	entryRoom    []byte
	started      bool
	limitsLoaded bool
	locked       fileID // of LOCK
	marked       mark   // the last MARK written
	store        *shard.Store
	feed         *shard.Feed // set under status.mu
	current      string      // directory of the generation that CURRENT names
	stale        []string    // directories of generations replaced and not removed yet
	litter       []string    // directories that count no more and could not be removed yet
	lastGen      uint64      // the highest generation number used
	schedule     schedule

	watch                          *time.Timer // fires when the flusher's work does not come back
	hangLog, litterLog, rewriteLog sparse

	status  status
	backups backups
	wake    chan struct{} // capacity 1
	stop    chan struct{}
	done    chan struct{} // closed when the flusher has ended
	once    sync.Once
	result  error // of Close
}

// Open locks the data directory and verifies all of it but the table, changing nothing that is there; a directory that is absent or
// empty is made. An error is a sentence that tells a person what to do: another process has the directory, it is of a newer format, it
// is damaged, it holds something else.
func Open(o Options) (*DB, error) {
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	if o.FS == nil {
		o.FS = diskFS{vfs.Default}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.tune = o.tune.withDefaults()
	d := &DB{o: o, fs: o.FS, log: o.Log, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	d.site.log = o.Log
	d.status.init(time.Now())
	if err := d.open(); err != nil {
		if d.lock != nil {
			d.lock.Close()
		}
		return nil, err
	}
	return d, nil
}

func (d *DB) open() error {
	dir := d.o.Dir
	// Before the lock, so that a directory of a newer format is not even touched by that.
	if _, err := readLayout(d.fs, dir); err != nil {
		return err
	}
	if err := d.fs.MkdirAll(dir, dirMode); err != nil {
		return unwritable(dir, err)
	}
	if err := d.takeLock(); err != nil {
		return err
	}
	if u, err := d.fs.GetDiskUsage(dir); err == nil && u.TotalBytes < smallDisk {
		d.site.small = true
		d.o.tune.mergeBytes = min(d.o.tune.mergeBytes, smallMergeBytes)
	}
	layout, err := readLayout(d.fs, dir)
	if err != nil {
		return err
	}
	d.layout = layout
	d.lastGen = d.layout.generation
	if d.layout.generation == 0 || d.layout.creating {
		if err := d.create(); err != nil {
			return unwritable(dir, err)
		}
		return nil
	}
	return d.verify()
}

func (d *DB) generationDir(n uint64) string { return d.fs.PathJoin(d.o.Dir, generationName(n)) }

// create makes the first generation. CURRENT says "new" until it is complete, so that a crash in between leaves a directory that is
// known to hold nothing.
func (d *DB) create() error {
	d.info.Fresh, d.info.Clean = true, true
	d.lastGen = 1
	dir := d.generationDir(1)
	d.current = dir
	if !d.layout.made {
		if err := syncDir(d.fs, d.fs.PathDir(d.o.Dir)); err != nil {
			return err
		}
		if err := writeFormat(d.fs, d.o.Dir); err != nil {
			return err
		}
	}
	if err := writeCurrent(d.fs, d.o.Dir, 1, stateNew); err != nil {
		return err
	}
	if err := d.fs.RemoveAll(dir); err != nil {
		return err
	}
	h, err := newGeneration(d.fs, dir, 1, point{}, &d.site)
	if err != nil {
		return err
	}
	d.h = h
	if err = writeMark(d.fs, d.o.Dir, mark{generation: 1, clean: true, durability: d.o.Mode.String()}); err == nil {
		err = writeCurrent(d.fs, d.o.Dir, 1, stateLive)
	}
	if err != nil {
		h.abandon()
	}
	return err
}

// newGeneration makes an empty generation, synced, that goes on after a point.
func newGeneration(fs vfs.FS, dir string, n uint64, last point, at *site) (*handle, error) {
	h, err := openHandle(fs, dir, n, false, at)
	if err != nil {
		return nil, err
	}
	err = h.run(func(db *pebble.DB) error { return db.Set([]byte{baseSpace}, encodeBase(last, steps{}), pebble.Sync) })
	if err == nil {
		err = syncDir(fs, fs.PathDir(dir))
	}
	if err != nil {
		h.abandon()
		return nil, err
	}
	return h, nil
}

// verify opens the current generation for reading only, so that a damaged one stays as it is, and holds its journal against the mark.
func (d *DB) verify() error {
	dir := d.generationDir(d.layout.generation)
	d.current = dir
	format, err := atomicfs.ReadMarker(d.fs, dir, "format-version")
	if err != nil {
		return unusable(d.o.Dir, err)
	}
	if n, err := strconv.Atoi(format); err == nil && n > int(pebbleFormat) {
		return newerFormat(d.o.Dir, fmt.Sprintf("Pebble format %d, this version reads up to %d", n, pebbleFormat))
	}
	h, err := openHandle(d.fs, dir, d.layout.generation, true, &d.site)
	if err != nil {
		return unusable(d.o.Dir, err)
	}
	defer h.abandon()
	err = h.run(func(db *pebble.DB) (err error) {
		d.journal, err = readJournal(db, &d.distinct)
		return err
	})
	if err == nil {
		err = d.checkMark()
	}
	if err != nil {
		return unusable(d.o.Dir, err)
	}
	d.info.SavedAt = time.UnixMilli(d.journal.last.saved)
	return nil
}

// checkMark compares what Pebble holds with what was known to be durable.
func (d *DB) checkMark() error {
	m, last := d.layout.mark, d.layout.generation
	const unnoticed = "a lost round, if there is one, goes unnoticed this time"
	switch {
	case m == nil && errors.Is(d.layout.markErr, errChecksum):
		d.info.Warning = "the file MARK is damaged: " + unnoticed
	case m == nil:
		d.info.Warning = fmt.Sprintf("the file MARK cannot be read (%v): %s", d.layout.markErr, unnoticed)
	case m.generation > last:
		return fmt.Errorf("MARK speaks of generation %d, CURRENT names the older %d", m.generation, last)
	case m.generation == last && m.round > d.journal.last.round:
		return fmt.Errorf("round %d was synced to disk, but the store ends with round %d: the end of Pebble's log is damaged or cut off",
			m.round, d.journal.last.round)
	case m.generation == last && m.round == d.journal.last.round && m.chain != d.journal.last.chain:
		return fmt.Errorf("round %d has the checksum %08x, MARK says %08x", m.round, d.journal.last.chain, m.chain)
	default:
		d.info.Clean = m.clean && m.generation == last
	}
	if m != nil {
		d.info.Durability, d.info.Drained, d.info.Origin = m.durability, m.drained, m.origin
	}
	return nil
}

// Found is what Open found: what Load returns, but for what only a load can tell.
func (d *DB) Found() LoadInfo { return d.info }
