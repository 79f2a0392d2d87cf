package persist

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

// dir is where the data is in tests on a file system in memory.
const dir = "/data"

// soaking says that everything is tried, as in make soak.
var soaking = os.Getenv("RLSERVER_SOAK") != ""

// stride is how far apart the operations are that fail one after the other: all in make soak, some in other runs.
func stride() int {
	switch {
	case soaking:
		return 1
	case testing.Short():
		return 1 + 4*thin
	}
	return 3
}

// fewer is all, but under the race detector every fourth.
func fewer[T any](all []T) (some []T) {
	for i, one := range all {
		if thin == 1 || i%4 == 0 {
			some = append(some, one)
		}
	}
	return some
}

// start is when tests begin, Unix ms; entries are made so that they never become idle.
const start = 1_700_000_000_000

var slow = engine.Limit{Algorithm: engine.Bucket, P: 1, Q: 86_400_000, Capacity: 1_000_000}

// A world is a server's store and its copy on disk.
type world struct {
	t     testing.TB
	store *shard.Store
	feed  *shard.Feed
	db    *DB
	info  LoadInfo
}

func newStore() *shard.Store { return shard.New(shard.Config{Shards: 8}) }

// opened opens, loads and starts, or says why not.
func opened(t testing.TB, o Options) (*world, error) {
	w := &world{t: t, store: newStore()}
	w.feed = w.store.NewFeed()
	if o.Dir == "" {
		o.Dir = dir
	}
	var err error
	if w.db, err = Open(o); err != nil {
		return nil, err
	}
	if w.info, err = w.db.Load(w.store, start, start+1000); err != nil {
		w.db.Close()
		return nil, err
	}
	w.db.Start(w.feed, w.store)
	return w, nil
}

func open(t testing.TB, o Options) *world {
	t.Helper()
	w, err := opened(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// debit takes a token from each key in one Tx.
func (w *world) debit(keys ...string) {
	w.t.Helper()
	var bs [][]byte
	for _, k := range keys {
		bs = append(bs, []byte(k))
	}
	tx := w.store.Lock(start, bs...)
	defer tx.Unlock()
	for _, k := range bs {
		e, _ := tx.Get(k)
		v, d, err := engine.Acquire(nil, slow, e.Value, start, engine.Op{Cost: 1})
		if err != nil || d.Allowed != 1 {
			w.t.Fatalf("debit of %q: %+v, %v", k, d, err)
		}
		tx.Put(k, byte(engine.Bucket), v, d.ResetAfter)
	}
}

func (w *world) forget(key string) {
	tx := w.store.Lock(start, []byte(key))
	defer tx.Unlock()
	tx.Delete([]byte(key))
}

// save makes everything durable and fails the test if that fails.
func (w *world) save() {
	w.t.Helper()
	if err := w.db.Wait(w.db.Save()); err != nil {
		w.t.Fatal("save:", err)
	}
}

func (w *world) close() {
	w.t.Helper()
	if err := w.db.Close(); err != nil {
		w.t.Fatal("close:", err)
	}
}

// A state is what a store holds: tokens taken by key, and the capacity of each named limit by its name behind an @.
type state map[string]int64

func stateOf(t testing.TB, s *shard.Store) state {
	t.Helper()
	m := state{}
	for _, n := range s.Limits().List() {
		m["@"+n.Name] = n.Limit.Capacity
	}
	s.Each(func(cs []shard.Change) bool {
		for _, c := range cs {
			d, err := engine.Peek(slow, c.Value, start, 0)
			if err != nil || c.Kind != byte(engine.Bucket) {
				t.Fatalf("entry %q: kind %d, %v", c.Key, c.Kind, err)
			}
			m[string(c.Key)] = slow.Capacity - d.Remaining
		}
		return true
	})
	return m
}

func (w *world) state() state { return stateOf(w.t, w.store) }

// stateOn loads what a file system holds and closes it again.
func stateOn(t testing.TB, fs vfs.FS) (state, LoadInfo, error) {
	t.Helper()
	w, err := opened(t, Options{FS: fs, Mode: Shutdown})
	if err != nil {
		return nil, LoadInfo{}, err
	}
	st := w.state()
	w.close()
	return st, w.info, nil
}

func wantState(t testing.TB, got, want state) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	var diff []string
	for k, n := range want {
		if got[k] != n {
			diff = append(diff, fmt.Sprintf("%q: %d, want %d", k, got[k], n))
		}
	}
	for k, n := range got {
		if _, ok := want[k]; !ok {
			diff = append(diff, fmt.Sprintf("%q: %d, want none", k, n))
		}
	}
	t.Fatalf("%d keys, want %d: %.400s", len(got), len(want), strings.Join(diff, "; "))
}

// A logBook collects log lines.
type logBook struct {
	mu    sync.Mutex
	lines []string
	times []time.Time
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines, l.times = append(l.lines, string(p)), append(l.times, time.Now())
	return len(p), nil
}

func (l *logBook) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, s := range l.lines {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}

// densest is the most lines in a minute, and when it began.
func (l *logBook) densest() (most int, when time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := 0
	for i, at := range l.times {
		for at.Sub(l.times[first]) >= time.Minute {
			first++
		}
		if n := i + 1 - first; n > most {
			most, when = n, l.times[first]
		}
	}
	return most, when
}

func (l *logBook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
