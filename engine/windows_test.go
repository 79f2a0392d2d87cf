package engine

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// TestMalformedWindows takes the bytes of a window's entry apart. Damage among a log's records is noticed by Rebase, and by whoever comes
// to look at them.
func TestMalformedWindows(t *testing.T) {
	const head = "00e0d40305" // ts 0, 5 in 1m
	for name, text := range map[string]string{
		"fixed: limit 0":                      "2000e0d403000001",
		"fixed: limit too large":              "2000e0d403" + "ffffffffffffffff7f" + "0001",
		"fixed: window 0":                     "200000050001",
		"fixed: window too large":             "2000" + "81a094a58d1d" + "050001",
		"fixed: certain as it is":             "28" + "05" + "05" + head[2:] + "0001",
		"fixed: window over at ts":            "20" + head + "e0d40301",
		"fixed: a window in which is nothing": "20" + head + "0100",
		"fixed: count too large":              "20" + head + "00" + "8080808080808080" + "40",
		"fixed: no count":                     "20" + head + "00",
		"fixed: more after it":                "20" + head + "000100",
		"aligned: with an age":                "24" + head + "0001",
		"sliding: aligned":                    "34" + head + "0000",
		"sliding: more than any limit":        "30" + head + "ffffffffffffffff3f" + "01",
		"sliding: no count":                   "30" + head + "01",
		"log: aligned":                        "44" + head + "00",
		"log: ahead":                          "48" + "00" + "01" + head[2:] + "00",
		"log: limit too large":                "4000e0d403" + "8120" + "00",
		"log: more than any limit":            "40" + head + "8120" + "0000",
		"log: nothing, but it is old":         "40" + head + "0001",
		"log: one record and more after it":   "40" + head + "01000000",
		"log: gone":                           "40" + head + "01" + "e0d403" + "00",
		"log: the oldest is gone":             "40" + head + "02" + "dfd403" + "0101" + "02",
		"log: the newest is all":              "40" + head + "02000202" + "04",
		"log: the newest is nothing":          "40" + head + "02000200" + "04",
		"log: no older record":                "40" + head + "02000201",
		"log: a step of 0":                    "40" + head + "03000201" + "0004",
		"log: two records at one time":        "40" + head + "03000201" + "0400",
		"log: steps short of the span":        "40" + head + "02000201" + "02",
		"log: steps beyond the span":          "40" + head + "02000201" + "06",
		"log: counts short of the total":      "40" + head + "04000201" + "0500",
		"log: counts beyond the total":        "40" + head + "03000201" + "0501",
		"log: a count cut off":                "40" + head + "03000201" + "05",
		"log: a record too many":              "40" + head + "03000201" + "0500" + "02",
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(name, err)
		}
		if out, err := Rebase(nil, b, MaxNow); err != ErrMalformed {
			t.Errorf("%s: %x is rebased to %x, %v", name, b, out, err)
		}
		lim := Limit{Algorithm: Algorithm(b[0] >> 4), Capacity: 4, Window: 60_000}
		_, d1, err1 := Acquire(nil, lim, b, 0, Op{Cost: 4})
		_, d2, err2 := Acquire(nil, lim, b, 59_999, Op{Cost: 4})
		_, d3, err3 := Refund(nil, b, 4, 0)
		if err1 == nil && d1.Allowed == 1 || !strings.HasPrefix(name, "log: ") && name != "sliding: more than any limit" && (err1 == nil || err2 == nil || err3 == nil) {
			t.Errorf("%s: %+v %v, %+v %v, %+v %v", name, d1, err1, d2, err2, d3, err3)
		}
	}
}

// TestLogLarge fills the largest log with a record each and holds it to its bounds (field reports B051, B101).
func TestLogLarge(t *testing.T) {
	for _, c := range []struct {
		limit   string
		step    int64 // ms between calls
		largest int   // bytes
	}{{"log:4096/11574d", 200_000_000, 24 << 10}, {"log:4096/1h", 800, 12 << 10}, {"log:100/15m", 1, 8 << 10}, {"log:100/15m", 9000, 350}} {
		lim := must(t, c.limit)
		var value []byte
		for i := range lim.Capacity {
			out, d, err := Acquire(nil, lim, value, rowsEpoch+i*c.step, Op{Cost: 1})
			if err != nil || d.Allowed != 1 || d.Remaining != lim.Capacity-1-i {
				t.Fatal(c.limit, i, d, err)
			}
			value = out
		}
		if len(value) > c.largest {
			t.Errorf("%s, %d ms apart: %d bytes, at most %d", c.limit, c.step, len(value), c.largest)
		}
		first, last := rowsEpoch, rowsEpoch+(lim.Capacity-1)*c.step
		for i := range int64(60_000) {
			if out, d, err := Acquire(nil, lim, value, last, Op{Cost: 1 + i%lim.Capacity}); err != nil || out != nil || d.RetryAfter != first+(i%lim.Capacity)*c.step+lim.Window-last {
				t.Fatalf("%s: denial %d answers %+v, %d bytes, %v", c.limit, i, d, len(out), err)
			}
			if i > 100 && lim.Capacity > 100 {
				break // each walks over the records that it waits for
			}
		}
		for i := range lim.Capacity / 2 {
			out, d, err := Refund(nil, value, 1, last)
			if err != nil || d.Remaining != i+1 {
				t.Fatal(c.limit, i, d, err)
			}
			value = out
		}
		if again, err := Rebase(nil, value, MaxNow); err != nil || string(again) != string(value) {
			t.Fatal(err)
		}
		if d, err := Peek(lim, value, last+lim.Window-1, lim.Capacity); d.RetryAfter != 1 || err != nil {
			t.Error(c.limit, d, err)
		}
		if d, err := Peek(lim, value, last+lim.Window, lim.Capacity); d.Allowed != 1 || err != nil {
			t.Error(c.limit, d, err)
		}
	}
}

// TestWindowsRebased has what Rebase does where windows are concerned.
func TestWindowsRebased(t *testing.T) {
	for _, c := range []struct {
		limit string
		costs []int64 // one each 10 s from the start of a minute
		to    int64   // s
		later int64   // s: then the limit is asked for
		want  string
	}{
		{"fixed:5/1m", []int64{2, 1}, 3, 52, "0 1000 2 1000 5"},
		{"fixed:5/1m", []int64{2, 1}, 3, 53, "1 0 5 0 5"},
		{"fixed-aligned:5/1m", []int64{2, 1}, 3, 59, "0 1000 2 1000 5"},
		{"fixed-aligned:5/1m", []int64{2, 1}, 3, 60, "1 0 5 0 5"},
		{"fixed-aligned:5/1m", []int64{2, 1}, -1, 0, "1 0 5 0 5"},
		{"sliding:5/1m", []int64{2, 1}, -30, -30, "0 50000 2 90000 5"},
		{"sliding:5/1m", []int64{2, 1, 0, 0, 0, 0, 2}, 5, 5, "0 91000 0 115000 5"}, // 2 and all 3 of the minute before
		{"log:5/1m", []int64{2, 1}, 3, 52, "0 1000 2 11000 5"},
		{"log:5/1m", []int64{2, 1}, 3, 53, "1 0 4 10000 5"},
	} {
		const start = 1_699_920_000_000
		var value []byte
		for i, cost := range c.costs {
			out, _, err := Acquire(nil, must(t, c.limit), value, start+int64(i)*10_000, Op{Cost: cost})
			if err != nil {
				t.Fatal(err)
			}
			if out != nil {
				value = out
			}
		}
		value, err := Rebase(nil, value, start+c.to*1000)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Peek(must(t, c.limit), value, start+c.later*1000, 3)
		if got := fmt.Sprintf("%d %d %d %d %d", d.Allowed, d.RetryAfter, d.Remaining, d.ResetAfter, d.Limit); got != c.want || err != nil {
			t.Errorf("%s, %v brought to %d s: at %d s %s, %v, want %s", c.limit, c.costs, c.to, c.later, got, err, c.want)
		}
	}
}
