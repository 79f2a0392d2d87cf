package engine

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
)

// must parses an expression that is right.
func must(t testing.TB, expr string) Limit {
	t.Helper()
	l, err := ParseExpression([]byte(expr))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// named gives a limit a name.
func named(l Limit, name string) Limit {
	l.Name = name
	return l
}

// TestEntryBytes holds the layout that the package comment gives.
func TestEntryBytes(t *testing.T) {
	for _, c := range []struct {
		e    entry
		want string
	}{
		// ts 1700000000000; 10:20 is 1 token each 100 ms; 19 tokens are 1900 units.
		{entry{limit: Limit{Algorithm: Bucket, P: 1, Q: 100, Capacity: 20}, ts: rowsEpoch, state: state{bucket: bucketState{1900}}}, "10" + "80d095ffbc31" + "016414" + "d81d"},
		{entry{limit: Limit{Algorithm: Bucket, P: 1, Q: 100, Capacity: 20}, ts: rowsEpoch, blocked: rowsEpoch + 1, state: state{bucket: bucketState{-1}}}, "11" + "80d095ffbc31" + "81d095ffbc31" + "016414" + "01"},
		{entry{limit: Limit{Algorithm: Bucket, P: 1, Q: 1, Capacity: 1}}, "10" + "00" + "010101" + "00"},
		{entry{limit: Limit{Algorithm: Bucket, P: 1, Q: 1, Capacity: 1}, ts: 5, blocked: 5}, "10" + "05" + "010101" + "00"}, // a penalty that is over
		{entry{limit: named(must(t, "10:20"), "ab"), ts: 5, blocked: 6, state: state{bucket: bucketState{1900}}}, "13" + "05" + "06" + "026162" + "016414" + "d81d"},
		{entry{limit: must(t, "10:20"), name: []byte("ab"), ts: 5, state: state{bucket: bucketState{1900}}}, "12" + "05" + "026162" + "016414" + "d81d"},
		{entry{limit: must(t, "10:20"), ts: 5, certain: 6, blocked: 7, state: state{bucket: bucketState{1900}}}, "19" + "05" + "06" + "07" + "016414" + "d81d"},
		{entry{limit: must(t, "10:20"), ts: 5, certain: MaxNow, state: state{bucket: bucketState{1900}}}, "18" + "05" + "00" + "016414" + "d81d"},
		{entry{limit: must(t, "10:20"), ts: 5, certain: 5, state: state{bucket: bucketState{1900}}}, "10" + "05" + "016414" + "d81d"},
		// 1m is e0d403; a window opened 3 ms before ts, 2 counted.
		{entry{limit: must(t, "fixed:5/1m"), ts: 9, state: state{fixed: fixedState{3, 2}}}, "20" + "09" + "e0d40305" + "0302"},
		{entry{limit: must(t, "fixed-aligned:5/1m"), ts: 9, state: state{fixed: fixedState{9, 2}}}, "24" + "09" + "e0d40305" + "02"},
		{entry{limit: must(t, "sliding:5/1m"), ts: 9, blocked: 11, state: state{sliding: slidingState{9, 4, 2}}}, "31" + "090b" + "e0d40305" + "0402"},
		{entry{limit: must(t, "log:5/1m"), ts: 9, state: state{log: new(logState)}}, "40" + "09" + "e0d40305" + "00"},
		// One record of 5, 3 ms before ts; then a record of 4, 1 ms later one of 1, 2 ms later the newest of 300.
		{entry{limit: must(t, "log:5/1m"), ts: 9, state: state{log: &logState{total: 5, age: 3, last: 5}}}, "40" + "09" + "e0d40305" + "050300"},
		{entry{limit: must(t, "log:999/1m"), ts: 9, state: state{log: &logState{
			total: 305, age: 3, span: 3, last: 300, head: record{1, 4}, tail: record{2, 1},
		}}}, "40" + "09" + "e0d403e707" + "b1020303" + "ac02" + "0302" + "04"},
	} {
		if got := hex.EncodeToString(appendEntry(nil, &c.e)); got != c.want {
			t.Errorf("%+v is %s, want %s", c.e, got, c.want)
		}
	}
}

// TestEntryRoundTrip: decode(encode(s)) = s, encode(decode(b)) = b, nothing may be missing and nothing may follow.
func TestEntryRoundTrip(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, a Algorithm) {
		longest := 0
		for seed := range walks() {
			w := newWalker(t, a, seed)
			for range 4 {
				w.step()
				w.disturb()
			}
			if w.value == nil {
				continue
			}
			var e entry
			e.state.log = logRoom(0, w.value)
			if err := e.read(w.value); err != nil {
				t.Fatalf("%x: %v", w.value, err)
			}
			if again := appendEntry([]byte("before"), &e); string(again) != "before"+string(w.value) {
				t.Fatalf("%x reads %+v and writes %x", w.value, e, again)
			}
			if len(e.name) == 0 {
				longest = max(longest, len(w.value))
			}
			checkDamage(t, w.value)
		}
		if a == Bucket && longest > 60 {
			t.Errorf("an entry takes %d bytes, the package comment says at most 60", longest)
		}
	})
	e := entry{limit: Limit{Algorithm: Bucket, P: math.MaxInt64, Q: maxPeriod, Capacity: maxUnits / maxPeriod}, ts: MaxNow - 2, certain: MaxNow - 1, blocked: maxBlocked}
	e.state.bucket.credit = maxUnits/maxPeriod*maxPeriod - maxUnits
	if n := len(appendEntry(nil, &e)); n > 60 {
		t.Errorf("an entry takes %d bytes, the package comment says at most 60", n)
	}
}

// checkDamage: bytes with one byte missing, added or changed are malformed, or are another entry that is written with just these bytes.
func checkDamage(t *testing.T, b []byte) {
	t.Helper()
	for i := range b {
		if _, err := Rebase(nil, b[:i], MaxNow); err == nil {
			t.Fatalf("%x is cut off to %x and still reads", b, b[:i])
		}
		for _, flip := range []byte{1, 2, 0x40, 0x80, 0xff} {
			damaged := bytes.Clone(b)
			damaged[i] ^= flip
			if out, err := Rebase(nil, damaged, MaxNow); err == nil && !bytes.Equal(out, damaged) {
				t.Fatalf("%x is damaged to %x and reads as %x", b, damaged, out)
			} else if err != nil && err != ErrMalformed {
				t.Fatal(err)
			}
		}
	}
	for _, more := range []byte{0, 1, 0x80} {
		if _, err := Rebase(nil, append(bytes.Clone(b), more), MaxNow); err == nil {
			t.Fatalf("%x reads with %x after it", b, more)
		}
	}
}

// TestUvarint compares the words with the loop, at every length and place in the bytes.
func TestUvarint(t *testing.T) {
	for shift := range 64 {
		for _, v := range []uint64{1 << shift, 1<<shift - 1, 1<<shift | 1, math.MaxUint64 >> shift} {
			var buf [headRoom]byte
			end := putUvarint(&buf, 1, v)
			for room := range 12 {
				b := append(bytes.Clone(buf[:end]), bytes.Repeat([]byte{0xff}, room)...)
				if got, at := uvarint(b, 1); got != v || at != end {
					t.Fatalf("%d with %d bytes after it reads %d, ends at %d of %d", v, room, got, at, end)
				}
			}
		}
	}
	for _, text := range []string{"", "80", "8000", "ff00", "8080808080808000", "80808080808080808000", "ffffffffffffffffff02", "ffffffffffffffffffff01"} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		for room := range 12 {
			if room > 0 && len(b) < 2 {
				continue // cut off only at the end
			}
			if v, at := uvarint(append(bytes.Clone(b), bytes.Repeat([]byte{0}, room)...), 0); at >= 0 {
				t.Errorf("%s with %d bytes after it reads %d", text, room, v)
			}
		}
	}
}

func TestMalformed(t *testing.T) {
	good := entry{limit: Limit{Algorithm: Bucket, P: 1, Q: 100, Capacity: 20}, ts: rowsEpoch, blocked: rowsEpoch + 1000, state: state{bucket: bucketState{1900}}}
	damage := func(change func(e *entry)) []byte {
		e := good
		change(&e)
		return appendEntry(nil, &e)
	}
	if _, err := Rebase(nil, damage(func(*entry) {}), MaxNow); err != nil {
		t.Fatal(err)
	}
	withFirst := func(first byte) []byte { return append([]byte{first}, damage(func(*entry) {})[1:]...) }
	long := strings.Repeat("n", MaxNameBytes+1)
	for name, b := range map[string][]byte{
		"nothing":              {},
		"no algorithm":         withFirst(0x01),
		"an unknown algorithm": withFirst(0xe1),
		"a name that is none":  withFirst(0x13),
		"certain as it is":     []byte("\x18\x80\xd0\x95\xff\xbc\x31\x80\xd0\x95\xff\xbc\x31\x01\x64\x14\xd8\x1d"),
		"MaxNow written out":   []byte("\x18\x80\xd0\x95\xff\xbc\x31\xff\xff\xff\xff\xff\xff\xff\x0f\x01\x64\x14\xd8\x1d"),
		"certain from nothing": []byte("\x18\x80\xd0\x95\xff\xbc\x31"),
		"an aligned bucket":    withFirst(0x15),
		"a name too long":      damage(func(e *entry) { e.name = []byte(long) }),
		"ts too late":          damage(func(e *entry) { e.ts, e.blocked = MaxNow+1, 0 }),
		"blocked too late":     damage(func(e *entry) { e.blocked = maxBlocked + 1 }),
		"P is 0":               damage(func(e *entry) { e.limit.P = 0 }),
		"P is negative":        damage(func(e *entry) { e.limit.P = -1 }),
		"Q is 0":               damage(func(e *entry) { e.limit.Q = 0 }),
		"Q too large": damage(func(e *entry) {
			e.limit = Limit{Algorithm: Bucket, P: 1, Q: maxPeriod + 1, Capacity: 1}
			e.state.bucket.credit = 0
		}),
		"Capacity is 0":         damage(func(e *entry) { e.limit.Capacity, e.state.bucket.credit = 0, 0 }),
		"Capacity too large":    damage(func(e *entry) { e.limit.Capacity = maxUnits/100 + 1 }),
		"not in lowest terms":   damage(func(e *entry) { e.limit.P = 2 }),
		"more than a full one":  damage(func(e *entry) { e.state.bucket.credit = 2001 }),
		"more debt than can be": damage(func(e *entry) { e.state.bucket.credit = 2000 - maxUnits - 1 }),
		"the largest debt":      damage(func(e *entry) { e.state.bucket.credit = math.MinInt64 }),
	} {
		if out, err := Rebase(nil, b, MaxNow); err != ErrMalformed || out != nil {
			t.Errorf("%s: %x is rebased to %x, %v", name, b, out, err)
		}
		if name == "not in lowest terms" {
			continue // only what comes from elsewhere is checked that far
		}
		if got, under := Reset(b, MaxNow), ResetUnder(good.limit, b, MaxNow); got != math.MaxInt64 || under != math.MaxInt64 {
			t.Errorf("%s: Reset says %d, ResetUnder %d", name, got, under)
		}
		Name(b) // must not panic
		_, err1 := StoredLimit(b)
		_, err2 := Inspect(b)
		_, _, err3 := Refund(nil, b, 1, 0)
		if len(b) == 0 { // absent, not malformed, where a key may be absent
			continue
		}
		_, _, err4 := Acquire(nil, good.limit, b, 0, Op{Cost: 1})
		_, err5 := Peek(good.limit, b, 0, 1)
		_, _, err6 := Penalize(nil, good.limit, b, 1, 0)
		for i, err := range []error{err1, err2, err3, err4, err5, err6} {
			if err != ErrMalformed {
				t.Errorf("%s, function %d: %v", name, i, err)
			}
		}
	}
}

func TestRebase(t *testing.T) {
	for _, c := range []struct {
		name              string
		ts, blocked       int64
		maxTS             int64
		wantTS, wantBlock int64
	}{
		{"in time", 1000, 0, 1000, 1000, 0},
		{"in time, with a penalty", 1000, 5000, 1000, 1000, 5000},
		{"ahead", 1001, 0, 1000, 1000, 0},
		{"ahead, with a penalty", 9000, 9500, 1000, 1000, 1500},
		{"ahead of nothing", 9000, 9500, 0, 0, 500},
		{"a negative clock", 9000, 0, -5, 0, 0},
	} {
		e := entry{limit: Limit{Algorithm: Bucket, P: 1, Q: 100, Capacity: 20}, ts: c.ts, blocked: c.blocked, state: state{bucket: bucketState{-7}}}
		out, err := Rebase([]byte("x"), appendEntry(nil, &e), c.maxTS)
		if err != nil {
			t.Fatal(err)
		}
		info, err := Inspect(out[1:])
		if err != nil || info.TS != c.wantTS || info.BlockedUntil != c.wantBlock || info.Tokens != "-0.07" {
			t.Errorf("%s: %+v, %v", c.name, info, err)
		}
	}
}

// TestAlgorithmMismatch: a limit of one algorithm does not touch an entry of another.
func TestAlgorithmMismatch(t *testing.T) {
	bucket, foreign := Limit{Algorithm: Bucket, P: 1, Q: 100, Capacity: 20}, Limit{Algorithm: Fixed, Window: 1000, Capacity: 20}
	old, _, err := Acquire(nil, foreign, nil, rowsEpoch, Op{Cost: 1})
	if err != nil {
		t.Fatal(err)
	}
	if l, err := StoredLimit(old); l != foreign || err != nil {
		t.Errorf("%+v, %v", l, err)
	}
	_, _, err1 := Acquire(nil, bucket, old, rowsEpoch, Op{Cost: 1})
	_, err2 := Peek(bucket, old, rowsEpoch, 1)
	_, _, err3 := Penalize(nil, bucket, old, 1, rowsEpoch)
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, ErrAlgorithm) {
			t.Errorf("%v, want %v", err, ErrAlgorithm)
		}
	}
}

func TestAlgorithmNames(t *testing.T) {
	for a, want := range map[Algorithm]string{Bucket: "bucket", Fixed: "fixed", Sliding: "sliding", Log: "log", 0: "unknown", 9: "unknown", 255: "unknown"} {
		if a.String() != want {
			t.Errorf("%d is %s", a, a)
		}
	}
}

func TestTokensText(t *testing.T) {
	for _, c := range []struct {
		units, q int64
		want     string
	}{
		{0, 100, "0"}, {1900, 100, "19"}, {1950, 100, "19.5"}, {-1, 100, "-0.01"}, {-250, 100, "-2.5"},
		{1, 3, "0.333333333333"}, {-1, 3, "-0.333333333334"}, {2, 3, "0.666666666666"}, {-2, 3, "-0.666666666667"}, {-3, 3, "-1"},
		{1, 1_000_000_000_000, "0.000000000001"}, {1, 1 << 39, "0.000000000001818989403545856475830078125"},
		{-999_999_999_999, 999_999_999_999, "-1"}, {-2_999_999_999_999, 3_000_000_000_000 - 1, "-1"},
		{-1, 999_999_999_999, "-0.000000000002"}, {-999_993_599_999, 999_993_600_000, "-0.999999999999"}, {1 - 999_993_600_000*3, 999_993_600_000, "-2.999999999999"},
		{-899_999_999_999, 900_000_000_000, "-0.999999999999"}, {-6_999_999_999_999, 7_000_000_000_000, "-1"},
		{maxUnits, 1, "9205357638345293824"}, {-maxUnits, 1, "-9205357638345293824"},
	} {
		if got := tokensText(c.units, c.q); got != c.want {
			t.Errorf("%d/%d reads %s, want %s", c.units, c.q, got, c.want)
		}
	}
}
