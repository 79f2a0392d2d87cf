package engine

import (
	"bytes"
	"fmt"
	"testing"
)

// blocks are those that the laws are tried with.
var blocks = []Block{DefaultBlock, {Least: 1}, {Part: 1}, {Part: 2, Time: 1000}, {Time: maxPeriod}}

// TestLawAhead: what is made of a state ahead never allows what would not be allowed on any of the states that it covers, whatever comes after, at
// whatever times and limits.
func TestLawAhead(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, a Algorithm) {
		covered := 0
		for seed := range 4 * walks() {
			w := newWalker(t, a, seed)
			for range 1 + w.IntN(6) {
				w.step()
				w.disturb()
			}
			block := blocks[w.IntN(len(blocks))]
			held, ok := Ahead([]byte("x"), w.value, block)
			if !ok {
				continue
			}
			held = held[1:]
			for range 8 {
				w.checkCovered(held, block)
				w.checkCrash(held)
				covered++
				w.step()
				w.use()
				if ok, _ := Covers(held, w.value, block); !ok {
					break
				}
			}
		}
		if a != Log && covered < walks() {
			t.Errorf("%d states were covered", covered)
		}
	})
}

// TestCovers is what a state ahead covers and what not, where chance seldom comes.
func TestCovers(t *testing.T) {
	type step struct{ at, cost, refund int64 }
	for _, c := range []struct {
		what, limit    string
		held, then     []step // then follows what is held
		covered, loose bool
	}{
		{"itself", "10:80", []step{{0, 1, 0}}, nil, true, false},
		{"the block", "10:80", []step{{0, 1, 0}}, []step{{0, 10, 0}}, true, false},
		{"more than the block", "10:80", []step{{0, 1, 0}}, []step{{0, 11, 0}}, false, false},
		{"time refills both", "10:80", []step{{0, 80, 0}}, []step{{1000, 10, 0}, {2000, 10, 0}}, false, false},
		{"half a block, refilled", "10:80", []step{{0, 80, 0}}, []step{{1000, 5, 0}, {1500, 5, 0}}, true, false},
		{"a refund is more than a block", "10:80", []step{{0, 40, 0}}, []step{{0, 0, 1}}, true, true},
		{"full, and was before", "10:80", []step{{0, 1, 0}}, []step{{9000, 1, 0}, {9000, 0, 1}}, false, false},
		{"a fixed window's block", "fixed:80/1m", []step{{0, 1, 0}}, []step{{30_000, 10, 0}}, true, false},
		{"more than that", "fixed:80/1m", []step{{0, 1, 0}}, []step{{30_000, 11, 0}}, false, false},
		{"the next window", "fixed:80/1m", []step{{0, 1, 0}}, []step{{60_000, 1, 0}}, false, false},
		{"a window closed", "fixed:80/1m", []step{{0, 1, 0}}, []step{{10_000, 0, 1}}, false, false},
		{"another one opened", "fixed:80/1m", []step{{0, 1, 0}}, []step{{10_000, 0, 1}, {10_000, 1, 0}}, false, false},
		{"an aligned window closed", "fixed-aligned:80/1m", []step{{0, 1, 0}}, []step{{10_000, 0, 1}}, false, false},
		{"a sliding window's block", "sliding:80/1m", []step{{0, 1, 0}}, []step{{39_999, 10, 0}}, true, false},
		{"the previous one refunded", "sliding:80/1m", []step{{0, 60, 0}, {50_000, 1, 0}}, []step{{50_000, 0, 60}}, true, true},
		{"the next sliding window", "sliding:80/1m", []step{{0, 1, 0}}, []step{{40_000, 1, 0}}, false, false},
	} {
		lim := must(t, c.limit)
		var value []byte
		play := func(steps []step) {
			for _, s := range steps {
				out, _, err := Acquire(nil, lim, value, rowsEpoch+s.at, Op{Cost: s.cost})
				if s.refund > 0 {
					out, _, err = Refund(nil, value, s.refund, rowsEpoch+s.at)
				}
				if err != nil || out == nil {
					t.Fatal(c.what, s, err)
				}
				value = out
			}
		}
		play(c.held)
		held, ok := Ahead(nil, value, DefaultBlock)
		if !ok {
			t.Fatal(c.what)
		}
		play(c.then)
		if covered, loose := Covers(held, value, DefaultBlock); covered != c.covered || loose != c.loose {
			t.Errorf("%s: %v, %v, want %v, %v: %x is held for %x", c.what, covered, loose, c.covered, c.loose, held, value)
		}
	}
}

// TestUncertain: where a state ahead may have been used later than it says, what comes after is no earlier.
func TestUncertain(t *testing.T) {
	lim := must(t, "10:20")
	value, _, err := Acquire(nil, lim, nil, 1000, Op{Cost: 20})
	if err != nil {
		t.Fatal(err)
	}
	held, _ := Ahead(nil, value, DefaultBlock)
	if held, err = Rebase(nil, held, 3000); err != nil {
		t.Fatal(err)
	}
	// It has -2 tokens at 1000 ms and may have been used up to 3000.
	at := func(now int64, out []byte, d Decision, err error) Info {
		t.Helper()
		info, failed := Inspect(out)
		if err != nil || failed != nil || d.ResetAfter < 0 {
			t.Fatal(now, err, failed)
		}
		return info
	}
	out, d, err := Penalize(nil, lim, held, 50, 2000)
	if info := at(2000, out, d, err); info.BlockedUntil != 3050 || info.TS != 2000 || d.RetryAfter != 1050 {
		t.Errorf("a penalty: %+v, %+v", info, d)
	}
	out, d, err = Refund(nil, out, 7, 2500)
	if info := at(2500, out, d, err); info.BlockedUntil != 3050 || info.TS != 3000 || info.Tokens != "20" || d.ResetAfter != 550 {
		t.Errorf("a refund: %+v, %+v", info, d)
	}
	out, d, err = Refund(nil, held, 1, 2500)
	if info := at(2500, out, d, err); info.TS != 3000 || info.Tokens != "14" || IsAhead(out) {
		t.Errorf("a refund of one: %+v, %+v, %x", info, d, out)
	}
	// At a tenth of the rate nothing but the time at it counts, at ten times the rate only a tenth of that before it was certain.
	out, d, err = Acquire(nil, must(t, "1:20"), held, 4000, Op{Cost: 1})
	if info := at(4000, out, d, err); info.Tokens != "0" || IsAhead(out) {
		t.Errorf("a lower rate: %+v, %+v, %x", info, d, out)
	}
	if d, err := Peek(must(t, "100:200"), held, 2000, 19); err != nil || d.Allowed != 0 || d.RetryAfter != 1110 {
		t.Errorf("a higher rate: %+v, %v", d, err)
	}
	if d, err := Peek(must(t, "100:200"), held, 3010, 22); err != nil || d.Allowed != 0 || d.RetryAfter != 30 {
		t.Errorf("a higher rate, later: %+v, %v", d, err)
	}
	if reset := ResetUnder(must(t, "100:200"), held, 3000); reset != 1820 {
		t.Errorf("full at a higher rate in %d ms", reset)
	}
}

// use changes the state as callers do, mostly at the limit it has.
func (w *walker) use() {
	if w.IntN(6) == 0 {
		w.disturb()
		return
	}
	out, _, err := Acquire(nil, w.lim, w.value, w.now, w.op())
	w.keep(out, err)
}

// checkCovered: a state ahead is like any other, and covers itself.
func (w *walker) checkCovered(held []byte, block Block) {
	w.t.Helper()
	again, err := Rebase(nil, held, MaxNow)
	if err != nil || !bytes.Equal(again, held) {
		w.t.Fatalf("%x is rebased to %x, %v", held, again, err)
	}
	if string(Name(held)) != string(Name(w.value)) {
		w.t.Fatalf("%x has the name %q, %x %q", held, Name(held), w.value, Name(w.value))
	}
	if info, _ := Inspect(held); IsAhead(held) == (info.TS == MaxNow) {
		w.t.Fatalf("%x is not marked", held)
	}
	if ok, _ := Covers(held, w.value, block); !ok {
		w.t.Fatalf("%x does not cover %x", held, w.value)
	}
}

// checkCrash forgets a state and goes on with the one that is ahead of it.
func (w *walker) checkCrash(held []byte) {
	w.t.Helper()
	truth, err := Inspect(w.value)
	if err != nil {
		w.t.Fatal(err)
	}
	clock := truth.TS
	if w.IntN(2) == 0 {
		clock = min(clock+w.Int64N(10_000), MaxNow-1)
	}
	after, err := Rebase(nil, held, clock)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &crash{walker: &walker{Rand: w.Rand, t: w.t, lim: w.lim, value: after, now: w.now}, truth: w.value}
	c.story = fmt.Sprintf("%v: %x held for %x, clock %d", w.lim, held, w.value, clock)
	for range 12 {
		c.step()
		c.call()
	}
}

// A crash is what came after one: the walker's value is what was loaded.
type crash struct {
	*walker
	truth []byte // what would be there without the crash
	story string
}

func (c *crash) call() {
	c.t.Helper()
	if c.IntN(4) == 0 {
		c.lim = c.limit(c.lim.Algorithm)
	}
	n := c.cost()
	switch c.IntN(8) {
	case 0:
		if c.lim.Algorithm == Fixed {
			return // an empty window is none, and then the two have different ones
		}
		c.story += fmt.Sprintf("\nrefund of %d at %d", n, c.now)
		c.both(func(value []byte) ([]byte, error) {
			out, _, err := RefundUnder(nil, c.lim, value, n, c.now)
			return out, err
		})
		return
	case 1:
		if c.lim.Algorithm == Fixed { // a window that is over sooner than the one it was in would be another one, too
			stored, err := StoredLimit(c.value)
			if err != nil {
				c.t.Fatal(err)
			}
			c.lim = stored
		}
		c.story += fmt.Sprintf("\npenalty of %d under %v at %d", n%5000, c.lim, c.now)
		c.both(func(value []byte) ([]byte, error) {
			out, _, err := Penalize(nil, c.lim, value, n%5000, c.now)
			return out, err
		})
		return
	}
	op := c.op()
	out, d, err := Acquire(nil, c.lim, c.value, c.now, op)
	c.story += fmt.Sprintf("\n%+v under %v at %d on %x: %+v", op, c.lim, c.now, c.value, d)
	if err == nil {
		c.checkSuffices(op, out, d)
	}
	if out == nil {
		return
	}
	if op.Partial {
		op = Op{Cost: d.Allowed}
	}
	truth, want, err := Acquire(nil, c.lim, c.truth, c.now, op)
	if err != nil || d.Allowed > 0 && want.Allowed == 0 || want.RetryAfter > d.RetryAfter {
		c.t.Fatalf("%s\nbut on %x it is %+v, %v", c.story, c.truth, want, err)
	}
	c.value, c.truth = out, truth
}

// both makes a change of both states, if it can be made of the one that was loaded.
func (c *crash) both(change func(value []byte) ([]byte, error)) {
	c.t.Helper()
	out, err := change(c.value)
	if err != nil {
		return
	}
	truth, err := change(c.truth)
	if err != nil {
		c.t.Fatalf("%s\non %x: %v", c.story, c.truth, err)
	}
	if out != nil {
		c.value = out
	}
	switch {
	case truth != nil:
		c.truth = truth
	case out != nil: // nothing was missing there: as little as a look
		var e call
		if err := e.open(&c.lim, c.truth, c.now, &Op{}); err != nil {
			c.t.Fatal(err)
		}
		c.truth = appendEntry(nil, &e.entry)
	}
}

// checkSuffices: who waits retry_after is let in, also where the wait was told by a state ahead.
func (c *crash) checkSuffices(op Op, out []byte, d Decision) {
	c.t.Helper()
	if out != nil || op.Force || d.RetryAfter <= 0 || d.RetryAfter > MaxNow-c.now {
		return
	}
	_, again, err := Acquire(nil, c.lim, c.value, c.now+d.RetryAfter, op)
	if _, tooLarge := err.(*RangeError); again.Allowed == 0 && !tooLarge {
		c.t.Fatalf("%s\nand that long after %+v, %v", c.story, again, err)
	}
}
