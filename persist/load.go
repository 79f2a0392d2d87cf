package persist

import (
	"bytes"
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
	Keys    int           // entries now in the store
	Dropped int           // entries that were idle and were dropped
	Limits  int           // named limits
	Fresh   bool          // the directory held nothing before
	Clean   bool          // the last stop wrote everything; true if Fresh
	SavedAt time.Time     // of the last round on disk; zero if there was none
	Took    time.Duration // the load took so long
	Warning string        // something a person should know, or ""
}

// Load brings every entry on disk into the store, on all cores. clock is the server's clock, maxTS the latest time an entry may have,
// both Unix ms (see shard.Store.Loader). progress, if not nil, is called now and then, never twice at once, with the entries seen so far
// and about how many there are. An error is a sentence that tells a person what to do; the store is not to be used then.
func (d *DB) Load(s *shard.Store, clock, maxTS int64, progress func(loaded, total int)) (LoadInfo, error) {
	start := time.Now()
	if !d.limitsLoaded {
		if err := d.LoadLimits(s); err != nil {
			return LoadInfo{}, err
		}
	}
	l := loader{db: d.h.db, store: s, clock: clock, maxTS: maxTS, total: d.journal.last.keys, progress: progress}
	if err := l.run(d.h.guard); err != nil {
		return LoadInfo{}, unusable(d.o.Dir, err)
	}
	d.info.Keys, d.info.Dropped, d.info.Took = int(l.kept.Load()), int(l.dropped.Load()), time.Since(start)
	d.status.loaded(d.info, d.h.generation)
	return d.info, nil
}

// LoadLimits brings the named limits on disk into the store, for who wants to change them before the entries come in, which are judged
// under those in force then. Load does it if nobody did. Errors as for Load.
func (d *DB) LoadLimits(s *shard.Store) error {
	if d.h == nil {
		h, err := openWith(newCompactions(true), d.fs, d.generationDir(d.layout.generation), d.layout.generation, false, &d.site)
		if err != nil {
			return unusable(d.o.Dir, err)
		}
		d.h = h
	}
	err := d.makeRoom()
	if err == nil {
		err = d.mergeAll()
	}
	if err != nil {
		return unusable(d.o.Dir, err)
	}
	var limits []shard.Change
	err = d.h.run(func(db *pebble.DB) (err error) {
		limits, err = readLimits(db)
		return err
	})
	if err == nil {
		err = s.Limits().Load(limits)
	}
	if err != nil {
		return unusable(d.o.Dir, err)
	}
	d.limitsLoaded, d.info.Limits = true, len(limits)
	return nil
}

// makeRoom lets Pebble compact if the merge to come could bring it where it takes no more writes until it has.
func (d *DB) makeRoom() error {
	tall := d.journal.bytes > 2*d.o.tune.mergeBytes
	err := d.h.run(func(db *pebble.DB) error {
		tall = tall || db.Metrics().Levels[0].Sublevels > l0StopWrites/2
		return nil
	})
	if err == nil && tall {
		d.h.compactions.release()
	}
	return err
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
	total        int
	progress     func(loaded, total int)

	next          atomic.Int64 // partition nobody has taken
	kept, dropped atomic.Int64
	mu            sync.Mutex
	err           error
}

// run scans on all cores. It does not wait for a scan that Pebble has taken hostage: then the guard is dead.
func (l *loader) run(g *guard) error {
	l.store.Expect(l.total)
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
		l.report()
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

func (l *loader) report() {
	if l.progress == nil || !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	n := int(l.kept.Load() + l.dropped.Load())
	l.progress(n, max(n, l.total))
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
	return it.Error()
}
