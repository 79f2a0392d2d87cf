package crash

import (
	"fmt"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

// The keys of a history and their limits.

// adaptive is the name of the limit that follows reports.
const adaptive = "adaptive"

// parse reads a limit that this package wrote.
func parse(expr string) engine.Limit {
	lim, err := engine.ParseExpression([]byte(expr))
	if err != nil {
		panic(err)
	}
	return lim
}

// makeKeys makes a key for each way to use one.
func (w *world) makeKeys() {
	add := func(name, expr, named string, constant bool) {
		w.keys = append(w.keys, &key{name: []byte(name), lim: parse(expr), named: named, constant: constant, states: [][]byte{nil}})
	}
	add("constant", w.bucket(), "", true)
	add("slow", fmt.Sprintf("%d/1m:%d", 1+w.rng.IntN(5), 1+w.rng.IntN(20)), "", true)
	add("changing", w.bucket(), "", false)
	add("log", w.window("log"), "", false)
	add("named", w.bucket(), "bucket", false)
	add("adaptive", "1:20", adaptive, true)
	if w.o.Backwards {
		return
	}
	for _, kind := range []string{"fixed", "fixed-aligned", "sliding"} {
		if w.o.Tolerate && kind == "fixed" {
			continue // once windows differ they go on differing, though no more is admitted in any
		}
		add(kind, w.window(kind), "", false)
		add("named:"+kind, w.window(kind), kind, false)
	}
	add("switching", w.bucket(), "switching", false)
}

func (w *world) bucket() string {
	return fmt.Sprintf("%d.%d:%d", w.rng.IntN(40), 1+w.rng.IntN(9), 1+w.rng.IntN(1<<w.rng.IntN(9)))
}

func (w *world) window(kind string) string {
	return fmt.Sprintf("%s:%d/%dms", kind, 1+w.rng.IntN(40), 1+w.rng.IntN(1<<(1+w.rng.IntN(17))))
}

// makeLimits makes the named limits, and waits as their caller does.
func (w *world) makeLimits() error {
	round := uint64(0)
	for _, k := range w.keys {
		if k.named == "" {
			continue
		}
		n := shard.NamedLimit{Name: k.named, Limit: k.lim}
		if k.named == adaptive {
			if err := n.Parse([]byte("adaptive:1..50:20:1s")); err != nil {
				return err
			}
		}
		var err error
		if round, err = w.store.Limits().SetNamed(n); err != nil {
			return err
		}
	}
	for w.disk.Ask(round); w.disk.Durable() < round; { // nothing is lost before there is something
		if err := w.disk.Write(w.rng); err != nil {
			return err
		}
	}
	return nil
}

// limit is what a call on the key is under now, and until when callers are kept
// away.
func (w *world) limit(k *key) (lim engine.Limit, until int64) {
	if k.named == "" {
		return k.lim, 0
	}
	lim, ok := w.store.Limits().Resolve([]byte(k.named))
	if !ok {
		panic("a limit that was durable is gone: " + k.named)
	}
	return lim, w.store.Limits().PausedUntil(k.named)
}

// changeLimit changes what callers say, or what the name means.
func (w *world) changeLimit(k *key) {
	if k.constant {
		return
	}
	lim := k.lim
	other := parse(w.window("sliding"))
	switch {
	case k.named == "switching":
		lim = parse([]string{w.bucket(), w.window("sliding"), w.window("fixed-aligned")}[w.rng.IntN(3)])
	case lim.Algorithm == engine.Bucket:
		lim = parse(w.bucket())
	default:
		if !w.o.Drain || other.Capacity > lim.Capacity { // a drained window was full at the limit of the call
			lim.Capacity = other.Capacity
		}
		// What has left a short window is back in a long one, unless a refund or a penalty came between that did something.
		if !w.o.Refunds && !w.o.Penalties {
			lim.Window = other.Window
		}
	}
	k.lim = lim
	if k.named == "" {
		return
	}
	round, err := w.store.Limits().SetNamed(shard.NamedLimit{Name: k.named, Limit: lim})
	if err != nil {
		panic(err)
	}
	w.disk.Ask(round)
}

// feedback reports to the adaptive limit.
func (w *world) feedback() {
	ok, wait := w.rng.IntN(3) > 0, int64(0)
	if !ok {
		wait = w.rng.Int64N(2) * w.rng.Int64N(300)
	}
	_, due, err := w.store.Limits().Feedback([]byte(adaptive), ok, wait, w.clock)
	if err != nil {
		panic(err)
	}
	if due > 0 {
		w.disk.Ask(due)
	}
}
