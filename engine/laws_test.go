package engine

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// walks is how many random walks a law is tried on.
func walks() int {
	if testing.Short() {
		return 400
	}
	return 4000
}

// walker takes random steps with one key.
type walker struct {
	*rand.Rand
	t     *testing.T
	lim   Limit
	value []byte
	now   int64
}

func newWalker(t *testing.T, seed int) *walker {
	w := &walker{Rand: rand.New(rand.NewPCG(uint64(seed), 7)), t: t}
	w.lim = w.limit()
	w.now = [...]int64{0, 1_700_000_000_000, MaxNow - 1<<40}[w.IntN(3)] + w.Int64N(1000)
	return w
}

// limit is an ordinary one or one near a bound.
func (w *walker) limit() Limit {
	l := Limit{Algorithm: Bucket, P: 1 + w.Int64N(20), Q: 1 + w.Int64N(2000)}
	switch w.IntN(8) {
	case 0:
		l.P = math.MaxInt64 >> w.IntN(63)
	case 1:
		l.Q = maxPeriod >> w.IntN(40)
	}
	d := commonDivisor(l.P, l.Q)
	l.P, l.Q = l.P/d, l.Q/d
	largest := maxUnits / l.Q
	l.Capacity = 1 + w.Int64N(min(largest, 30))
	if w.IntN(8) == 0 {
		l.Capacity = max(largest>>w.IntN(64), 1)
	}
	return l
}

// step moves the time, mostly a little on, sometimes back.
func (w *walker) step() {
	refill := max(w.lim.Q/w.lim.P, 1)
	switch w.IntN(6) {
	case 0:
	case 1:
		w.now -= w.Int64N(min(3*refill, 1<<40))
	case 2:
		w.now += w.Int64N(1 << 20)
	default:
		w.now += w.Int64N(min(3*refill, 1<<40))
	}
	w.now = min(max(w.now, 0), MaxNow)
}

func (w *walker) cost() int64 {
	switch w.IntN(8) {
	case 0:
		return 0
	case 1:
		return w.lim.Capacity
	case 2:
		return min(w.lim.Capacity, math.MaxInt64-2) + 1
	case 3:
		return math.MaxInt64 >> w.IntN(63)
	}
	return 1 + w.Int64N(min(w.lim.Capacity, 5))
}

// disturb is a step that no law looks at: refund, penalty, debt, another limit.
func (w *walker) disturb() {
	var out []byte
	var err error
	switch w.IntN(5) {
	case 0:
		w.lim = w.limit()
	case 1:
		out, _, err = Penalize(nil, w.lim, w.value, w.Int64N(5000), w.now)
	case 2:
		out, _, err = Acquire(nil, w.lim, w.value, w.now, Op{Cost: w.cost(), Force: true})
	case 3:
		out, _, err = Acquire(nil, w.lim, w.value, w.now, Op{Cost: w.cost(), MaxWait: 1 + w.Int64N(MaxMaxWait)})
	case 4:
		if w.value != nil {
			out, _, err = Refund(nil, w.value, w.cost(), w.now)
		}
	}
	w.keep(out, err)
}

// keep takes a result over. What cannot be held is an error like any refusal; nothing else may go wrong.
func (w *walker) keep(out []byte, err error) {
	w.t.Helper()
	if _, tooLarge := err.(*RangeError); err != nil && (!tooLarge || out != nil) {
		w.t.Fatalf("%+v %x at %d: %v, %x", w.lim, w.value, w.now, err, out)
	}
	if out != nil {
		w.value = out
	}
}

// op is a call of any kind.
func (w *walker) op() Op {
	op := Op{Cost: w.cost()}
	switch w.IntN(6) {
	case 0:
		op.MaxWait = 1 + w.Int64N(MaxMaxWait)>>w.IntN(27)
	case 1:
		op.Partial, op.Cost = true, max(op.Cost, 1)
	case 2:
		op.Force = true
	}
	return op
}

// TestLaws walks at random and holds every call to what the contract promises of any call.
func TestLaws(t *testing.T) {
	for seed := range walks() {
		w := newWalker(t, seed)
		for range 30 {
			w.step()
			if w.IntN(3) == 0 {
				w.disturb()
			}
			op := w.op()
			before := bytes.Clone(w.value)
			out, d, err := Acquire(nil, w.lim, w.value, w.now, op)
			if !bytes.Equal(before, w.value) {
				t.Fatal("the old bytes were written to")
			}
			if err == nil {
				w.checkAnswer(op, out, d)
				w.checkWait(op, out, d)
				w.checkReset(out, d)
				w.checkLate(op, out, d)
			}
			w.keep(out, err)
		}
	}
}

// checkAnswer: a refusal changes nothing, no number is out of its range, and a peek gets the same answer without the debit.
func (w *walker) checkAnswer(op Op, out []byte, d Decision) {
	w.t.Helper()
	refused := d.Allowed == 0 && !op.Force
	if out != nil && (refused || op.Cost == 0) {
		w.t.Fatalf("%+v %x at %d: %+v changed the entry and answered %+v", w.lim, w.value, w.now, op, d)
	}
	if out == nil && !refused && op.Cost > 0 {
		w.t.Fatalf("%+v %x at %d: %+v changed nothing and answered %+v", w.lim, w.value, w.now, op, d)
	}
	if d.Allowed < 0 || d.Allowed > max(op.Cost, 1) || d.Allowed > 1 && !op.Partial || d.RetryAfter < -1 ||
		d.Allowed == 0 && d.RetryAfter == 0 || d.Allowed > 0 && d.RetryAfter != 0 && op.MaxWait == 0 ||
		d.Remaining < 0 || d.Remaining > w.lim.Capacity || d.ResetAfter < 0 || d.Limit != w.lim.Capacity {
		w.t.Fatalf("%+v %x at %d: %+v answered %+v", w.lim, w.value, w.now, op, d)
	}
	if never := op.Cost > w.lim.Capacity && !op.Force && !op.Partial; never != (d.RetryAfter == -1) || never && d.Allowed != 0 {
		w.t.Fatalf("%+v %x at %d: %+v answered %+v", w.lim, w.value, w.now, op, d)
	}
	if op == (Op{Cost: op.Cost}) {
		peek, err := Peek(w.lim, w.value, w.now, op.Cost)
		if d.Allowed == 1 { // what is left is the one thing that differs: a peek takes nothing
			if still, _ := Peek(w.lim, w.value, w.now, 0); still.Remaining == peek.Remaining && still.ResetAfter == peek.ResetAfter {
				peek.Remaining, peek.ResetAfter = d.Remaining, d.ResetAfter
			}
		}
		if peek != d || err != nil {
			w.t.Fatalf("%+v %x at %d: peek of %d answers %+v, %v, acquire %+v", w.lim, w.value, w.now, op.Cost, peek, err, d)
		}
	}
}

// checkWait: who waits retry_after is admitted, who waits 1 ms less is not. Who was let into debt, or forced, may then call with cost 0.
func (w *walker) checkWait(op Op, out []byte, d0 Decision) {
	w.t.Helper()
	if d0.RetryAfter <= 0 || d0.RetryAfter > MaxNow-w.now {
		return
	}
	value := w.value
	if out != nil {
		value, op = out, Op{}
	}
	at := func(now int64) int64 {
		_, d, err := Acquire(nil, w.lim, value, now, op)
		if _, tooLarge := err.(*RangeError); tooLarge && op.MaxWait > 0 {
			return min(now-w.now-d0.RetryAfter+1, 1) // it would be let in, but for a debt that cannot be held
		} else if err != nil {
			w.t.Fatal(err)
		}
		if op.MaxWait > 0 && d.Allowed > 0 && d.RetryAfter > op.MaxWait {
			w.t.Fatalf("%+v %x at %d: %+v waits longer than it wanted: %+v", w.lim, value, now, op, d)
		}
		return d.Allowed
	}
	if out == nil && (op.Force || d0.Allowed > 0) { // a cost of 0 is let in too, and writes nothing
		op = Op{}
	}
	if at(w.now+d0.RetryAfter) == 0 || at(w.now+d0.RetryAfter-1) != 0 {
		w.t.Fatalf("%+v %x at %d: %+v is told to wait %d, which is too short or too long", w.lim, value, w.now, op, d0.RetryAfter)
	}
}

// checkReset: reset_after from now, and not 1 ms before, the bucket is full and free of penalties, and Reset agrees.
func (w *walker) checkReset(out []byte, d Decision) {
	w.t.Helper()
	value := out
	if out == nil {
		value = w.value
	}
	if value == nil || d.ResetAfter > MaxNow-w.now {
		return
	}
	full := func(now int64) bool {
		d, err := Peek(w.lim, value, now, 0)
		return err == nil && d.Allowed == 1 && d.Remaining == w.lim.Capacity && d.ResetAfter == 0
	}
	if !full(w.now + d.ResetAfter) {
		w.t.Fatalf("%+v %x is not full %d ms after %d", w.lim, value, d.ResetAfter, w.now)
	}
	if d.ResetAfter > 0 && full(w.now+d.ResetAfter-1) {
		w.t.Fatalf("%+v %x is full before %d ms after %d", w.lim, value, d.ResetAfter, w.now)
	}
	stored, err := StoredLimit(value)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := Reset(value, w.now); stored == w.lim && d.ResetAfter > 0 && got != d.ResetAfter {
		w.t.Fatalf("%+v %x at %d: Reset says %d, the decision %d", w.lim, value, w.now, got, d.ResetAfter)
	}
}

// checkLate: a call from the past is the same call at the entry's time; only its waits are longer, by as much as it is late.
func (w *walker) checkLate(op Op, out []byte, d Decision) {
	w.t.Helper()
	if w.value == nil || op.MaxWait != 0 {
		return
	}
	info, err := Inspect(w.value)
	if err != nil {
		w.t.Fatal(err)
	}
	late := info.TS - w.now
	if late <= 0 {
		return
	}
	outAtTS, want, err := Acquire(nil, w.lim, w.value, info.TS, op)
	if err != nil {
		w.t.Fatal(err)
	}
	if want.RetryAfter > 0 {
		want.RetryAfter += late
	}
	if want.ResetAfter > 0 {
		want.ResetAfter += late
	}
	if d != want || !bytes.Equal(out, outAtTS) {
		w.t.Fatalf("%+v %x at %d: %+v answers %+v, %d ms later %+v", w.lim, w.value, w.now, op, d, late, want)
	}
}

// TestLawTimeNeverRunsBack: ts only grows, whatever comes.
func TestLawTimeNeverRunsBack(t *testing.T) {
	for seed := range walks() / 4 {
		w := newWalker(t, seed)
		var ts, blocked int64
		for range 30 {
			w.step()
			w.disturb()
			w.keep(func() ([]byte, error) {
				out, _, err := Acquire(nil, w.lim, w.value, w.now, w.op())
				return out, err
			}())
			if w.value == nil {
				continue
			}
			info, err := Inspect(w.value)
			if err != nil || info.TS < ts || info.BlockedUntil < blocked && info.TS < blocked {
				t.Fatalf("%x after ts %d, blocked until %d: %+v, %v", w.value, ts, blocked, info, err)
			}
			ts, blocked = info.TS, info.BlockedUntil
		}
	}
}

// TestLawGranted: in any span of the entry's time no more is granted than burst + rate * span.
func TestLawGranted(t *testing.T) {
	for seed := range walks() / 8 {
		w := newWalker(t, seed)
		var at, granted []int64
		for range 60 {
			w.step()
			op := Op{Cost: 1 + w.Int64N(min(w.lim.Capacity, 4)), Partial: w.IntN(3) == 0}
			out, d, err := Acquire(nil, w.lim, w.value, w.now, op)
			w.keep(out, err)
			if d.Allowed == 0 {
				continue
			}
			if !op.Partial {
				d.Allowed = op.Cost
			}
			info, err := Inspect(w.value)
			if err != nil {
				t.Fatal(err)
			}
			at, granted = append(at, info.TS), append(granted, d.Allowed)
		}
		checkSpans(t, w.lim, at, granted, 0)
	}
}

// checkSpans allows for slack ms more in each span.
func checkSpans(t *testing.T, l Limit, at, granted []int64, slack int64) {
	t.Helper()
	units := func(n, each int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(each)) }
	for i := range at {
		var sum int64
		for j := i; j < len(at); j++ {
			sum += granted[j]
			bound := units(at[j]-at[i]+slack, l.P)
			if bound.Add(bound, units(l.Capacity, l.Q)); units(sum, l.Q).Cmp(bound) > 0 {
				t.Fatalf("%v granted %d in the span from %d to %d", l, sum, at[i], at[j])
			}
		}
	}
}

// TestLawFirstComeFirstServed: who asks later with MAXWAIT is not let in before who asked earlier, and all of them fit the rate.
func TestLawFirstComeFirstServed(t *testing.T) {
	for seed := range walks() / 8 {
		w := newWalker(t, seed)
		var at, granted []int64
		for range 60 {
			w.now += w.Int64N(1 + min(w.lim.Q/w.lim.P, 1<<30))
			op := Op{Cost: 1 + w.Int64N(min(w.lim.Capacity, 4)), MaxWait: MaxMaxWait}
			out, d, err := Acquire(nil, w.lim, w.value, w.now, op)
			w.keep(out, err)
			if err != nil || d.Allowed == 0 {
				continue
			}
			if n := len(at); n > 0 && at[n-1] > w.now+d.RetryAfter {
				t.Fatalf("%v: let in at %d, the one before at %d", w.lim, w.now+d.RetryAfter, at[n-1])
			}
			at, granted = append(at, w.now+d.RetryAfter), append(granted, op.Cost)
		}
		checkSpans(t, w.lim, at, granted, 1) // waits are rounded up to a ms
	}
}

// TestSustained counts what gets in over many calls (field reports B026, B052, B053).
func TestSustained(t *testing.T) {
	for _, c := range []struct {
		limit           string
		calls           int
		at              func(i int) int64
		atLeast, atMost int
		every           int // if every > 0: exactly the calls 0, every, 2*every, ... get in
	}{
		{limit: "3:3", calls: 100, at: func(i int) int64 { return int64(i) * 100 }, atLeast: 32, atMost: 32},
		{limit: "1:1", calls: 22, at: func(i int) int64 { return int64(i) * 100 }, atLeast: 3, atMost: 3, every: 10},
		{limit: "150:150", calls: 10_000, at: func(i int) int64 { return int64(i) + int64(i%2)*1000 }, atLeast: 150 + 150*10, atMost: 150 + 150*11},
		{limit: "100:1", calls: 1000, at: func(i int) int64 { return int64(i) }, atLeast: 100, atMost: 100, every: 10},
	} {
		lim, err := ParseExpression([]byte(c.limit))
		if err != nil {
			t.Fatal(err)
		}
		var value []byte
		admitted := 0
		for i := range c.calls {
			out, d, err := Acquire(nil, lim, value, rowsEpoch+c.at(i), Op{Cost: 1})
			if err != nil {
				t.Fatal(err)
			}
			if out != nil {
				value = out
				admitted++
			}
			if c.every > 0 && (d.Allowed == 1) != (i%c.every == 0) {
				t.Errorf("%s: call %d answers %+v", c.limit, i, d)
			}
		}
		if admitted < c.atLeast || admitted > c.atMost {
			t.Errorf("%s: %d of %d calls admitted, want %d to %d", c.limit, admitted, c.calls, c.atLeast, c.atMost)
		}
	}
}

// TestExtremes: no number, however large, jams a bucket open or shut.
func TestExtremes(t *testing.T) {
	limits := []string{
		"9223372036854775807/1ms:9205357638345293824", "9223372036854775807/1ms:1", "0.000000001:1", "0.000000001:9205357", "1:9205357638345293", "10:20",
	}
	costs := []int64{0, 1, 2, 1 << 31, 1 << 32, 1 << 53, 1 << 62, math.MaxInt64 - 1, math.MaxInt64}
	for _, text := range limits {
		lim, err := ParseExpression([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, now := range []int64{0, 1, rowsEpoch, MaxNow / 2, MaxNow} {
			var value []byte
			left := lim.Capacity
			for _, cost := range append(costs, lim.Capacity, lim.Capacity-1) {
				out, d, err := Acquire(nil, lim, value, now, Op{Cost: cost})
				if fits := cost <= left; err != nil || fits != (d.Allowed == 1) || (out != nil) != (fits && cost > 0) {
					t.Fatalf("%s at %d with %d left: cost %d answers %+v, %x, %v", text, now, left, cost, d, out, err)
				}
				if out != nil {
					value, left = out, left-cost
				}
				if d.Remaining != left {
					t.Fatalf("%s at %d: %d left, want %d", text, now, d.Remaining, left)
				}
			}
			d, err := Peek(lim, value, now, 0)
			if err != nil || d.ResetAfter > MaxNow-now {
				continue
			}
			if d, err := Peek(lim, value, now+d.ResetAfter, lim.Capacity); d.Allowed != 1 || err != nil {
				t.Errorf("%s: not full after its reset: %+v, %v", text, d, err)
			}
		}
	}
}

// TestOutOfRange: arguments that no parser returns are errors, not surprises.
func TestOutOfRange(t *testing.T) {
	lim := Limit{Algorithm: Bucket, P: 1, Q: 100, Capacity: 20}
	old, _, err := Acquire(nil, lim, nil, rowsEpoch, Op{Cost: 1})
	if err != nil {
		t.Fatal(err)
	}
	acquire := func(l Limit, old []byte, now int64, op Op) error {
		out, d, err := Acquire(nil, l, old, now, op)
		if out != nil || d != (Decision{}) {
			t.Errorf("%+v at %d: %+v, %x with error %v", op, now, d, out, err)
		}
		return err
	}
	refund := func(old []byte, tokens, now int64) error { _, _, err := Refund(nil, old, tokens, now); return err }
	penalize := func(wait, now int64) error { _, _, err := Penalize(nil, lim, old, wait, now); return err }
	for i, err := range []error{
		acquire(lim, old, -1, Op{}), acquire(lim, old, MaxNow+1, Op{}), acquire(lim, nil, math.MinInt64, Op{}), acquire(lim, nil, math.MaxInt64, Op{}),
		acquire(lim, old, 0, Op{Cost: -1}), acquire(lim, old, 0, Op{Cost: math.MinInt64}), acquire(lim, old, 0, Op{MaxWait: -1}),
		acquire(lim, old, 0, Op{MaxWait: MaxMaxWait + 1}), acquire(lim, old, 0, Op{MaxWait: math.MaxInt64}),
		acquire(Limit{}, old, 0, Op{}), acquire(Limit{}, nil, 0, Op{}), acquire(Limit{Algorithm: 14, P: 1, Q: 1, Capacity: 1}, nil, 0, Op{}),
		acquire(Limit{Algorithm: 200, P: 1, Q: 1, Capacity: 1}, nil, 0, Op{}),
		acquire(Limit{Algorithm: Bucket, P: 0, Q: 1, Capacity: 1}, old, 0, Op{}), acquire(Limit{Algorithm: Bucket, P: 1, Q: 0, Capacity: 1}, old, 0, Op{}),
		acquire(Limit{Algorithm: Bucket, P: 1, Q: 1, Capacity: 0}, old, 0, Op{}), acquire(Limit{Algorithm: Bucket, P: 1, Q: -1, Capacity: -1}, nil, 0, Op{}),
		acquire(Limit{Algorithm: Bucket, P: 1, Q: 1000, Capacity: math.MaxInt64}, nil, 0, Op{}), acquire(Limit{Algorithm: Bucket, P: 1, Q: maxPeriod + 1, Capacity: 1}, nil, 0, Op{}),
		acquire(lim, []byte("x"), 0, Op{}), refund(nil, 1, 0), refund(old, -1, 0), refund(old, 1, -1), refund(old, 1, MaxNow+1),
		penalize(-1, 0), penalize(MaxPenalty+1, 0), penalize(math.MaxInt64, 0), penalize(0, -1), penalize(0, MaxNow+1),
	} {
		if err == nil {
			t.Errorf("case %d is accepted", i)
		}
	}
}

// TestAcquireDoesNotAllocate covers the hot path, granted and refused.
func TestAcquireDoesNotAllocate(t *testing.T) {
	lim := Limit{Algorithm: Bucket, P: 1, Q: 100, Capacity: 20}
	old, _, err := Acquire(nil, lim, nil, rowsEpoch, Op{Cost: 1})
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 0, EntryRoom)
	if n := testing.AllocsPerRun(100, func() {
		_, d, err := Acquire(dst, lim, old, rowsEpoch, Op{Cost: 1})
		_, refused, err2 := Acquire(dst, lim, old, rowsEpoch, Op{Cost: 20})
		if d.Allowed != 1 || refused.Allowed != 0 || err != nil || err2 != nil {
			t.Fatal(d, refused, err, err2)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
