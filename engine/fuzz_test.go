package engine

import (
	"bytes"
	"testing"
)

// FuzzAcquire: no bytes, limit, time or cost panics; what comes out reads back, and the laws that need no history hold.
// Run it with go test ./engine -fuzz FuzzAcquire.
func FuzzAcquire(f *testing.F) {
	absent, emptied, penalized := []byte(nil), []byte("\x10\x80\xd0\x95\xff\xbc\x31\x01\x64\x14\x00"), []byte("\x11\x80\xd0\x95\xff\xbc\x31\x88\xf7\x95\xff\xbc\x31\x01\x64\x14\xd8\x1d")
	f.Add(absent, "10:20", rowsEpoch, int64(1), int64(0), false, false)
	f.Add(emptied, "10:20", rowsEpoch+99, int64(1), int64(0), false, false)
	f.Add(emptied, "5/1m:10", rowsEpoch-1, int64(3), int64(60_000), false, false)
	f.Add(penalized, "1:5", rowsEpoch, int64(9), int64(0), true, false)
	f.Add(penalized, "0.000000001:9205357", MaxNow, int64(1<<62), int64(0), false, true)
	f.Add([]byte("\x10\x00\x01\x01\x01"), "9223372036854775807/1ms:1", int64(0), int64(-1), int64(-1), true, true)
	f.Add([]byte("\x23\x09\x0a\x02ab\xe0\xd4\x03\x05\x03\x02"), "fixed:5/1m", int64(60_005), int64(1), int64(0), false, false)
	f.Add([]byte("\x24\x09\xe0\xd4\x03\x05\x02"), "fixed-aligned:2/7ms", int64(60_005), int64(1), int64(0), false, false)
	f.Add([]byte("\x30\x09\xe0\xd4\x03\x05\x04\x02"), "sliding:5/1m", int64(60_005), int64(4), int64(0), false, false)
	f.Add([]byte("\x30\x09\xe0\xd4\x03\x05\x04\x02"), "sliding:4611686018427387903/11574d", int64(9), int64(1<<62), int64(0), false, false)
	f.Add([]byte("\x40\x09\xe0\xd4\x03\xe7\x07\xb1\x02\x03\x03\xac\x02\x03\x02\x04"), "log:306/1m", int64(12), int64(5), int64(0), false, false)
	f.Add([]byte("\x40\x09\xe0\xd4\x03\xe7\x07\xb1\x02\x03\x03\xac\x02\x03\x02\x04"), "log:4096/5ms", int64(12), int64(300), int64(0), false, false)
	f.Add([]byte("\x18\x80\xd0\x95\xff\xbc\x31\x00\x01\x64\x14\x00"), "10:20", rowsEpoch, int64(1), int64(0), false, false)
	f.Add([]byte("\x18\x80\xd0\x95\xff\xbc\x31\x00\x01a01"), "10:1", rowsEpoch+91, int64(1), int64(51), false, false)
	f.Add([]byte("\x28\x09\xa0\x8d\x06\xe0\xd4\x03\x05\x03\x02"), "fixed:5/2m", int64(60_005), int64(1), int64(0), false, false)
	f.Add([]byte("\x38\x09\x0b\xe0\xd4\x03\x05\x04\x02"), "sliding:5/1s", int64(10), int64(1), int64(0), false, false)
	f.Fuzz(func(t *testing.T, old []byte, expr string, now, cost, maxWait int64, partial, force bool) {
		lim, err := ParseExpression([]byte(expr))
		if err != nil {
			if lim, err = StoredLimit(old); err != nil {
				lim = Limit{Algorithm: Bucket, P: 1, Q: 100, Capacity: 20}
			}
		}
		ResetUnder(lim, old, now)
		if name := Name(old); len(name) > MaxNameBytes {
			t.Fatalf("%x has a name of %d bytes", old, len(name))
		}
		op := Op{Cost: cost, MaxWait: maxWait, Partial: partial, Force: force}
		out, d, err := Acquire(nil, lim, old, now, op)
		if err != nil {
			if out != nil || d != (Decision{}) {
				t.Fatalf("%x, %+v with error %v", out, d, err)
			}
			return
		}
		w := &walker{t: t, lim: lim, value: old, now: now}
		w.checkAnswer(op, out, d)
		if _, err := Rebase(nil, old, now); err != nil && len(old) > 0 {
			return // damaged where this call did not look
		}
		w.checkWait(op, out, d)
		w.checkLate(op, out, d)
		if out == nil {
			return
		}
		w.checkReset(out, d)
		again, err := Rebase(nil, out, MaxNow)
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%x is rebased to %x, %v", out, again, err)
		}
		back, d, err := Refund(nil, out, max(cost, 0), now)
		if err != nil || d.Remaining > d.Limit {
			t.Fatal(d, err)
		}
		if again, err := Rebase(nil, back, MaxNow); back != nil && (err != nil || !bytes.Equal(again, back)) {
			t.Fatalf("%x refunded is %x and rebased to %x, %v", out, back, again, err)
		}
	})
}

// FuzzAhead: no bytes panic, and what Ahead makes covers what it was made of, reads back, and allows nothing that would not be allowed there.
// Run it with go test ./engine -fuzz FuzzAhead.
func FuzzAhead(f *testing.F) {
	f.Add([]byte("\x10\x80\xd0\x95\xff\xbc\x31\x01\x64\x14\xd8\x1d"), int64(8), int64(100), int64(1), "20:40", rowsEpoch+10, rowsEpoch+99, int64(1))
	f.Add([]byte("\x19\x05\x06\x07\x01\x64\x14\xd8\x1d"), int64(0), int64(1<<62), int64(0), "10:20", int64(4), int64(6), int64(9))
	f.Add([]byte("\x23\x09\x0a\x02ab\xe0\xd4\x03\x05\x03\x02"), int64(1), int64(0), int64(1), "fixed-aligned:5/1s", int64(11), int64(60_005), int64(1))
	f.Add([]byte("\x30\x09\xe0\xd4\x03\x05\x04\x02"), int64(2), int64(0), int64(3), "sliding:5/1h", int64(9), int64(60_005), int64(1))
	f.Add([]byte("\x40\x09\xe0\xd4\x03\xe7\x07\xb1\x02\x03\x03\xac\x02\x03\x02\x04"), int64(8), int64(0), int64(1), "log:306/1m", int64(1), int64(12), int64(5))
	f.Fuzz(func(t *testing.T, old []byte, part, ms, least int64, expr string, clock, now, cost int64) {
		block := Block{Part: max(part, 0), Time: max(ms, 0), Least: max(least, 0)}
		held, ok := Ahead(nil, old, block)
		lim, err := ParseExpression([]byte(expr))
		Covers(old, held, block)
		Drained(nil, lim, old, clock)
		if _, bad := Rebase(nil, old, MaxNow); bad != nil || !ok || err != nil {
			return
		}
		if covered, loose := Covers(held, old, block); !covered && loose {
			t.Fatalf("%x held for %x is loose and does not cover it", held, old)
		}
		if again, err := Rebase(nil, held, MaxNow); err != nil || !bytes.Equal(again, held) {
			t.Fatalf("%x held for %x is rebased to %x, %v", held, old, again, err)
		}
		truth, err := Rebase(nil, old, clock)
		if err != nil {
			t.Fatal(err)
		}
		if held, err = Rebase(nil, held, clock); err != nil {
			t.Fatal(err)
		}
		_, d, err := Acquire(nil, lim, held, now, Op{Cost: cost})
		_, want, err2 := Acquire(nil, lim, truth, now, Op{Cost: cost})
		if err == nil && err2 == nil && d.Allowed > want.Allowed {
			t.Fatalf("%x answers %+v, %x, that it is ahead of, %+v", held, d, truth, want)
		}
	})
}
