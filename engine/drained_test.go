package engine

import (
	"bytes"
	"testing"
)

// TestDrained is a few states that can be checked by hand.
func TestDrained(t *testing.T) {
	for _, c := range []struct {
		limit    string
		used, at int64 // ms after rowsEpoch; 0 used: absent
		wait     int64 // of a call at rowsEpoch
		then     int64 // left at the end of the wait, with the call not made
	}{
		{"10:20", 0, 0, 100, 1},
		{"10:20", 0, 2000, 2100, 1},
		{"10:20", 5, 2000, 2100, 1},
		{"fixed:5/1m", 0, 1000, 61_000, 5},
		{"fixed:5/1m", 2, 1000, 61_000, 5},
		{"fixed-aligned:5/1m", 0, 1000, 40_000, 5}, // rowsEpoch is 20 s into a minute
		{"sliding:5/1m", 0, 1000, 52_000, 1},       // 40 s to the next minute, and a fifth of it
		{"log:5/1m", 3, 1000, 61_000, 5},
	} {
		lim := must(t, c.limit)
		var old []byte
		if c.used > 0 {
			var err error
			if old, _, err = Acquire(nil, lim, nil, rowsEpoch, Op{Cost: c.used}); err != nil {
				t.Fatal(err)
			}
		}
		out, err := Drained([]byte("x"), lim, old, rowsEpoch+c.at)
		if err != nil {
			t.Fatal(c.limit, err)
		}
		out = out[1:]
		if again, err := Rebase(nil, out, MaxNow); err != nil || !bytes.Equal(again, out) {
			t.Errorf("%s: %x is rebased to %x, %v", c.limit, out, again, err)
		}
		d, err := Peek(lim, out, rowsEpoch, 1)
		if err != nil || d.Allowed != 0 || d.RetryAfter != c.wait || d.Remaining != 0 {
			t.Errorf("%s with %d used, drained at %d: %+v, %v", c.limit, c.used, c.at, d, err)
		}
		if d, err := Peek(lim, out, rowsEpoch+c.wait, 1); err != nil || d.Allowed != 1 || d.Remaining != c.then {
			t.Errorf("%s with %d used, drained at %d: %+v, %v after the wait", c.limit, c.used, c.at, d, err)
		}
	}
	for at, want := range map[int64]bool{rowsEpoch - 1: false, rowsEpoch: false, rowsEpoch + 1: true, -1: false} {
		if got := Untouched([]byte("\x10\x80\xd0\x95\xff\xbc\x31\x01\x64\x14\x00"), at); got != want {
			t.Errorf("untouched at %d: %v", at, got)
		}
	}
	debt, _, err := Acquire(nil, must(t, "10:20"), nil, rowsEpoch, Op{Cost: 50, Force: true})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := Drained(nil, must(t, "10:20"), debt, rowsEpoch+1000); err != nil {
		t.Error(err)
	} else if d, err := Peek(must(t, "10:20"), out, rowsEpoch+1000, 0); d.RetryAfter != 2000 || err != nil {
		t.Errorf("a debt of 30 paid for a second: %+v, %v", d, err)
	}
	if _, err := Drained(nil, must(t, "log:5/1m"), debt, rowsEpoch); err != ErrAlgorithm {
		t.Error(err)
	}
}

// TestLawDrained: on what is left of a drained key nothing is allowed that would not be on the true state, whatever that was: a later one
// than the entry found, or one of a key that is absent.
func TestLawDrained(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, a Algorithm) {
		for seed := range walks() {
			w := newWalker(t, a, seed)
			w.now = min(w.now, MaxNow>>1)
			found := w.value
			for i := range 1 + w.IntN(8) {
				w.now += w.Int64N(1000)
				if a != Sliding && w.IntN(3) == 0 {
					w.lim = w.limit(a)
				}
				out, _, err := Acquire(nil, w.lim, w.value, w.now, Op{Cost: w.cost()})
				w.keep(out, err)
				if i == 2 {
					found = w.value
				}
			}
			at := w.now + w.Int64N(2)*w.Int64N(1000)
			w.checkDrained(found, at)
		}
	})
}

// checkDrained calls on what was found, drained at a time no earlier than the true state's, as if nobody had called since the start.
func (w *walker) checkDrained(found []byte, at int64) {
	w.t.Helper()
	truth, started, capacity := w.value, false, w.lim.Capacity
	for range 12 {
		w.step()
		if w.IntN(4) == 0 {
			w.lim = w.limit(w.lim.Algorithm)
			if w.lim.Algorithm == Sliding {
				w.lim.Capacity = max(w.lim.Capacity, capacity)
			}
		}
		old := found
		if !started {
			var err error
			if old, err = Drained(nil, w.lim, found, at); err != nil {
				w.t.Fatal(err)
			}
		}
		op := Op{Cost: w.cost()}
		out, d, err := Acquire(nil, w.lim, old, w.now, op)
		if err != nil || out == nil {
			continue
		}
		next, want, err := Acquire(nil, w.lim, truth, w.now, op)
		if err != nil || want.Allowed == 0 {
			w.t.Fatalf("%+v under %v at %d on %x: %+v, but on the true %x %+v, %v", op, w.lim, w.now, old, d, truth, want, err)
		}
		found, truth, started = out, next, true
	}
}
