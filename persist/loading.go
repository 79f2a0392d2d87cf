package persist

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// LoadStats are the figures of a load under way, most of them under Redis's names. The journal's changes are merged first, then the
// entries of the table are loaded; both count alike.
type LoadStats struct {
	Started     int64  `info:"Persistence:loading_start_time"` // Unix s
	TotalBytes  uint64 `info:"Persistence:loading_total_bytes"`
	LoadedBytes uint64 `info:"Persistence:loading_loaded_bytes"` // the same share of them as of all there is to do
	Percent     string `info:"Persistence:loading_loaded_perc"`
	Left        int64  `info:"Persistence:loading_eta_seconds"`   // at the pace so far
	Keys        int64  `info:"Persistence:rl_loading_total_keys"` // about
	LoadedKeys  int64  `info:"Persistence:rl_loading_loaded_keys"`
}

// A loading is how far a load is, told by who does it to who asks.
type loading struct {
	merged, loaded atomic.Int64 // changes of the journal, entries of the table

	mu            sync.Mutex
	began         time.Time // zero while there is none
	bytes         uint64
	changes, keys int64
	guard         *guard // of the handle that is read, when there is one
	aborted       bool
}

func (l *loading) begin(now time.Time, j journal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began, l.changes, l.keys = now, int64(j.changes), int64(j.last.keys)
}

// guarded says what Abort is to freeze.
func (l *loading) guarded(g *guard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.guard = g
	if l.aborted {
		g.fail(ErrAborted)
	}
}

// found says how many bytes there are on disk.
func (l *loading) found(bytes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes = bytes
}

// hasMerged says how far the merge is; nil is its end.
func (l *loading) hasMerged(m *merger) {
	if m == nil {
		l.merged.Store(l.changes)
	} else {
		l.merged.Store(int64(m.passed))
	}
}

func (l *loading) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began, l.guard = time.Time{}, nil
}

// stats returns the figures at a moment, and whether there is a load then.
func (l *loading) stats(now time.Time) (LoadStats, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		return LoadStats{}, false
	}
	loaded := l.loaded.Load()
	keys := max(l.keys, loaded)
	done, all := float64(l.merged.Load()+loaded), float64(l.changes+keys)
	st := LoadStats{Started: l.began.Unix(), TotalBytes: l.bytes, Keys: keys, LoadedKeys: loaded}
	share := 0.0
	if done > 0 {
		share = min(done/all, 1)
		st.Left = int64(now.Sub(l.began).Seconds() * (1 - share) / share)
	}
	st.LoadedBytes = uint64(share * float64(l.bytes))
	st.Percent = fmt.Sprintf("%.2f", 100*share)
	return st, true
}

// Loading says how far a load is, and whether there is one under way. It never waits for the disk.
func (d *DB) Loading() (LoadStats, bool) { return d.loading.stats(time.Now()) }

// Abort ends a load under way, or the one to come: nothing is written any more, as if the power had gone, and Load fails with ErrAborted.
// It does not wait. After a load that succeeded it does nothing.
func (d *DB) Abort() {
	l := &d.loading
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aborted = true
	if l.guard != nil {
		l.guard.fail(ErrAborted)
	}
}
