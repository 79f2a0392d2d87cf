package engine

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// walks is how many random walks a law is tried on for each algorithm.
func walks() int {
	if testing.Short() {
		return 250
	}
	return 3000
}

// eachAlgorithm runs a law on all rows of the table.
func eachAlgorithm(t *testing.T, law func(t *testing.T, a Algorithm)) {
	t.Helper()
	for i := range algorithms {
		if a := Algorithm(i); a.row() != nil {
			t.Run(a.String(), func(t *testing.T) {
				t.Parallel()
				law(t, a)
			})
		}
	}
}

// walker takes random steps with one key.
type walker struct {
	*rand.Rand
	t     *testing.T
	lim   Limit
	value []byte
	now   int64
}

func newWalker(t *testing.T, a Algorithm, seed int) *walker {
	w := &walker{Rand: rand.New(rand.NewPCG(uint64(seed), 7)), t: t}
	w.lim = w.limit(a)
	w.now = [...]int64{0, 1_700_000_000_000, MaxNow - 1<<40}[w.IntN(3)] + w.Int64N(1000)
	return w
}

// limit is an ordinary one or one near a bound.
func (w *walker) limit(a Algorithm) Limit {
	l := Limit{Algorithm: a}
	if w.IntN(4) == 0 {
		l.Name = "wb:orders"
	}
	largest := a.row().largest
	if a.row().windowed {
		l.Window = 1 + w.Int64N(2000)
		l.Aligned = a == Fixed && w.IntN(2) == 0
		if w.IntN(8) == 0 {
			l.Window = maxPeriod >> w.IntN(40)
		}
	} else {
		l.P, l.Q = w.rate()
		largest = maxUnits / l.Q
	}
	l.Capacity = 1 + w.Int64N(min(largest, 30))
	if w.IntN(8) == 0 {
		l.Capacity = max(largest>>w.IntN(64), 1)
	}
	return l
}

func (w *walker) rate() (p, q int64) {
	p, q = 1+w.Int64N(20), 1+w.Int64N(2000)
	switch w.IntN(8) {
	case 0:
		p = math.MaxInt64 >> w.IntN(63)
	case 1:
		q = maxPeriod >> w.IntN(40)
	}
	d := commonDivisor(p, q)
	return p / d, q / d
}

// step moves the time, mostly a little on, sometimes back, sometimes to the edge of a window.
func (w *walker) step() {
	stride := w.lim.Window
	if stride == 0 {
		stride = 3 * max(w.lim.Q/w.lim.P, 1)
	}
	stride = min(stride, 1<<40)
	switch w.IntN(7) {
	case 0:
	case 1:
		w.now -= w.Int64N(stride)
	case 2:
		w.now += w.Int64N(1 << 20)
	case 3:
		if w.lim.Window > 0 {
			w.now += w.lim.Window - w.now%w.lim.Window - w.Int64N(2)
		}
	case 4:
		w.now += w.Int64N(max(stride/8, 1))
	default:
		w.now += w.Int64N(stride)
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
	op := Op{Cost: w.cost()}
	switch w.IntN(5) {
	case 0:
		w.lim = w.limit(w.lim.Algorithm)
	case 1:
		out, _, err = Penalize(nil, w.lim, w.value, w.Int64N(5000), w.now)
	case 2:
		op.Force = w.lim.Algorithm == Bucket
		out, _, err = Acquire(nil, w.lim, w.value, w.now, op)
	case 3:
		if w.lim.Algorithm == Bucket {
			op.MaxWait = 1 + w.Int64N(MaxMaxWait)
		}
		out, _, err = Acquire(nil, w.lim, w.value, w.now, op)
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
	if w.lim.Algorithm != Bucket {
		return op
	}
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
	eachAlgorithm(t, func(t *testing.T, a Algorithm) {
		for seed := range walks() {
			w := newWalker(t, a, seed)
			for range 30 {
				w.step()
				if w.IntN(3) == 0 {
					w.disturb()
				}
				w.checkCall(w.op())
			}
		}
	})
}

// checkCall makes a call and looks at it from all sides.
func (w *walker) checkCall(op Op) {
	w.t.Helper()
	before := bytes.Clone(w.value)
	out, d, err := Acquire(nil, w.lim, w.value, w.now, op)
	if !bytes.Equal(before, w.value) {
		w.t.Fatal("the old bytes were written to")
	}
	if err == nil {
		w.checkAnswer(op, out, d)
		w.checkWait(op, out, d)
		w.checkReset(out, d)
		w.checkLate(op, out, d)
	}
	w.keep(out, err)
	w.checkStored()
	w.checkIdle()
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
	// A state ahead under other terms is answered as of when it is certain, and so may be told to wait too long: see carryAhead.
	stored, _ := StoredLimit(w.value)
	longer := IsAhead(w.value) && stored != w.lim
	if at(w.now+d0.RetryAfter) == 0 || at(w.now+d0.RetryAfter-1) != 0 && !longer {
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
	if len(w.value) == 0 || op.MaxWait != 0 {
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

// checkStored: what is stored reads back to the same bytes, and says under a limit what a peek under it says.
func (w *walker) checkStored() {
	w.t.Helper()
	if w.value == nil {
		return
	}
	again, err := Rebase(nil, w.value, MaxNow)
	if err != nil || !bytes.Equal(again, w.value) {
		w.t.Fatalf("%x is rebased to %x, %v", w.value, again, err)
	}
	info, err := Inspect(w.value)
	stored, _ := StoredLimit(w.value)
	if err != nil || info.Limit != stored || string(Name(w.value)) != stored.Name {
		w.t.Fatalf("%x: %+v, %+v, name %s, %v", w.value, info, stored, Name(w.value), err)
	}
	other := w.limit(w.lim.Algorithm)
	for _, l := range []Limit{stored, other} {
		d, err := Peek(l, w.value, info.TS, 0)
		under, err2 := InspectUnder(l, w.value)
		if (err == nil) != (err2 == nil) {
			w.t.Fatalf("%x under %v: peek %v, inspect %v", w.value, l, err, err2)
		}
		if err != nil {
			continue
		}
		if got := ResetUnder(l, w.value, info.TS); got != d.ResetAfter {
			w.t.Fatalf("%x under %v: ResetUnder says %d, a peek %+v", w.value, l, got, d)
		}
		if left := max(l.Capacity-under.Used, 0); l.Algorithm != Bucket && info.BlockedUntil == 0 && d.Remaining != left {
			w.t.Fatalf("%x under %v: InspectUnder says %+v, a peek %+v", w.value, l, under, d)
		}
	}
	if got := Reset(w.value, info.TS); got != ResetUnder(stored, w.value, info.TS) {
		w.t.Fatalf("%x: Reset says %d", w.value, got)
	}
	w.checkRefund(stored, other)
}

// checkRefund: a refund goes by the limit stored, or by another one, and then a peek under that one says what the refund said.
func (w *walker) checkRefund(stored, other Limit) {
	w.t.Helper()
	tokens := w.cost()
	out, d, err := Refund(nil, w.value, tokens, w.now)
	same, d2, err2 := RefundUnder(nil, stored, w.value, tokens, w.now)
	if !bytes.Equal(out, same) || d != d2 || err != nil || err2 != nil {
		w.t.Fatalf("%x: %x %+v %v, under the stored limit %x %+v %v", w.value, out, d, err, same, d2, err2)
	}
	for _, l := range []Limit{stored, other} {
		out, d, err := RefundUnder(nil, l, w.value, tokens, w.now)
		if err != nil {
			w.keep(nil, err)
			continue
		}
		if out == nil {
			out = w.value
		}
		peek, err := Peek(l, out, w.now, 0)
		peek.Allowed, peek.RetryAfter = 1, 0
		if peek != d || err != nil {
			w.t.Fatalf("%x at %d: %d refunded under %v answers %+v, a peek %+v, %v", w.value, w.now, tokens, l, d, peek, err)
		}
	}
}

// checkIdle: an entry that may be dropped answers as an absent key does, to the last byte.
func (w *walker) checkIdle() {
	w.t.Helper()
	if w.value == nil {
		return
	}
	stored, err := StoredLimit(w.value)
	now := Reset(w.value, 0)
	if err != nil || now > MaxNow {
		return
	}
	op := w.op()
	out, d, err := Acquire(nil, stored, w.value, now, op)
	fresh, want, err2 := Acquire(nil, stored, nil, now, op)
	if d != want || !bytes.Equal(out, fresh) || (err == nil) != (err2 == nil) {
		w.t.Fatalf("%v %x may be dropped at %d, but %+v answers %+v %x, an absent key %+v %x", stored, w.value, now, op, d, out, want, fresh)
	}
}

// TestLawTimeNeverRunsBack: ts only grows, whatever comes.
func TestLawTimeNeverRunsBack(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, a Algorithm) {
		for seed := range walks() / 4 {
			w := newWalker(t, a, seed)
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
	})
}

// TestLawRebased: bytes brought to an earlier time say there what they said before, but that nothing is forgotten later than it was.
func TestLawRebased(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, a Algorithm) {
		for seed := range walks() {
			w := newWalker(t, a, seed)
			for range 6 {
				w.step()
				w.disturb()
			}
			if w.value == nil {
				continue
			}
			before, err := Inspect(w.value)
			if err != nil {
				t.Fatal(err)
			}
			limit := before.TS - w.Int64N(before.TS+1)>>w.IntN(50)
			out, err := Rebase([]byte("x"), w.value, limit)
			if err != nil {
				t.Fatal(err)
			}
			after, err := Inspect(out[1:])
			want := before
			want.TS = limit
			if before.BlockedUntil != 0 {
				want.BlockedUntil -= before.TS - limit
			}
			if after != want || err != nil {
				t.Fatalf("%x brought to %d is %+v, %v, want %+v", w.value, limit, after, err, want)
			}
			if _, err := Rebase(nil, out[1:], MaxNow); err != nil {
				t.Fatalf("%x brought to %d is %x: %v", w.value, limit, out[1:], err)
			}
		}
	})
}

// grant is what a call was granted, or a refund gave back, at a time of the entry.
type grant struct{ at, granted, refunded int64 }

// TestLawGranted: in any span of the entry's time no more is granted than the algorithm allows, and refunded.
func TestLawGranted(t *testing.T) {
	eachAlgorithm(t, func(t *testing.T, a Algorithm) {
		for seed := range walks() / 4 {
			w := newWalker(t, a, seed)
			refunds := w.IntN(2)
			var grants []grant
			for range 60 {
				w.step()
				grants = append(grants, w.granted(refunds > 0 && w.value != nil && w.IntN(4) == 0))
			}
			if a == Bucket {
				checkSpans(t, w.lim, grants, 0)
			} else {
				checkWindows(t, w.lim, grants)
			}
		}
	})
}

// granted calls or refunds.
func (w *walker) granted(refund bool) (g grant) {
	op := Op{Cost: 1 + w.Int64N(min(w.lim.Capacity, 4)), Partial: w.lim.Algorithm == Bucket && w.IntN(3) == 0}
	var out []byte
	var d Decision
	var err error
	if refund {
		out, _, err = Refund(nil, w.value, op.Cost, w.now)
		g.refunded = op.Cost
	} else {
		out, d, err = Acquire(nil, w.lim, w.value, w.now, op)
		g.granted = d.Allowed
		if !op.Partial {
			g.granted *= op.Cost
		}
	}
	w.keep(out, err)
	if out == nil {
		return grant{}
	}
	info, err := Inspect(w.value)
	if err != nil {
		w.t.Fatal(err)
	}
	g.at = info.TS
	return g
}

// checkWindows adds up what each window was granted, by nothing but the times: in the log's case the window that ends with each grant, in
// the others those that the contract lays down.
func checkWindows(t *testing.T, l Limit, grants []grant) {
	t.Helper()
	net, start := int64(0), int64(math.MinInt64)
	for i, g := range grants {
		if g == (grant{}) {
			continue
		}
		switch {
		case l.Algorithm == Log:
			net = 0
			for _, earlier := range grants[:i+1] {
				if earlier.at > g.at-l.Window {
					net += earlier.granted - earlier.refunded
				}
			}
		case l.Algorithm == Fixed && !l.Aligned:
			if start == math.MinInt64 || net <= 0 || g.at-start >= l.Window {
				net, start = 0, g.at
			}
			net += g.granted - g.refunded
		default:
			if slot := g.at - g.at%l.Window; slot != start {
				net, start = 0, slot
			}
			net += g.granted - g.refunded
		}
		if net > l.Capacity {
			t.Fatalf("%v: %d granted and not refunded in the window of the call at %d: %+v", l, net, g.at, grants[:i+1])
		}
	}
}

// checkSpans allows for slack ms more in each span of a bucket's time.
func checkSpans(t *testing.T, l Limit, grants []grant, slack int64) {
	t.Helper()
	units := func(n, each int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(each)) }
	for i, first := range grants {
		var sum int64
		for _, g := range grants[i:] {
			if sum += g.granted - g.refunded; first == (grant{}) || g == (grant{}) {
				continue
			}
			bound := units(g.at-first.at+slack, l.P)
			if bound.Add(bound, units(l.Capacity, l.Q)); units(sum, l.Q).Cmp(bound) > 0 {
				t.Fatalf("%v granted %d in the span from %d to %d", l, sum, first.at, g.at)
			}
		}
	}
}

// TestLawFirstComeFirstServed: who asks later with MAXWAIT is not let in before who asked earlier, and all of them fit the rate.
func TestLawFirstComeFirstServed(t *testing.T) {
	for seed := range walks() / 8 {
		w := newWalker(t, Bucket, seed)
		var grants []grant
		for range 60 {
			w.now += w.Int64N(1 + min(w.lim.Q/w.lim.P, 1<<30))
			op := Op{Cost: 1 + w.Int64N(min(w.lim.Capacity, 4)), MaxWait: MaxMaxWait}
			out, d, err := Acquire(nil, w.lim, w.value, w.now, op)
			w.keep(out, err)
			if err != nil || d.Allowed == 0 {
				continue
			}
			if n := len(grants); n > 0 && grants[n-1].at > w.now+d.RetryAfter {
				t.Fatalf("%v: let in at %d, the one before at %d", w.lim, w.now+d.RetryAfter, grants[n-1].at)
			}
			grants = append(grants, grant{at: w.now + d.RetryAfter, granted: op.Cost})
		}
		checkSpans(t, w.lim, grants, 1) // waits are rounded up to a ms
	}
}

// TestSustained counts what gets in over many calls (field reports B026, B051, B052, B053, B058).
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
		{limit: "fixed:5/1s", calls: 50, at: func(i int) int64 { return int64(i) * 100 }, atLeast: 25, atMost: 25},
		{limit: "log:1/1s", calls: 100, at: func(i int) int64 { return int64(i) * 100 }, atLeast: 10, atMost: 10, every: 10},
		{limit: "log:10/10m", calls: 21, at: func(i int) int64 { return int64(i) * 30_000 }, atLeast: 11, atMost: 11},
		{limit: "log:10/10m", calls: 60_000, at: func(i int) int64 { return int64(i) }, atLeast: 10, atMost: 10},
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
		"fixed:4611686018427387903/11574d", "fixed-aligned:4611686018427387903/1ms", "fixed:1/1ms", "sliding:4611686018427387903/11574d",
		"sliding:4611686018427387903/1ms", "sliding:1/11574d", "log:4096/11574d", "log:4096/1ms",
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

// TestOutOfRangeWindows: nor are they where windows are concerned.
func TestOutOfRangeWindows(t *testing.T) {
	for i, l := range []Limit{
		{Algorithm: Fixed, Capacity: 1}, {Algorithm: Fixed, Window: 1}, {Algorithm: Fixed, Window: -1, Capacity: 1}, {Algorithm: Fixed, Window: 1, Capacity: -1},
		{Algorithm: Sliding, Window: 1, Capacity: maxCount + 1}, {Algorithm: Sliding, Window: maxPeriod + 1, Capacity: 1}, {Algorithm: Log, Window: 1, Capacity: 4097},
		{Algorithm: Log, Window: 1, Capacity: 1, Aligned: true}, {Algorithm: Sliding, Window: 1, Capacity: 1, Aligned: true}, {Algorithm: Fixed, Window: 1, Capacity: 1, P: 1},
		{Algorithm: Fixed, Window: 1, Capacity: 1, Q: 1}, {Algorithm: Bucket, P: 1, Q: 1, Capacity: 1, Window: 1}, {Algorithm: Bucket, P: 1, Q: 1, Capacity: 1, Aligned: true},
		{Algorithm: Bucket, P: 1, Q: 1, Capacity: 1, Name: strings.Repeat("n", MaxNameBytes+1)}, {Algorithm: Log, Window: 1, Capacity: 1, Name: strings.Repeat("n", MaxNameBytes+1)},
	} {
		out, d, err := Acquire(nil, l, nil, rowsEpoch, Op{Cost: 1})
		if err == nil || out != nil || d != (Decision{}) {
			t.Errorf("case %d: %+v, %x, %v", i, d, out, err)
		}
	}
	for a := range algorithms {
		for _, op := range []Op{{Cost: 1, Force: true}, {Cost: 1, Partial: true}, {Cost: 1, MaxWait: 1}, {Cost: -1}, {Cost: 1, Force: true, Partial: true, MaxWait: 1}} {
			l := Limit{Algorithm: Algorithm(a), Window: 1000, Capacity: 5}
			if _, _, err := Acquire(nil, l, nil, rowsEpoch, op); err == nil {
				t.Errorf("%v takes %+v", l.Algorithm, op)
			}
		}
	}
	for _, a := range []Algorithm{0, Bucket, 9, 255} {
		if l, err := ParseWindow(a, []byte("5"), []byte("1m")); err == nil || l != (Limit{}) {
			t.Errorf("%v has no windows, but parses %+v", a, l)
		}
	}
}

// TestAcquireDoesNotAllocate covers the hot path, granted and refused.
func TestAcquireDoesNotAllocate(t *testing.T) {
	for _, expr := range []string{"10:20", "fixed:20/1m", "fixed-aligned:20/1m", "sliding:20/1m", "log:20/1m"} {
		for _, name := range []string{"", "wb:orders"} {
			lim := named(must(t, expr), name)
			old, _, err := Acquire(nil, lim, nil, rowsEpoch, Op{Cost: 1})
			if err != nil {
				t.Fatal(err)
			}
			dst := make([]byte, 0, 3*EntryRoom)
			if n := testing.AllocsPerRun(100, func() {
				_, d, err := Acquire(dst, lim, old, rowsEpoch, Op{Cost: 1})
				_, refused, err2 := Acquire(dst, lim, old, rowsEpoch, Op{Cost: 20})
				reset := ResetUnder(lim, old, rowsEpoch)
				if d.Allowed != 1 || refused.Allowed != 0 || err != nil || err2 != nil || reset == 0 || string(Name(old)) != name {
					t.Fatal(d, refused, err, err2, reset)
				}
			}); n != 0 {
				t.Errorf("%s %s: %v allocations", expr, name, n)
			}
		}
	}
}
