package engine

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestAfter: an acquire before until is answered as one under a penalty that ends then, and from then on as any other.
func TestAfter(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, expr := range []string{"10:5", "0.1:3", "5/1m:10"} {
		lim, err := ParseExpression([]byte(expr))
		if err != nil {
			t.Fatal(err)
		}
		var state []byte
		now := rowsEpoch
		for range 2000 {
			now += random.Int64N(500)
			op := Op{Cost: random.Int64N(3)}
			if random.IntN(3) == 0 {
				op = Op{Cost: 1, MaxWait: random.Int64N(2000)}
			}
			until := max(now+random.Int64N(2000)-1000, 0)
			penalized := state
			if until > now {
				out, _, err := Penalize(nil, lim, state, until-now, now)
				if err != nil {
					t.Fatal(err)
				}
				if out != nil {
					penalized = out
				}
			}
			want, wanted, err := Acquire(nil, lim, penalized, now, op)
			if err != nil {
				t.Fatal(err)
			}
			out, d, err := AcquireAfter(nil, lim, state, now, op, until)
			if err != nil || d != wanted || !bytes.Equal(out, want) {
				t.Fatalf("%s %+v: %+v %v, want %+v", expr, op, d, err, wanted)
			}
			peeked, err := Peek(lim, penalized, now, op.Cost)
			if err != nil {
				t.Fatal(err)
			}
			if d, err := PeekAfter(lim, state, now, op.Cost, until); err != nil || d != peeked {
				t.Fatalf("%s: peek %+v %v, want %+v", expr, d, err, peeked)
			}
			if out != nil {
				state = out
			}
		}
	}
	if _, _, err := AcquireAfter(nil, Limit{Algorithm: Fixed, Capacity: 1, Window: 1}, nil, 0, Op{Cost: 1}, 0); err == nil {
		t.Error("a window is no bucket")
	}
}
