package crash

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/rlserver/rlserver/engine"
)

// loaded looks at what a start found. A server that does not crash is started
// anew now and then, too: the times of its states are brought to the latest that
// may be, and what is idle is dropped.
func (w *world) loaded() error {
	for _, k := range w.keys {
		value := w.value(k)
		found := value != nil
		l := w.leg(k, w.clock)
		for i, s := range k.states {
			if s == nil {
				continue
			}
			rebased, err := engine.Rebase(nil, s, w.latest())
			if err != nil {
				return fmt.Errorf("key %s: %x: %w", k.name, s, err)
			}
			if k.states[i] = rebased; !found && l.idle(rebased) {
				k.states[i] = nil
			}
		}
		if w.o.Exact {
			if err := w.exact(k, value, found); err != nil {
				return err
			}
		}
		if k.constant && k.named == "" && k.memory != nil && w.o.Block != (engine.Block{}) {
			w.measure(k, value)
		}
	}
	return nil
}

// value is what the store has of a key, nil if nothing.
func (w *world) value(k *key) []byte {
	tx := w.store.Lock(w.clock, k.name)
	defer tx.Unlock()
	e, _ := tx.Get(k.name)
	return bytes.Clone(e.Value)
}

// exact finds the one state that a key was in.
func (w *world) exact(k *key, value []byte, found bool) error {
	l := w.leg(k, w.clock)
	for _, s := range k.states {
		if found && bytes.Equal(s, value) || !found && (s == nil || l.idle(s)) {
			k.states = [][]byte{s}
			return nil
		}
	}
	return fmt.Errorf("key %s: loaded as %x, may be one of %x", k.name, value, k.states)
}

// measure counts what the crash took from the callers of a bucket.
func (w *world) measure(k *key, value []byte) {
	taken := max(w.tokens(k, k.memory)-w.tokens(k, value), 0)
	perMs := float64(k.lim.P) / float64(k.lim.Q)
	block := max(float64(w.o.Block.Least), float64(k.lim.Capacity/max(w.o.Block.Part, 1)), float64(w.o.Block.Time)*perMs)
	w.report.Taken += taken
	w.report.TakenMost = max(w.report.TakenMost, taken/block)
}

// tokens is what a bucket has now.
func (w *world) tokens(k *key, state []byte) float64 {
	if state == nil {
		return float64(k.lim.Capacity)
	}
	l := leg{lim: k.lim, now: w.latest()}
	info, err := engine.Inspect(l.touched(state))
	if err != nil {
		panic(err)
	}
	tokens, err := strconv.ParseFloat(info.Tokens, 64)
	if err != nil {
		panic(err)
	}
	return tokens
}
