package shard

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/rlserver/rlserver/engine"
)

// heldAt is when the tests of this file take place, Unix ms.
const heldAt = 1_700_000_000_000

// A reserve is a store that promises Ahead, and what its two feeds have told.
type reserve struct {
	t      *testing.T
	store  *Store
	feeds  [2]*Feed
	told   [2]map[string]Entry
	rounds [2]map[string]Entry // only those of the last round
}

func newReserve(t *testing.T, block engine.Block) *reserve {
	r := &reserve{t: t, store: New(Config{Shards: 1, Promise: Ahead, Block: block})}
	for n := range r.feeds {
		r.feeds[n], r.told[n] = r.store.NewFeed(), map[string]Entry{}
	}
	return r
}

// take debits at ms after heldAt, gives back if cost is negative, and returns
// the round that the reply waits for.
func (r *reserve) take(key, expr string, at, cost int64) (due uint64) {
	r.t.Helper()
	lim, err := engine.ParseExpression([]byte(expr))
	if err != nil {
		r.t.Fatal(err)
	}
	tx := r.store.Lock(heldAt+at, []byte(key))
	defer tx.Unlock()
	e, _ := tx.Get([]byte(key))
	out, d, err := []byte(nil), engine.Decision{}, error(nil)
	if cost < 0 {
		out, d, err = engine.RefundUnder(nil, lim, e.Value, -cost, heldAt+at)
	} else {
		out, d, err = engine.Acquire(nil, lim, e.Value, heldAt+at, engine.Op{Cost: cost})
	}
	if err != nil || out == nil {
		r.t.Fatalf("%d from %s of %s: %+v, %v", cost, key, expr, d, err)
	}
	tx.Put([]byte(key), byte(lim.Algorithm), out, d.ResetAfter)
	return tx.Due()
}

// cut has both feeds tell a round.
func (r *reserve) cut() {
	for n, f := range r.feeds {
		r.rounds[n] = map[string]Entry{}
		round := f.Cut()
		for batch := round.Next(1000); batch != nil; batch = round.Next(1000) {
			replay(r.told[n], batch)
			replay(r.rounds[n], batch)
		}
	}
}

// tokens is what is left by the last round told to a feed, "" if it had nothing
// of the key.
func (r *reserve) tokens(feed int, key string) string {
	e, ok := r.rounds[feed][key]
	if !ok {
		return ""
	}
	info, err := engine.Inspect(e.Value)
	if err != nil {
		r.t.Fatal(err)
	}
	if info.Limit.Algorithm == engine.Bucket {
		return info.Tokens
	}
	return fmt.Sprint(info.Limit.Capacity - info.Used)
}

// A debit within what is held waits for the round that holds it and is not told
// to a disk again; any other waits for its own.
func TestHeld(t *testing.T) {
	r := newReserve(t, engine.DefaultBlock)
	round := uint64(1)
	for _, c := range []struct {
		key, limit string
		at, cost   int64
		due        uint64
		disk, peer string // what a round cut then tells; "-": none is cut
	}{
		{"a", "1/1h:80", 0, 1, 1, "-", "-"},
		{"a", "1/1h:80", 0, 10, 1, "-", "-"}, // in the block, that is not on disk yet
		{"a", "1/1h:80", 0, 5, 1, "54", "64"},
		{"a", "1/1h:80", 0, 10, 1, "", "54"},
		{"a", "1/1h:80", 0, 1, 3, "43", "53"}, // the block is used up
		{"a", "1/1h:80", 0, -9, 3, "52", "62"},
		{"a", "1/1h:80", 0, 10, 3, "", "52"}, // what a disk has is one of two, and both cover it
		{"a", "1/1h:80", 0, 1, 6, "41", "51"},
		{"a", "2/1h:80", 0, 1, 7, "40", "50"}, // another limit
		{"a", "2/1h:80", 7_200_000, 5, 7, "", "49"},
		{"b", "fixed:8/1m", 0, 1, 9, "6", "7"},
		{"b", "fixed:8/1m", 1, 1, 9, "", "6"},
		{"b", "fixed:8/1m", 1, 1, 11, "4", "5"},
		{"b", "fixed:8/1m", 60_000, 1, 12, "6", "7"}, // another window
		{"c", "log:8/1m", 0, 1, 13, "7", "7"},
		{"c", "log:8/1m", 0, 1, 14, "6", "6"},
		{"d", "1/1h:1", 0, 1, 15, "-1", "0"}, // into debt
		{"e", "1000000000:1", 0, 1, 16, "-100000000", "0"},
		{"f", "sliding:80/1m", 0, 60, 17, "10", "20"},
		{"f", "sliding:80/1m", 50_000, 1, 18, "19", "29"},
		{"f", "sliding:80/1m", 50_000, 5, 18, "", "24"},
		{"f", "sliding:80/1m", 50_000, -60, 18, "", "74"}, // all of the window before, and a block of this one would be less than on disk
		{"f", "sliding:80/1m", 50_000, 8, 21, "56", "66"},
	} {
		if due := r.take(c.key, c.limit, c.at, c.cost); due != c.due {
			t.Errorf("%d from %s at %d waits for round %d, want %d", c.cost, c.limit, c.at, due, c.due)
		}
		check(t, r.store)
		if c.disk == "-" {
			continue
		}
		r.cut()
		round++
		if disk, peer := r.tokens(0, c.key), r.tokens(1, c.key); disk != c.disk || peer != c.peer {
			t.Errorf("%d from %s at %d: round %d tells a disk %q, a peer %q, want %q, %q", c.cost, c.limit, c.at, round-1, disk, peer, c.disk, c.peer)
		}
	}
}

// A value that outgrows its slot takes along what is held, and what rounds are
// yet to tell of it.
func TestHeldMoves(t *testing.T) {
	for _, between := range []bool{false, true} {
		moved := 0
		for n := range 8 {
			r := newReserve(t, engine.DefaultBlock)
			key := strings.Repeat("k", 1+n)
			r.take(key, "10:80", 0, 80)
			if between {
				r.cut()
			}
			at := func() ref {
				tx := r.store.Lock(heldAt, []byte(key))
				defer tx.Unlock()
				tx.seek([]byte(key))
				return tx.at.ref
			}
			before := at()
			if due := r.take(key, "10:80", 5000, 1); due != 1 { // of 50 tokens
				t.Errorf("it waits for round %d", due)
			}
			if at() != before {
				moved++
			}
			check(t, r.store)
			r.cut()
			disk, err := engine.Inspect(r.told[0][key].Value)
			if err != nil || disk.Tokens != "-10" {
				t.Errorf("a disk was told %s, %v", disk.Tokens, err)
			}
			if got := r.tokens(1, key); got != "49" {
				t.Errorf("a peer was told %q", got)
			}
			check(t, r.store)
		}
		if moved == 0 {
			t.Error("none moved")
		}
	}
}

// A key that is made again holds anew: what a disk has of it is not known.
func TestHeldMadeAgain(t *testing.T) {
	r := newReserve(t, engine.DefaultBlock)
	r.take("a", "1/1h:80", 0, 1)
	r.cut()
	tx := r.store.Lock(heldAt, []byte("a"))
	tx.Delete([]byte("a"))
	if due := tx.Due(); due != 0 {
		t.Errorf("a deletion waits for round %d", due)
	}
	tx.Unlock()
	if due := r.take("a", "1/1h:80", 0, 5); due != 2 {
		t.Errorf("the key made again waits for round %d, want 2", due)
	}
	r.cut()
	if got := r.tokens(0, "a"); got != "65" {
		t.Error("told", got)
	}
	r.store.Clear()
	if due := r.take("a", "1/1h:80", 0, 6); due != 3 {
		t.Errorf("the key made after a clear waits for round %d, want 3", due)
	}
	check(t, r.store)
}

// All that one Tx does waits for the latest round of it.
func TestHeldDue(t *testing.T) {
	r := newReserve(t, engine.DefaultBlock)
	lim := func(expr string) engine.Limit {
		l, err := engine.ParseExpression([]byte(expr))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	r.take("a", "1/1h:80", 0, 1)
	r.cut()
	r.take("b", "1/1h:80", 0, 1)
	for _, c := range []struct {
		keys []string
		due  uint64
	}{{[]string{"a"}, 1}, {[]string{"a", "b"}, 2}, {[]string{"b", "a"}, 2}, {[]string{"a"}, 1}} {
		var keys [][]byte
		for _, k := range c.keys {
			keys = append(keys, []byte(k))
		}
		tx := r.store.Lock(heldAt, keys...)
		for _, k := range keys {
			e, _ := tx.Get(k)
			out, d, err := engine.Acquire(nil, lim("1/1h:80"), e.Value, heldAt, engine.Op{Cost: 1})
			if err != nil {
				t.Fatal(err)
			}
			tx.Put(k, e.Kind, out, d.ResetAfter)
		}
		if due := tx.Due(); due != c.due {
			t.Errorf("%q waits for round %d, want %d", c.keys, due, c.due)
		}
		tx.Unlock()
	}
	tx := r.store.LockAll(heldAt)
	defer tx.Unlock()
	if err := tx.SetLimit(NamedLimit{Name: "n", Limit: lim("1:2")}); err != nil || tx.Due() != 2 {
		t.Error(tx.Due(), err)
	}
}

// Settle has a disk hold every entry as it is, what lies in a round that is
// being told included.
func TestSettle(t *testing.T) {
	r := newReserve(t, engine.DefaultBlock)
	want := map[string]string{}
	for i := range 1000 {
		key := fmt.Sprintf("key:%d", i)
		r.take(key, "1/1h:80", 0, int64(1+i%50))
		want[key] = fmt.Sprint(79 - i%50)
	}
	round := r.feeds[0].Cut()
	replay(r.told[0], round.Next(300))
	r.store.Settle()
	check(t, r.store)
	for batch := round.Next(1000); batch != nil; batch = round.Next(1000) {
		replay(r.told[0], batch)
	}
	for key, e := range r.told[0] {
		if !engine.IsAhead(e.Value) {
			t.Fatalf("%s was told as it is by a round cut before", key)
		}
	}
	r.cut()
	for key, tokens := range want {
		if got := r.tokens(0, key); got != tokens {
			t.Errorf("%s is told with %q tokens, want %s", key, got, tokens)
		}
	}
	r.take("key:1", "1/1h:80", 0, 1)
	r.cut()
	if got := r.tokens(0, "key:1"); got != "67" {
		t.Errorf("a put after that is told with %q tokens", got)
	}
	check(t, r.store)
}

// A state that is ahead is loaded as it is, and no feed hears of it.
func TestLoadAhead(t *testing.T) {
	r := newReserve(t, engine.DefaultBlock)
	r.take("a", "1/1h:80", 0, 1)
	r.cut()
	on := r.told[0]["a"]
	s := New(Config{Promise: Ahead, Block: engine.DefaultBlock})
	f := s.NewFeed()
	if kept, err := load(s, heldAt+5000, heldAt+6000, Change{Key: []byte("a"), Kind: on.Kind, Value: on.Value}); err != nil || !kept {
		t.Fatal(kept, err)
	}
	tx := s.Lock(heldAt+5000, []byte("a"))
	e, _ := tx.Get([]byte("a"))
	if want, _ := engine.Rebase(nil, on.Value, heldAt+6000); !bytes.Equal(e.Value, want) || !engine.IsAhead(e.Value) {
		t.Errorf("loaded as %x, want %x", e.Value, want)
	}
	tx.Unlock()
	if batch := f.Cut().Next(10); batch != nil {
		t.Errorf("told %v", batch)
	}
}

// Other promises cost no byte.
func TestHeldCostsOthersNothing(t *testing.T) {
	for _, promise := range []Promise{Nothing, Changes} {
		s := New(Config{Promise: promise, Block: engine.DefaultBlock})
		s.NewFeed()
		key := []byte("key")
		value, reset := bucketValue(t, heldAt, 5)
		tx := s.Lock(heldAt, key)
		for range 2 {
			tx.Put(key, 1, value, reset)
			if rec := tx.shard.table.arena.at(tx.at.ref); rec.size() != headerBytes+len(key)+len(value) {
				t.Errorf("promise %d: a record of %d bytes", promise, rec.size())
			}
		}
		tx.Unlock()
	}
}
