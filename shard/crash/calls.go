package crash

import (
	"fmt"
	"strings"
	"time"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

// The calls of a history, each as a server's handler makes it.

// call makes one of any kind.
func (w *world) call() {
	w.report.Calls++
	k := w.keys[w.rng.IntN(len(w.keys))]
	if w.rng.IntN(3) == 0 { // one is hot
		k = w.keys[int(w.o.Seed)%len(w.keys)]
	}
	switch n := w.rng.IntN(100); {
	case n < 4 && w.o.Limits:
		w.changeLimit(k)
	case n < 8 && w.o.Limits:
		w.feedback()
	case n < 14 && w.o.Refunds:
		w.refund(k)
	case n < 17 && w.o.Penalties:
		w.penalize(k)
	case n < 19 && w.o.Resets:
		w.forget(k)
	case n < 21:
		w.sweep()
	case n < 30:
		w.acquire(k, w.keys[w.rng.IntN(len(w.keys))])
	default:
		w.acquire(k)
	}
}

// now is a caller's time.
func (w *world) now() int64 {
	switch {
	case w.o.Trusted:
		return 1_000_000 + w.rng.Int64N(w.clock-epoch+100_000)
	case w.rng.IntN(2) == 0:
		return w.clock
	}
	return w.clock - w.o.Skew + w.rng.Int64N(2*w.o.Skew+1)
}

// A leg is a key in a call.
type leg struct {
	k      *key
	lim    engine.Limit
	now    int64
	until  int64 // callers are kept away before it
	clock  int64
	absent bool // nothing was found
	keep   bool // nothing is dropped by the clock
	exact  bool
}

func (w *world) leg(k *key, now int64) *leg {
	l := &leg{k: k, now: now, clock: w.clock, keep: w.o.Trusted, exact: w.o.Exact}
	l.lim, l.until = w.limit(k)
	l.lim.Name = strings.Clone(l.lim.Name)
	return l
}

// open finds what the call goes on from. It is not ok on a key of another
// algorithm.
func (l *leg) open(tx *shard.Tx) (old []byte, ok bool) {
	e, found := tx.Get(l.k.name)
	l.absent = !found
	if found && e.Kind == byte(l.lim.Algorithm) {
		old = e.Value
	} else if found && (l.lim.Name == "" || string(engine.Name(e.Value)) != l.lim.Name) {
		return nil, false
	}
	old, err := tx.Drained(l.k.name, &l.lim, old)
	return old, err == nil
}

// found is what the call goes on from in another state: nothing if that is of
// another algorithm, or was to be dropped like the one that was found.
func (l *leg) found(old []byte) []byte {
	if len(old) == 0 || engine.Algorithm(old[0]>>4) != l.lim.Algorithm || l.absent && l.idle(old) {
		return nil
	}
	return old
}

// idle says whether a state says no more than an absent key.
func (l *leg) idle(old []byte) bool {
	switch {
	case l.keep:
		return false
	case engine.Name(old) != nil:
		return engine.ResetUnder(l.lim, old, l.clock) == 0
	}
	return engine.Reset(old, l.clock) == 0
}

// acquire takes as much as op says.
func (l *leg) acquire(old []byte, op engine.Op) ([]byte, engine.Decision, error) {
	if l.until > l.now && l.lim.Algorithm == engine.Bucket {
		return engine.AcquireAfter(nil, l.lim, old, l.now, op, l.until)
	}
	return engine.Acquire(nil, l.lim, old, l.now, op)
}

// acquire takes tokens from all keys, or from none.
func (w *world) acquire(keys ...*key) {
	if len(keys) == 2 && keys[0] == keys[1] {
		keys = keys[:1]
	}
	now := w.now()
	var names [][]byte
	var legs []*leg
	for _, k := range keys {
		names, legs = append(names, k.name), append(legs, w.leg(k, now))
	}
	tx := w.store.Lock(w.clock, names...)
	defer tx.Unlock()
	states, events := make([][]byte, len(legs)), make([]*event, len(legs))
	resets := make([]int64, len(legs))
	for i, l := range legs {
		old, ok := l.open(&tx)
		if !ok {
			return
		}
		op := w.op(&l.lim, len(legs) == 1)
		next, d, err := l.acquire(old, op)
		if err != nil || next == nil { // refused, or nothing asked for
			return
		}
		states[i], resets[i], events[i] = next, d.ResetAfter, l.taken(op, d)
	}
	for i, l := range legs {
		tx.Put(l.k.name, byte(l.lim.Algorithm), states[i], resets[i])
	}
	for i, l := range legs {
		w.note(&tx, l.k, events[i])
	}
}

// op is what a call asks for.
func (w *world) op(lim *engine.Limit, alone bool) (op engine.Op) {
	op.Cost = 1 + w.rng.Int64N(1+min(lim.Capacity, 9)/3)
	if w.rng.IntN(20) == 0 {
		op.Cost = lim.Capacity
	}
	if lim.Algorithm != engine.Bucket || !alone {
		return op
	}
	switch n := w.rng.IntN(20); {
	case n == 0:
		op.Partial = true
	case n == 1 && w.o.Debts:
		op.Force = true
	case n < 4 && w.o.Debts:
		op.MaxWait = 1 + w.rng.Int64N(2000)
	}
	return op
}

// taken is a call that changed a key.
func (l *leg) taken(op engine.Op, d engine.Decision) *event {
	e := &event{took: op.Cost}
	if op.Partial {
		e.took, op = d.Allowed, engine.Op{Cost: d.Allowed}
	}
	if op.Force && d.Allowed == 0 {
		e.took = 0 // it was not admitted, but it happened
	}
	e.what = fmt.Sprintf("%v @%s at %d, clock %d, paused until %d: %+v: %+v", l.lim, l.lim.Name, l.now, l.clock, l.until, op, d)
	if !l.exact {
		unpaused := *l // a pause is no part of a state, and may end sooner for one that may have been used later
		unpaused.until = 0
		l = &unpaused
	}
	e.do = func(old []byte) ([]byte, bool) {
		next, d, err := l.acquire(l.found(old), op)
		if err != nil || next == nil || d.Allowed == 0 && e.took > 0 {
			return nil, false
		}
		return next, true
	}
	e.part = func(old []byte) ([]byte, int64) {
		if next, d, err := l.acquire(l.found(old), op); err == nil && d.Allowed > 0 {
			return next, e.took
		}
		d, err := engine.Peek(l.lim, l.found(old), l.now, 0)
		if err != nil || d.Remaining == 0 {
			return old, 0
		}
		tokens := min(d.Remaining, e.took)
		next, d, err := l.acquire(l.found(old), engine.Op{Cost: tokens})
		if err != nil || d.Allowed == 0 {
			return old, 0
		}
		return next, tokens
	}
	return e
}

// refund gives tokens back.
func (w *world) refund(k *key) {
	l, n := w.leg(k, w.now()), 1+w.rng.Int64N(5)
	if l.lim.Algorithm == engine.Fixed && !l.lim.Aligned {
		return // an empty window is none, and a state ahead has another one then
	}
	tx := w.store.Lock(w.clock, k.name)
	defer tx.Unlock()
	old, ok := l.open(&tx)
	if !ok || l.absent || old == nil {
		return
	}
	next, d, err := engine.RefundUnder(nil, l.lim, old, n, l.now)
	if err != nil || next == nil {
		return
	}
	tx.Put(k.name, byte(l.lim.Algorithm), next, d.ResetAfter)
	w.note(&tx, k, &event{given: true, what: fmt.Sprintf("refund of %d under %v at %d", n, l.lim, l.now), do: func(old []byte) ([]byte, bool) {
		if len(old) == 0 || engine.Algorithm(old[0]>>4) != l.lim.Algorithm {
			return old, true
		}
		next, _, err := engine.RefundUnder(nil, l.lim, old, n, l.now)
		switch {
		case err != nil:
			return old, true
		case next == nil: // nothing was missing there
			return l.touched(old), true
		}
		return next, true
	}})
}

// touched is a state from which nothing is missing, or a bucket, as a call leaves
// it that takes nothing.
func (l *leg) touched(old []byte) []byte {
	next, _, err := engine.Acquire(nil, l.lim, old, l.now, engine.Op{Cost: 1, Force: l.lim.Algorithm == engine.Bucket})
	if err == nil && next != nil {
		next, _, err = engine.Refund(nil, next, 1, l.now)
	}
	if err != nil || next == nil {
		return old
	}
	return next
}

// penalize keeps callers of a key away.
func (w *world) penalize(k *key) {
	l, wait := w.leg(k, w.now()), 1+w.rng.Int64N(3000)
	tx := w.store.Lock(w.clock, k.name)
	defer tx.Unlock()
	old, ok := l.open(&tx)
	if !ok {
		return
	}
	if stored, err := engine.StoredLimit(old); err == nil && l.lim.Algorithm == engine.Fixed {
		l.lim.Window, l.lim.Aligned = stored.Window, stored.Aligned // a window that is over sooner would be another one
	}
	next, d, err := engine.Penalize(nil, l.lim, old, wait, l.now)
	if err != nil || next == nil {
		return
	}
	tx.Put(k.name, byte(l.lim.Algorithm), next, d.ResetAfter)
	w.note(&tx, k, &event{what: fmt.Sprintf("penalty of %d under %v at %d", wait, l.lim, l.now), do: func(old []byte) ([]byte, bool) {
		next, _, err := engine.Penalize(nil, l.lim, l.found(old), wait, l.now)
		if next == nil && err == nil {
			return old, true
		}
		return next, err == nil
	}})
}

// forget resets a key, and now and then all.
func (w *world) forget(k *key) {
	gone := func([]byte) ([]byte, bool) { return nil, true }
	if w.rng.IntN(10) == 0 {
		tx := w.store.LockAll(w.clock)
		defer tx.Unlock()
		tx.Clear()
		for _, k := range w.keys {
			w.note(&tx, k, &event{given: true, what: "all forgotten", do: gone})
		}
		return
	}
	tx := w.store.Lock(w.clock, k.name)
	defer tx.Unlock()
	tx.Delete(k.name)
	w.note(&tx, k, &event{given: true, what: "forgotten", do: gone})
}

// sweep has the store drop what is idle, as an uncrashed one would.
func (w *world) sweep() {
	w.store.Sweep(w.clock, time.Hour)
	for _, k := range w.keys {
		l := w.leg(k, w.clock)
		tx := w.store.Lock(w.clock, k.name)
		if _, found := tx.Get(k.name); !found {
			k.events = append(k.events, &event{given: true, answered: true, what: fmt.Sprintf("swept at %d", l.clock), do: func(old []byte) ([]byte, bool) {
				if len(old) > 0 && l.idle(old) {
					return nil, true
				}
				return old, true
			}})
		}
		tx.Unlock()
	}
}

// note keeps what happened to a key until it is looked at, and until it is
// answered.
func (w *world) note(tx *shard.Tx, k *key, e *event) {
	e.due, e.round = tx.Due(), tx.Round()
	k.events = append(k.events, e)
	if e.due > w.disk.Durable() {
		w.disk.Ask(e.due)
		w.waiting = append(w.waiting, e)
		w.report.Waited++
		return
	}
	w.answered(e)
	w.report.AtOnce++
}
