package engine

import (
	"bytes"
	"errors"
	"testing"
)

// TestUnder reads and refunds entries that carry a limit which is not in force any more: what carries over is what a call under the limit
// in force finds, and the name stays.
func TestUnder(t *testing.T) {
	const now = 1_700_000_000_000
	for _, c := range []struct {
		made, force          string
		cost                 int64
		tokens               string // shown under the limit in force, for a bucket
		used                 int64  // for a window
		remaining, resetting int64  // after 3 were given back at once
	}{
		{"10:100", "10:100", 40, "60", 0, 63, 3700},
		{"10:100", "1:100", 40, "60", 0, 63, 37_000},
		{"10:100", "10:50", 10, "50", 0, 50, 0},
		{"10:100", "10:200", 40, "60", 0, 63, 13_700},
		{"fixed:10/1m", "fixed:8/1m", 5, "", 5, 6, 60_000},
		{"log:10/1m", "log:20/1m", 5, "", 5, 18, 60_000},
		{"sliding:10/1m", "sliding:20/1m", 5, "", 5, 18, 100_000},
	} {
		made, force := limitUnder(t, c.made), limitUnder(t, c.force)
		made.Name, force.Name = "wb:*", "wb:*"
		old, _, err := Acquire(nil, made, nil, now, Op{Cost: c.cost})
		if err != nil {
			t.Fatal(err)
		}
		info, err := InspectUnder(force, old)
		if err != nil || info.Limit != force || info.Tokens != c.tokens || info.Used != c.used || info.TS != now {
			t.Errorf("%s under %s: %+v, %v", c.made, c.force, info, err)
		}
		out, d, err := RefundUnder(nil, force, old, 3, now)
		if err != nil || d != (Decision{1, 0, c.remaining, d.ResetAfter, force.Capacity}) {
			t.Errorf("refund of %s under %s: %+v, %v", c.made, c.force, d, err)
		}
		if d.ResetAfter != c.resetting && force.Algorithm != Sliding { // a sliding window's depends on where now is in it
			t.Errorf("refund of %s under %s: reset after %d, want %d", c.made, c.force, d.ResetAfter, c.resetting)
		}
		if out != nil {
			if got, err := StoredLimit(out); err != nil || got != force {
				t.Errorf("refund of %s under %s stores %+v, %v", c.made, c.force, got, err)
			}
		}
		same, ds, err := Refund(nil, old, 3, now)
		if again, du, _ := RefundUnder(nil, made, old, 3, now); err != nil || ds != du || !bytes.Equal(same, again) {
			t.Errorf("refund under the limit carried: %+v and %+v", ds, du)
		}
		other := limitUnder(t, "log:1/1s")
		if force.Algorithm == Log {
			other = limitUnder(t, "10:20")
		}
		if _, err := InspectUnder(other, old); !errors.Is(err, ErrAlgorithm) {
			t.Error(err)
		}
		if _, _, err := RefundUnder(nil, other, old, 1, now); !errors.Is(err, ErrAlgorithm) {
			t.Error(err)
		}
		if _, _, err := RefundUnder(nil, Limit{}, old, 1, now); err == nil {
			t.Error("a refund under no limit")
		}
	}
}

func limitUnder(t *testing.T, expr string) Limit {
	t.Helper()
	l, err := ParseExpression([]byte(expr))
	if err != nil {
		t.Fatal(err)
	}
	return l
}
