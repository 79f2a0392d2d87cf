package shard

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlserver/rlserver/engine"
)

// bucketValue is a bucket's bytes at now from which tokens of 100, refilled at
// one a second, are missing; it is idle when they are back.
func bucketValue(t testing.TB, now, missing int64) (value []byte, reset int64) {
	t.Helper()
	lim, err := engine.ParseLimit([]byte("1"), []byte("100"))
	if err != nil {
		t.Fatal(err)
	}
	value, d, err := engine.Acquire(nil, lim, nil, now, engine.Op{Cost: missing})
	if err != nil {
		t.Fatal(err)
	}
	return value, d.ResetAfter
}

// A world is a store, a plain map that must agree with it, and two followers
// that hear of its changes.
type world struct {
	t         *testing.T
	rng       *rand.Rand
	store     *Store
	clock     int64
	model     map[string]Entry
	followers []*follower
}

// A follower replays a feed. want is the model at the cut of the round.
type follower struct {
	feed  *Feed
	state map[string]Entry
	round *Round
	want  map[string]Entry
}

func newWorld(t *testing.T, seed uint64, feeds int, c Config) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), store: New(c), clock: 1_000_000, model: map[string]Entry{}}
	for range feeds {
		w.followers = append(w.followers, &follower{feed: w.store.NewFeed(), state: map[string]Entry{}})
	}
	return w
}

// live is the entry of a key as a command may see it.
func (w *world) live(key string) (Entry, bool) {
	e, ok := w.model[key]
	if ok && e.Deadline <= w.clock && !w.store.keepExpired && engine.Reset(e.Value, w.clock) == 0 {
		return Entry{}, false
	}
	return e, ok
}

func (w *world) key() []byte {
	n := w.rng.IntN(2000)
	if n%50 == 0 {
		return fmt.Appendf(nil, "%d:%0*d", n, n/2, 0)
	}
	return fmt.Appendf(nil, "key:%d", n)
}

// value is arbitrary bytes, never idle, or a bucket that soon will be.
func (w *world) value() (value []byte, reset int64) {
	switch w.rng.IntN(20) {
	case 0:
		value = make([]byte, w.rng.IntN(4000))
	case 1, 2, 3, 4, 5, 6, 7:
		value = make([]byte, w.rng.IntN(40))
	default:
		return bucketValue(w.t, w.clock-1000+w.rng.Int64N(1000), 1+w.rng.Int64N(100))
	}
	for i := range value {
		value[i] = 0xf0 | byte(w.rng.IntN(16)) // no algorithm has this number
	}
	return value, w.rng.Int64N(100_000)
}

func (w *world) step() {
	switch n := w.rng.IntN(1000); {
	case n < 940:
		w.command()
	case n < 970:
		w.clock += w.rng.Int64N(2000)
	case n < 972:
		w.sweep()
	case n < 973:
		if _, dropped := w.store.Clear(); dropped != len(w.model) {
			w.t.Fatalf("Clear dropped %d of %d", dropped, len(w.model))
		}
		w.model = map[string]Entry{}
	case n < 975:
		w.each()
	default:
		for _, f := range w.followers {
			if w.rng.IntN(2) == 0 {
				w.follow(f)
			}
		}
	}
}

// command is one Tx over one to three keys.
func (w *world) command() {
	keys := [][]byte{w.key(), w.key(), w.key()}[:1+w.rng.IntN(3)]
	tx := w.store.Lock(w.clock, keys...)
	changed := false
	for range 1 + w.rng.IntN(4) {
		key := keys[w.rng.IntN(len(keys))]
		want, ok := w.live(string(key))
		got, found := tx.Get(key)
		if found != ok || !same(got, want) {
			w.t.Fatalf("Get(%.20q) = %v %v, want %v %v", key, found, got, ok, want)
		}
		switch op := w.rng.IntN(10); {
		case op < 2:
			if tx.Delete(key) != ok {
				w.t.Fatalf("Delete(%.20q) = %v", key, !ok)
			}
			if ok {
				delete(w.model, string(key))
				changed = true
			}
		case op < 7:
			value, reset := w.value()
			if ok && op == 2 {
				value = got.Value // the store's own bytes
			}
			kind := byte(1 + w.rng.IntN(4))
			stored := Entry{kind, bytes.Clone(value), min(w.clock+reset+w.store.grace, MaxDeadline)}
			tx.Put(key, kind, value, reset)
			w.model[string(key)] = stored
			changed = true
		}
	}
	if tx.Changed() != changed {
		w.t.Fatalf("Changed() = %v", !changed)
	}
	defer tx.Unlock()
	if len(w.followers) > 0 && tx.Round() != w.followers[0].feed.Round() {
		w.t.Fatalf("Round() = %d in round %d", tx.Round(), w.followers[0].feed.Round())
	}
}

func (w *world) sweep() {
	want := 0
	if !w.store.keepExpired {
		for key, e := range w.model {
			if e.Deadline > w.clock {
				continue
			}
			if reset := engine.Reset(e.Value, w.clock); reset == 0 {
				delete(w.model, key)
				want++
			} else {
				e.Deadline = w.store.deadline(w.clock, reset)
				w.model[key] = e
			}
		}
	}
	if n, done := w.store.Sweep(w.clock, time.Hour); n != want || !done {
		w.t.Fatalf("Sweep dropped %d, %v, want %d", n, done, want)
	}
}

func (w *world) each() {
	got := map[string]Entry{}
	w.store.Each(func(batch []Change) bool {
		if len(batch) > holdEntries {
			w.t.Fatalf("Each told %d entries at once", len(batch))
		}
		for _, c := range batch {
			got[string(c.Key)] = Entry{c.Kind, bytes.Clone(c.Value), c.Deadline}
		}
		return true
	})
	w.compareTold("Each", got, w.model)
	if n := w.store.Len(); n != len(w.model) {
		w.t.Fatalf("Len() = %d, want %d", n, len(w.model))
	}
}

// follow cuts a round, or hears some of the one at hand; at its end the replay
// must be what the store was at the cut.
func (w *world) follow(f *follower) {
	if f.round == nil {
		number := f.feed.Round()
		f.round, f.want = f.feed.Cut(), maps.Clone(w.model)
		if f.round.Number != number || f.feed.Round() != number+1 {
			w.t.Fatalf("cut round %d, was in %d, now in %d", f.round.Number, number, f.feed.Round())
		}
		if f.round.Cleared {
			clear(f.state)
		}
		return
	}
	batch := f.round.Next(1 + w.rng.IntN(700))
	replay(f.state, batch)
	if batch == nil {
		w.compareFollower(f, "replay", f.want)
		f.round = nil
	}
}

func (w *world) compareFollower(f *follower, what string, want map[string]Entry) {
	w.t.Helper()
	if f.feed.n == 0 {
		w.compareTold(what, f.state, want)
	} else {
		w.compare(what, f.state, want)
	}
}

func replay(state map[string]Entry, batch []Change) {
	for _, c := range batch {
		if c.Kind == 0 {
			delete(state, string(c.Key))
		} else {
			state[string(c.Key)] = Entry{c.Kind, bytes.Clone(c.Value), c.Deadline}
		}
	}
}

func same(a, b Entry) bool {
	return a.Kind == b.Kind && a.Deadline == b.Deadline && bytes.Equal(a.Value, b.Value)
}

// sameAhead is same where what is told may be ahead of what there is, and may
// have come with an earlier deadline.
func sameAhead(told, is Entry) bool {
	covered, _ := engine.Covers(told.Value, is.Value, engine.DefaultBlock)
	return told.Kind == is.Kind && (covered || bytes.Equal(told.Value, is.Value))
}

func (w *world) compare(what string, got, want map[string]Entry) {
	w.t.Helper()
	w.compareBy(same, what, got, want)
}

// compareTold is compare for what the first feed is told.
func (w *world) compareTold(what string, got, want map[string]Entry) {
	w.t.Helper()
	if w.store.promise == Ahead && w.store.feeds[0] != nil {
		w.compareBy(sameAhead, what, got, want)
	} else {
		w.compare(what, got, want)
	}
}

func (w *world) compareBy(same func(a, b Entry) bool, what string, got, want map[string]Entry) {
	w.t.Helper()
	for key, e := range want {
		if g, ok := got[key]; !ok || !same(g, e) {
			w.t.Fatalf("%s: key %.20q is %v %v, want %v", what, key, ok, g, e)
		}
	}
	if len(got) != len(want) {
		w.t.Fatalf("%s has %d keys, want %d", what, len(got), len(want))
	}
}

// The store agrees with a plain map, and the replay of its rounds with that map
// at each cut, through random commands, sweeps, clears and drains.
func TestModel(t *testing.T) {
	steps := 30_000
	if testing.Short() || raceEnabled {
		steps = 5_000
	}
	for seed, c := range []Config{
		{Shards: 1, Grace: 3000},
		{Shards: 4},
		{Shards: 32, Grace: 100},
		{Shards: 2, KeepExpired: true},
		{Shards: 4, Grace: 100, Promise: Ahead, Block: engine.DefaultBlock},
		{Shards: 4, Promise: Ahead, Block: engine.Block{Part: 1}},
	} {
		for feeds := range 3 {
			t.Run(fmt.Sprintf("%d shards, %d feeds, keep %v, promise %d", c.Shards, feeds, c.KeepExpired, c.Promise), func(t *testing.T) {
				w := newWorld(t, uint64(seed), feeds, c)
				for i := range steps {
					w.step()
					if i%2000 == 0 {
						check(t, w.store)
					}
				}
				for _, f := range w.followers {
					for range 2 { // the round at hand, and one more that holds the rest
						w.follow(f)
						for f.round != nil {
							w.follow(f)
						}
					}
					w.compareFollower(f, "last replay", w.model)
				}
				check(t, w.store)
				w.each()
			})
		}
	}
}
