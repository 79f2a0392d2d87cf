package persist

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A handle is one open generation. All writes to it run on its worker, a goroutine that may be lost if Pebble never gives it back;
// whoever asked the worker is told when the guard freezes and need not wait.
type handle struct {
	db          *pebble.DB
	guard       *guard
	compactions *compactions
	dir         string
	generation  uint64
	health      io.Closer        // ends the watch for a slow disk
	scan        *pebble.Iterator // to be closed before db, or nil; the worker's

	jobs  chan func()
	ended chan struct{} // closed when the worker is done and db closed
}

// openHandle opens the generation in dir, for reading only if readOnly.
func openHandle(fs vfs.FS, dir string, generation uint64, readOnly bool, at *site) (*handle, error) {
	return openWith(newCompactions(false), fs, dir, generation, readOnly, at)
}

// openWith is openHandle with a say in when Pebble compacts.
func openWith(c *compactions, fs vfs.FS, dir string, generation uint64, readOnly bool, at *site) (*handle, error) {
	var plog pebbleLog
	healthy, health := vfs.WithDiskHealthChecks(fs, slowDisk, nil, func(i vfs.DiskSlowInfo) { plog.diskSlow(i) })
	g := newGuard(healthy)
	g.noPreallocation = at.small
	plog = pebbleLog{guard: g, site: at}
	h := &handle{guard: g, compactions: c, dir: dir, generation: generation, health: health, jobs: make(chan func()), ended: make(chan struct{})}

	opened := make(chan error, 1)
	go h.work(func() error {
		db, err := pebble.Open(dir, pebbleOptions(g, plog, c, readOnly, at.small))
		h.db = db
		opened <- err
		return err
	})
	select {
	case err := <-opened:
		if dead := g.failed(); dead != nil { // what Pebble says follows from that
			err = dead
		}
		if err != nil {
			h.abandon()
			return nil, err
		}
	case <-g.dead:
		h.abandon()
		return nil, g.failed()
	}
	return h, nil
}

func pebbleOptions(fs vfs.FS, l pebbleLog, c *compactions, readOnly, small bool) *pebble.Options {
	o := &pebble.Options{
		FS:                          fs,
		Logger:                      l,
		EventListener:               l.listener(),
		FormatMajorVersion:          pebbleFormat,
		ReadOnly:                    readOnly,
		CacheSize:                   cacheBytes,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: maxMemTables,
		MaxOpenFiles:                maxOpenFiles,
		L0CompactionThreshold:       l0Compaction,
		L0StopWritesThreshold:       l0StopWrites,
	}
	if small {
		o.MemTableSize, o.L0CompactionThreshold = smallMemTableBytes, smallL0Compaction
	}
	// The top level is mostly journal, which is read once, soon, and gone: packing it took 4 % of all CPU of a server under load.
	o.Levels[0].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	o.Levels[1].Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression } // and so all below
	o.Experimental.CompactionScheduler = c
	// Reads are one scan at start-up; they say nothing about what to compact.
	o.Experimental.ReadSamplingMultiplier = -1
	return o
}

// work is the worker: it opens, does the jobs and closes.
func (h *handle) work(open func() error) {
	defer close(h.ended)
	defer h.health.Close()
	if open() != nil {
		return
	}
	for job := range h.jobs {
		job()
	}
	if h.db != nil {
		_ = h.closeFrozen()
	}
}

// closeFrozen gives back what Pebble holds. Nothing reaches the disk any more, so neither an error nor a panic, as over an iterator
// that Pebble has parked, is worth more than a leak.
func (h *handle) closeFrozen() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	if h.scan != nil {
		_ = h.scan.Close()
	}
	return h.db.Close()
}

// run has the worker do f and returns its error, or why the handle is dead, as soon as it is. f may still be running then, so it must
// only use what the caller leaves alone from now on.
func (h *handle) run(f func(*pebble.DB) error) error {
	done := make(chan error, 1)
	select {
	case h.jobs <- func() { done <- f(h.db) }:
	case <-h.guard.dead:
		return h.guard.failed()
	}
	select {
	case err := <-done:
		// Success means nothing if the guard has frozen meanwhile.
		if dead := h.guard.failed(); dead != nil {
			return dead
		}
		return err
	case <-h.guard.dead:
		return h.guard.failed()
	}
}

// settleMost is how long to wait for Pebble to close a frozen handle, which takes no I/O and so should be quick.
const settleMost = 5 * time.Second

// abandon gives the handle up and waits until Pebble has closed it, so that its directory can be removed; not for ever, as Pebble may
// have parked the worker.
func (h *handle) abandon() {
	h.guard.fail(errors.New("given up"))
	close(h.jobs)
	timer := time.NewTimer(settleMost)
	defer timer.Stop()
	select {
	case <-h.ended:
	case <-timer.C:
	}
}

// close brings everything into tables and closes the handle.
func (h *handle) close() error {
	err := h.run(func(db *pebble.DB) error { return db.Flush() })
	if err == nil {
		err = h.run(func(db *pebble.DB) error {
			h.db = nil
			return db.Close()
		})
	}
	if err != nil {
		h.abandon()
		return err
	}
	close(h.jobs)
	<-h.ended
	return h.guard.failed()
}
