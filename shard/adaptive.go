package shard

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/rlserver/rlserver/engine"
)

// An adaptive limit is a named limit whose rate follows what callers report. Its
// expression is configuration as any limit's; the rate found so far is state,
// told by the feeds in LimitSpace under the name behind a #, that no name begins
// with, with the kind searchKind: of several reports in a round only the state
// after the last.

// searchKind is the kind byte of such a state, beside those of an Origin.
const searchKind = 3

// searchMark stands before the name in the key of a state.
const searchMark = '#'

// ErrNotAdaptive is the refusal of a report on a limit of a fixed rate.
var ErrNotAdaptive = errors.New("the limit is not adaptive")

// ErrNoLimit is the refusal of a report on a name that means nothing.
var ErrNoLimit = errors.New("there is no such limit")

// A Rate is what is in force by an adaptive limit.
type Rate struct {
	Limit       engine.Limit // with the limit's name
	PausedUntil int64        // Unix ms before which no caller may pass, 0 if they may
}

// A search is what an adaptive limit has found. It lives as long as the limit,
// through changes of its expression.
type search struct {
	name string
	born [maxFeeds]uint64     // the feeds' rounds in which the limit became adaptive
	rate atomic.Pointer[Rate] // in force: what state says

	mu    sync.Mutex // guards what follows
	a     engine.Adaptive
	state []byte // nil = nothing was reported yet
	spare []byte // the room of the state before
	told  [maxFeeds]bool
}

// put makes the rate of the state the one in force. The caller has the lock.
func (r *search) put() {
	// The state is this package's own or was checked when it came.
	lim, until, err := engine.Current(&r.a, r.state)
	if err != nil {
		panic(fmt.Sprintf("shard: state of limit %q: %v", r.name, err))
	}
	r.putRate(lim, until)
}

func (r *search) putRate(lim engine.Limit, until int64) {
	lim.Name = r.name
	if now := r.rate.Load(); now == nil || now.Limit != lim || now.PausedUntil != until {
		r.rate.Store(&Rate{lim, until})
	}
}

// configure puts another expression in force.
func (r *search) configure(a engine.Adaptive) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.a = a
	r.put()
}

// replace puts another state in force, nil to forget, and lets the feeds hear of
// it. The caller has the lock.
func (r *search) replace(state []byte) {
	r.state, r.told = state, [maxFeeds]bool{}
	r.put()
}

// change is the state as a feed tells it.
func (r *search) change() Change {
	c := Change{Space: LimitSpace, Key: searchKey(r.name)}
	if r.state != nil {
		c.Kind, c.Value = searchKind, bytes.Clone(r.state)
	}
	return c
}

func searchKey(name string) []byte { return append([]byte{searchMark}, name...) }

// Feedback is a caller's report on an adaptive limit, found as Resolve finds it:
// that the upstream took a call, or throttled one and wants none for wait ms (0
// if it did not say), at now (Unix ms). It returns what is in force after it, and
// the round that the reply waits for, as Tx.Due does. Errors: ErrNoLimit,
// ErrNotAdaptive, those of engine.Feedback.
func (l *Limits) Feedback(name []byte, ok bool, wait, now int64) (rate Rate, due uint64, err error) {
	n := l.set.Load().find(name)
	switch {
	case n == nil:
		return Rate{}, 0, ErrNoLimit
	case n.search == nil:
		return Rate{}, 0, ErrNotAdaptive
	}
	r := n.search
	r.mu.Lock()
	defer r.mu.Unlock()
	state, lim, until, err := engine.Feedback(r.spare[:0], &r.a, r.state, ok, wait, now)
	if err != nil {
		return Rate{}, 0, err
	}
	r.state, r.spare = state, r.state
	r.told = [maxFeeds]bool{}
	before := r.rate.Load()
	r.putRate(lim, until)
	l.reports.Add(1)
	after := r.rate.Load()
	if l.store.promise != Ahead || !ok || after != before {
		due = l.due()
	} // one good report the fewer lets no more pass
	return *after, due, nil
}

// PausedUntil is the Unix ms before which no call under a limit's name may pass,
// 0 if they may. It does not allocate.
func (l *Limits) PausedUntil(name string) int64 {
	set := l.set.Load()
	if name == "" || !set.adaptive {
		return 0
	}
	if n := set.find(unsafe.Slice(unsafe.StringData(name), len(name))); n != nil && n.search != nil {
		return n.search.rate.Load().PausedUntil
	}
	return 0
}

// Rebase brings the times of all states to at most maxTS (Unix ms), as Load does
// those of entries, after they came from disk.
func (l *Limits) Rebase(maxTS int64) {
	l.eachSearch(func(r *search) {
		if r.state == nil {
			return
		}
		state, err := engine.RebaseAdaptive(nil, r.state, maxTS)
		if err != nil {
			panic(fmt.Sprintf("shard: state of limit %q: %v", r.name, err))
		}
		if !bytes.Equal(state, r.state) {
			r.replace(state)
		}
	})
}

// forget is Clear's part here: what was found is forgotten, the limits stay.
func (l *Limits) forget() {
	l.eachSearch(func(r *search) {
		if r.state != nil {
			r.replace(nil)
		}
	})
}

// eachSearch calls f for each search, that is locked meanwhile.
func (l *Limits) eachSearch(f func(r *search)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lockedSearches(f)
}

// lockedSearches is eachSearch for a caller that has the lock of l.
func (l *Limits) lockedSearches(f func(r *search)) {
	for _, r := range l.searches {
		r.mu.Lock()
		f(r)
		r.mu.Unlock()
	}
}

// settle gives each adaptive limit of a change its search, and takes it from
// those that are none any more. It is the last step before the set is told, in
// these rounds, and put in force. The caller has the lock.
func (l *Limits) settle(c *limitsChange, rounds [maxFeeds]uint64) {
	for _, ch := range c.told {
		name := string(ch.Key)
		n, r := c.set.byName[name], l.searches[name]
		switch {
		case n != nil && n.Adaptive != engine.Adaptive{}:
			if r == nil {
				r = &search{name: name, born: rounds, told: [maxFeeds]bool{true, true}}
				l.searches[name] = r
			}
			r.configure(n.Adaptive)
			n.search = r
		case r != nil:
			delete(l.searches, name)
			c.told = append(c.told, Change{Space: LimitSpace, Key: searchKey(name)})
		}
	}
	c.set.adaptive = len(l.searches) > 0
}

// takeSearches appends the states that a feed has not been told up to a round.
// One that began later has to wait: a round between may forget one of the same
// name. The caller has the lock.
func (l *Limits) takeSearches(out []Change, feed int, round uint64) []Change {
	l.lockedSearches(func(r *search) {
		if !r.told[feed] && r.born[feed] <= round {
			r.told[feed] = true
			out = append(out, r.change())
		}
	})
	return out
}

// untold returns how many states a feed has not been told. The caller has the
// lock.
func (l *Limits) untold(feed int) (n int) {
	l.lockedSearches(func(r *search) {
		if !r.told[feed] {
			n++
		}
	})
	return n
}

// checkSearch refuses what is no state, and no tombstone of one.
func checkSearch(ch Change) (err error) {
	switch ch.Kind {
	case 0:
		return nil
	case searchKind:
		_, err = engine.RebaseAdaptive(nil, ch.Value, engine.MaxNow)
	default:
		err = fmt.Errorf("kind %d is unknown", ch.Kind)
	}
	if err != nil {
		return fmt.Errorf("what limit %+.64q has found: %w", ch.Key[1:], err)
	}
	return nil
}

// loadSearch takes a state that was checked. One of a limit that is not adaptive,
// or not there, says nothing. The caller has the lock.
func (l *Limits) loadSearch(ch Change) {
	r := l.searches[string(ch.Key[1:])]
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = bytes.Clone(ch.Value) // nil of a tombstone
	r.put()
}
