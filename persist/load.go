package persist

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rlserver/rlserver/shard"
)

// LoadInfo says what Load found.
type LoadInfo struct {
	Keys    int       // entries now in the store
	Dropped int       // entries that were idle and were dropped
	Limits  int       // named limits
	Fresh   bool      // the directory held nothing before
	Clean   bool      // the last stop wrote everything; true if Fresh
	SavedAt time.Time // of the last round on disk; zero if there was none

	Durability string // the mode of the run before, "" if that is unknown
	Origin     Origin
	Drained    int64 // Unix ms at which keys counted as emptied in the run before (shard.Store.Drain), 0 if they did not

	Took    time.Duration // the load took so long
	Warning string        // something a person should know, or ""
}

// ErrAborted is in the error of a Load that Abort ended.
var ErrAborted = errors.New("the load was ended before it was complete")

// Load brings every entry on disk into the store, on all cores. clock is the server's clock, maxTS the latest time an entry may have,
// both Unix ms (see shard.Store.Loader). Loading tells how far it is. An error is a sentence that tells a person what to do; the store is
// not to be used then.
func (d *DB) Load(s *shard.Store, clock, maxTS int64) (LoadInfo, error) {
	start := time.Now()
	defer d.loading.end()
	if !d.limitsLoaded {
		if err := d.LoadLimits(s); err != nil {
			return LoadInfo{}, err
		}
	}
	l := loader{db: d.h.db, store: s, clock: clock, maxTS: maxTS, progress: &d.loading}
	s.Expect(d.journal.last.keys)
	if err := l.run(d.h.guard); err != nil {
		return LoadInfo{}, unusable(d.o.Dir, err)
	}
	// From here on callers are served, and a stop is not clean until Close says so.
	d.store = s
	if err := d.writeMark(false); err != nil {
		return LoadInfo{}, unwritable(d.o.Dir, err)
	}
	d.info.Keys, d.info.Dropped, d.info.Took = int(l.kept.Load()), int(l.dropped.Load()), time.Since(start)
	d.status.loaded(d.info, d.h.generation)
	return d.info, nil
}

// LoadLimits brings the named limits on disk into the store, for who wants to change them before the entries come in, which are judged
// under those in force then. Load does it if nobody did. Errors as for Load, which is to follow.
func (d *DB) LoadLimits(s *shard.Store) error {
	d.loading.begin(time.Now(), d.journal)
	limits, err := d.readyTable()
	if err == nil {
		err = s.Limits().Load(limits)
	}
	if err != nil {
		d.loading.end()
		return unusable(d.o.Dir, err)
	}
	d.limitsLoaded, d.info.Limits = true, len(limits)
	return nil
}

// readyTable opens the generation, if that has not been done, brings the table up to date and returns the named limits.
func (d *DB) readyTable() ([]shard.Change, error) {
	if d.h == nil {
		h, err := openWith(newCompactions(true), d.fs, d.generationDir(d.layout.generation), d.layout.generation, false, &d.site)
		if err != nil {
			return nil, err
		}
		d.h = h
	}
	d.loading.guarded(d.h.guard)
	if err := d.makeRoom(); err != nil {
		return nil, err
	}
	for d.unmerged() {
		if err := d.mergeStep(); err != nil {
			return nil, err
		}
		d.loading.hasMerged(d.merging)
	}
	var limits []shard.Change
	err := d.h.run(func(db *pebble.DB) (err error) {
		limits, err = readLimits(db)
		return err
	})
	if err != nil {
		return nil, err // the worker may still write to limits
	}
	return limits, nil
}

// makeRoom looks how much there is, and lets Pebble compact if the merge to come could bring it where it takes no more writes until it has.
func (d *DB) makeRoom() error {
	var m *pebble.Metrics
	err := d.h.run(func(db *pebble.DB) error {
		m = db.Metrics()
		return nil
	})
	if err != nil {
		return err
	}
	d.loading.found(m.DiskSpaceUsage())
	if d.journal.bytes > 2*d.o.tune.mergeBytes || m.Levels[0].Sublevels > l0StopWrites/2 {
		d.h.compactions.release()
	}
	return nil
}

// readLimits reads the named limits of the table.
func readLimits(db *pebble.DB) (limits []shard.Change, err error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{limitSpace}, UpperBound: []byte{limitSpace + 1}})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		name := bytes.Clone(it.Key()[1:])
		c, err := decodeEntry(name, bytes.Clone(value))
		if err != nil {
			return nil, fmt.Errorf("named limit %+.64q: %w", name, err)
		}
		limits = append(limits, c)
	}
	return limits, it.Error()
}

// A loader scans the table, partition by partition.
type loader struct {
	db           *pebble.DB
	store        *shard.Store
	clock, maxTS int64
	progress     *loading

	next          atomic.Int64 // partition nobody has taken
	kept, dropped atomic.Int64
	mu            sync.Mutex
	err           error
}

// run scans on all cores. It does not wait for a scan that Pebble has taken hostage: then the guard is dead.
func (l *loader) run(g *guard) error {
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(l.scan)
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		if l.err != nil {
			return l.err
		}
		return g.failed()
	case <-g.dead:
		l.fail(g.failed())
		timer := time.NewTimer(settleMost)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
		return g.failed()
	}
}

func (l *loader) scan() {
	into := l.store.Loader(l.clock, l.maxTS)
	for {
		p := int(l.next.Add(1) - 1)
		if p >= partitions {
			break
		}
		if err := l.partition(p, into); err != nil {
			l.fail(err)
			return
		}
	}
	if err := into.Flush(); err != nil {
		l.fail(err)
	}
}

func (l *loader) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
	l.next.Store(partitions)
}

func (l *loader) partition(p int, into *shard.Loader) error {
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: tableBound(p), UpperBound: tableBound(p + 1)})
	if err != nil {
		return err
	}
	defer it.Close()
	kept, dropped := into.Count()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		key := it.Key()[2:]
		c, err := decodeEntry(key, value)
		if err != nil {
			return fmt.Errorf("entry of key %.64q: %w", key, err)
		}
		if err := into.Add(c); err != nil {
			return err
		}
	}
	keptNow, droppedNow := into.Count()
	l.kept.Add(int64(keptNow - kept))
	l.dropped.Add(int64(droppedNow - dropped))
	l.progress.loaded.Add(int64(keptNow + droppedNow - kept - dropped))
	return it.Error()
}
