package engine

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// The oracle answers from the contract and from what happened, in exact fractions of tokens: it remembers no credit, only the list of
// effects so far, and replays all of it for each question. It reads the arguments by itself and shares no code with the engine.

// event is a call as its raw arguments.
type event struct {
	verb           string // acquire, peek, refund, penalize
	rate, burst    string
	expr           string // instead of rate and burst
	now            string
	amount         string // cost, tokens or wait
	maxWait        string
	partial, force bool
}

func (e event) String() string {
	s := fmt.Sprintf("limit %s\n=%s, ", strings.TrimLeft(e.expr+" "+e.rate+" "+e.burst, " "), e.now)
	if e.verb != "acquire" {
		s += e.verb + " "
	}
	s += e.amount
	if e.maxWait != "" {
		s += " MAXWAIT " + e.maxWait
	}
	if e.partial {
		s += " PARTIAL"
	}
	if e.force {
		s += " FORCE"
	}
	return s
}

// reply is what the oracle expects of an event.
type reply struct {
	five    [5]int64 // allowed, retry_after, remaining, reset_after, limit
	failed  bool     // an error; five is then zero
	changed bool
}

// terms are a limit in fractions.
type terms struct {
	rate  *big.Rat // tokens per ms
	burst *big.Rat // tokens
	units *big.Int // into how many units the contract divides a token: credit is a whole number of them
}

// effect is something that happened to the key.
type effect struct {
	at    int64
	terms terms
	delta *big.Rat // tokens given; negative for a debit
	until int64    // end of a penalty, or 0
}

type oracle struct {
	happened []effect
	known    map[string]terms // limits read so far
}

// holdable is what the contract lets a bucket miss, in units: all waits then fit 64 bits with two times added.
var holdable = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 63), new(big.Int).Lsh(big.NewInt(1), 54))

var oracleUnits = map[string]int64{"ms": 1, "s": 1e3, "m": 60e3, "h": 3600e3, "d": 86400e3}

// span reads "250ms", "5m", "m" (one) and, for waits, "250".
func span(text string) int64 {
	digits := strings.TrimRight(text, "mshd")
	n := int64(1)
	if digits != "" {
		n, _ = strconv.ParseInt(digits, 10, 64)
	}
	if unit := text[len(digits):]; unit != "" {
		n *= oracleUnits[unit]
	}
	return n
}

// read returns the terms of a limit, not ok if a full bucket cannot be held.
func (o *oracle) read(rate, burst string) (terms, bool) {
	text := rate + " " + burst
	m, ok := o.known[text]
	if !ok {
		count, period, perPeriod := strings.Cut(rate, "/")
		m.rate, _ = new(big.Rat).SetString(count)
		m.burst, _ = new(big.Rat).SetString(burst)
		ms := int64(1000)
		if perPeriod {
			ms = span(period)
		}
		m.rate.Quo(m.rate, new(big.Rat).SetInt64(ms))
		m.units = new(big.Int).Set(m.rate.Denom())
		o.known[text] = m
	}
	return m, new(big.Int).Mul(m.burst.Num(), m.units).Cmp(holdable) <= 0
}

// tokens replays what happened and returns the tokens there are at t under m.
func (o *oracle) tokens(m terms, t int64) *big.Rat {
	if len(o.happened) == 0 {
		return m.burst
	}
	first := o.happened[0]
	level, at, in := new(big.Rat).Set(first.terms.burst), first.at, first.terms
	for _, e := range o.happened {
		bring(level, in, e.terms, e.at-at)
		if level.Add(level, e.delta); level.Cmp(e.terms.burst) > 0 {
			level.Set(e.terms.burst)
		}
		at, in = e.at, e.terms
	}
	bring(level, in, m, t-at)
	return level
}

// bring carries a level over to other terms, rounded down to their unit, and ms on, at their rate.
func bring(level *big.Rat, from, to terms, ms int64) {
	if from.units.Cmp(to.units) != 0 {
		whole := new(big.Int).Mul(level.Num(), to.units)
		whole.Div(whole, level.Denom()) // Euclid's: down for a positive divisor
		level.SetFrac(whole, to.units)
	}
	if ms > 0 {
		gained := new(big.Rat).SetInt64(ms)
		level.Add(level, gained.Mul(gained, to.rate))
	}
	if level.Cmp(to.burst) > 0 {
		level.Set(to.burst)
	}
}

// wait is how long it takes until there are tokens instead of level, in ms rounded up.
func (m terms) wait(tokens, level *big.Rat) int64 {
	q := new(big.Rat).Sub(tokens, level)
	if q.Sign() <= 0 {
		return 0
	}
	q.Quo(q, m.rate)
	up := new(big.Int).Add(q.Num(), q.Denom())
	up.Sub(up, big.NewInt(1))
	return up.Quo(up, q.Denom()).Int64()
}

// holds tells whether what level misses to the burst can be held.
func (m terms) holds(level *big.Rat) bool {
	missing := new(big.Rat).Sub(m.burst, level)
	return missing.Mul(missing, new(big.Rat).SetInt(m.units)).Cmp(new(big.Rat).SetInt(holdable)) <= 0
}

// moment is the time of the last effect and the end of the longest penalty.
func (o *oracle) moment() (last, until int64) {
	for _, e := range o.happened {
		last, until = e.at, max(until, e.until)
	}
	return last, until
}

// ask decides an event and lets it happen.
func (o *oracle) ask(e event) reply {
	now, _ := strconv.ParseInt(e.now, 10, 64)
	m, ok := o.read(e.rate, e.burst)
	if e.verb == "refund" && len(o.happened) > 0 {
		m, ok = o.happened[len(o.happened)-1].terms, true
	}
	if !ok || e.verb == "refund" && len(o.happened) == 0 {
		return reply{failed: true}
	}
	last, until := o.moment()
	c := oracleCall{oracle: o, event: e, m: m, t: max(now, last), until: until}
	c.late = c.t - now
	c.level = o.tokens(m, c.t)
	if !m.holds(c.level) {
		return reply{failed: true}
	}
	switch e.verb {
	case "refund":
		return c.refund()
	case "penalize":
		return c.penalize()
	}
	return c.acquire()
}

// oracleCall is one event with what is known about its moment.
type oracleCall struct {
	*oracle
	event
	m              terms
	t, late, until int64
	level          *big.Rat
}

func (c *oracleCall) happen(delta *big.Rat, until int64) {
	c.happened = append(c.happened, effect{at: c.t, terms: c.m, delta: delta, until: until})
}

func (c *oracleCall) refund() reply {
	n, _ := new(big.Rat).SetString(c.amount)
	changed := n.Sign() > 0 && c.level.Cmp(c.m.burst) < 0
	if changed {
		c.happen(n, 0)
		c.level = c.tokens(c.m, c.t)
	}
	return c.answer(1, 0, changed)
}

func (c *oracleCall) penalize() reply {
	end := c.t + span(c.amount)
	changed := end > c.t && end > c.until
	r := c.event
	r.verb, r.amount = "peek", "1"
	peek := *c
	peek.event, peek.until = r, max(c.until, end)
	answer := peek.acquire()
	if changed {
		c.happen(new(big.Rat), end)
	}
	answer.changed = changed
	return answer
}

func (c *oracleCall) acquire() reply {
	cost, _ := new(big.Rat).SetString(c.amount)
	patience := int64(0)
	if c.maxWait != "" {
		patience = span(c.maxWait)
	}
	if c.force && (c.partial || patience > 0) || c.partial && (patience > 0 || cost.Sign() == 0) {
		return reply{failed: true}
	}
	held := max(c.until-c.t, 0)
	if c.partial {
		there := new(big.Rat).SetInt(new(big.Int).Div(c.level.Num(), c.level.Denom()))
		if there.Cmp(cost) > 0 {
			there = cost
		}
		if held == 0 && there.Sign() > 0 {
			return c.debit(there, there.Num().Int64(), 0)
		}
		return c.answer(0, c.late+max(held, c.m.wait(big.NewRat(1, 1), c.level)), false)
	}
	wait := max(held, c.m.wait(cost, c.level))
	never := cost.Cmp(c.m.burst) > 0
	switch {
	case !never && wait == 0:
		return c.debit(cost, 1, 0)
	case c.force:
		after := new(big.Rat).Sub(c.level, cost)
		return c.debit(cost, 0, c.late+max(held, c.m.wait(new(big.Rat), after)))
	case never:
		return c.answer(0, -1, false)
	case patience > 0 && c.late+wait <= patience:
		return c.debit(cost, 1, c.late+wait)
	}
	return c.answer(0, c.late+wait-patience, false)
}

// debit takes cost out, if the debt can be held, and answers.
func (c *oracleCall) debit(cost *big.Rat, allowed, retry int64) reply {
	after := new(big.Rat).Sub(c.level, cost)
	if !c.m.holds(after) {
		return reply{failed: true}
	}
	if c.verb == "peek" {
		return c.answer(allowed, retry, false)
	}
	c.level = after
	changed := cost.Sign() > 0
	if changed {
		c.happen(new(big.Rat).Neg(cost), 0)
	}
	return c.answer(allowed, retry, changed)
}

func (c *oracleCall) answer(allowed, retry int64, changed bool) reply {
	left := int64(0)
	if c.level.Sign() > 0 {
		left = new(big.Int).Quo(c.level.Num(), c.level.Denom()).Int64()
	}
	reset := c.m.wait(c.m.burst, c.level)
	if held := c.until - c.t; held > 0 {
		left, reset = 0, max(reset, held)
	}
	if reset > 0 {
		reset += c.late
	}
	return reply{five: [5]int64{allowed, retry, left, reset, c.m.burst.Num().Int64()}, changed: changed}
}

// answerOf is what the engine makes of an event. An error counts as one whether the arguments or the decision were refused.
func answerOf(e event, value []byte) (next []byte, r reply) {
	lim, err := ParseLimit([]byte(e.rate), []byte(e.burst))
	if e.expr != "" {
		lim, err = ParseExpression([]byte(e.expr))
	}
	if err != nil && e.verb != "refund" {
		return value, reply{failed: true}
	}
	now, err := ParseNow([]byte(e.now))
	if err != nil {
		return value, reply{failed: true}
	}
	var out []byte
	var d Decision
	switch e.verb {
	case "refund":
		var n int64
		if n, err = ParseTokens("tokens", []byte(e.amount)); err == nil {
			out, d, err = Refund(nil, value, n, now)
		}
	case "penalize":
		var wait int64
		if wait, err = ParseWait("wait", []byte(e.amount), MaxPenalty); err == nil {
			out, d, err = Penalize(nil, lim, value, wait, now)
		}
	case "peek":
		var cost int64
		if cost, err = ParseCost([]byte(e.amount)); err == nil {
			d, err = Peek(lim, value, now, cost)
		}
	default:
		op := Op{Partial: e.partial, Force: e.force}
		op.Cost, err = ParseCost([]byte(e.amount))
		if err == nil && e.maxWait != "" {
			op.MaxWait, err = ParseWait("MAXWAIT", []byte(e.maxWait), MaxMaxWait)
		}
		if err == nil {
			out, d, err = Acquire(nil, lim, value, now, op)
		}
	}
	r = reply{five: [5]int64{d.Allowed, d.RetryAfter, d.Remaining, d.ResetAfter, d.Limit}, failed: err != nil, changed: out != nil}
	if out != nil {
		value = out
	}
	return value, r
}

// TestOracle lets engine and oracle answer the same random sequences.
func TestOracle(t *testing.T) {
	sequences, parts := 100_000, 4
	if testing.Short() {
		sequences = 4000
	}
	for part := range parts {
		t.Run(strconv.Itoa(part), func(t *testing.T) {
			t.Parallel()
			known := map[string]terms{}
			for i := part; i < sequences; i += parts {
				if len(known) > 10_000 {
					clear(known)
				}
				if report := compare(generate(i), known); report != "" {
					t.Fatalf("sequence %d:\n%s", i, report)
				}
			}
		})
	}
}

// compare plays a sequence to both and reports the first difference, "" if there is none.
func compare(events []event, known map[string]terms) (report string) {
	o := &oracle{known: known}
	var value []byte
	for i, e := range events {
		before := value
		var got reply
		value, got = answerOf(e, value)
		want := o.ask(e)
		if got != want {
			var all strings.Builder
			for _, e := range events[:i+1] {
				fmt.Fprintln(&all, e)
			}
			return fmt.Sprintf("%sbytes before %x\n got %+v\nwant %+v", all.String(), before, got, want)
		}
	}
	if len(o.happened) == 0 {
		if value != nil {
			return fmt.Sprintf("%v\nstored %x, want nothing", events, value)
		}
		return ""
	}
	return compareStored(o, value, events)
}

// compareStored looks at what is left behind.
func compareStored(o *oracle, value []byte, events []event) (report string) {
	last, until := o.moment()
	m := o.happened[len(o.happened)-1].terms
	level := o.tokens(m, last)
	var tokens string
	if digits, finite := level.FloatPrec(); finite {
		tokens = level.FloatString(digits)
	} else {
		scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(12), nil)
		down := new(big.Int).Mul(level.Num(), scale)
		down.Div(down, level.Denom())
		cut := new(big.Rat).SetFrac(down, scale)
		digits, _ := cut.FloatPrec()
		tokens = cut.FloatString(digits)
	}
	if until <= last {
		until = 0
	}
	clock := last / 2
	idle := max(last+m.wait(m.burst, level), until) - clock
	info, err := Inspect(value)
	if err != nil || info.Tokens != tokens || info.TS != last || info.BlockedUntil != until || Reset(value, clock) != idle {
		return fmt.Sprintf("%v\nstored %+v, reset %d, %v\nwant %s tokens at %d, blocked until %d, reset %d", events, info, Reset(value, clock), err, tokens, last, until, idle)
	}
	return ""
}

// maker makes the events of one sequence.
type maker struct {
	*rand.Rand
	kind        int // 0, 1 ordinary; 2 edge; 3 adversarial
	rate, burst string
	now         int64
}

// generate returns sequence number i; the same number gives the same sequence.
func generate(i int) []event {
	m := maker{Rand: rand.New(rand.NewPCG(uint64(i), 2)), kind: i % 4}
	m.now = rowsEpoch + m.Int64N(1000)
	if m.kind >= 2 {
		m.now = [...]int64{0, m.now, MaxNow - 1<<m.IntN(53)}[m.IntN(3)]
	}
	m.limit()
	events := make([]event, 2+m.IntN(8))
	for j := range events {
		events[j] = m.event()
	}
	return events
}

var (
	ordinaryRates = []string{"10", "1", "0.5", "100", "5/1m", "100/1h", "1000/d", "3/7s", "1000", "2.5", "3", "0.0001", "150", "1/3ms", "8000", "7/13s"}
	edgeRates     = []string{
		"0.000000001", "9223372036854775807/1ms", "1/11574d", "9223372036.854775807", "9223372036854775807", "1/ms", "1/999999999989ms",
		"999999999989/999999999959ms", "0.999999999", "1/1000000000000ms", "1/549755813888ms", "4611686018427387904/3ms", "1000000007/1h",
	}
)

func pick[T any](m *maker, list []T) T { return list[m.IntN(len(list))] }

func (m *maker) limit() {
	if m.kind < 2 || m.IntN(3) == 0 {
		m.rate, m.burst = pick(m, ordinaryRates), strconv.Itoa(1+m.IntN(30))
		return
	}
	m.rate = pick(m, edgeRates)
	switch m.IntN(3) {
	case 0:
		m.rate = strconv.FormatInt(1+m.Int64N(1<<m.IntN(62)), 10) + "/" + strconv.FormatInt(1+m.Int64N(1<<m.IntN(39)), 10) + "ms"
	case 1:
		m.rate = strconv.Itoa(m.IntN(1000)) + "." + strconv.Itoa(1+m.IntN(1_000_000))
	}
	m.burst = strconv.FormatInt(1+m.Int64N(1<<m.IntN(60)), 10)
	if m.IntN(2) == 0 { // at what can just be held, or just not
		o := oracle{known: map[string]terms{}}
		terms, _ := o.read(m.rate, "1")
		most := new(big.Int).Quo(holdable, terms.units).Int64()
		m.burst = strconv.FormatInt(max(most-m.Int64N(4)+1, 1), 10)
	}
}

func (m *maker) event() event {
	if m.IntN([]int{20, 6, 6, 2}[m.kind]) == 0 {
		m.limit()
	}
	m.step()
	e := event{verb: "acquire", rate: m.rate, burst: m.burst, now: strconv.FormatInt(m.now, 10), amount: m.amount()}
	switch m.IntN(16) {
	case 0, 1:
		e.verb = "peek"
	case 2, 3:
		e.verb = "refund"
	case 4:
		e.verb, e.amount = "penalize", pick(m, []string{"0", "1", "250", "2s", "1m", "1h", "365d", strconv.Itoa(m.IntN(5000))})
	case 5, 6, 7:
		e.maxWait = pick(m, []string{"1", "250ms", "2s", "1m", "1h", "1d", strconv.Itoa(1 + m.IntN(5000))})
	case 8, 9:
		e.partial = true
	case 10, 11:
		e.force = true
	}
	if m.IntN(50) == 0 {
		e.force = true // perhaps together with what it excludes
	}
	if e.verb != "acquire" {
		e.force = false
	}
	return e
}

func (m *maker) step() {
	back := 10
	if m.kind == 3 {
		back = 3
	}
	switch m.IntN(4) {
	case 0:
		m.now += m.Int64N(100)
	case 1:
		m.now += m.Int64N(5000)
	case 2:
		m.now += m.Int64N(1 << m.IntN([]int{20, 20, 50, 40}[m.kind]))
	}
	if m.IntN(back) == 0 {
		m.now -= m.Int64N(1 << m.IntN([]int{12, 12, 50, 40}[m.kind]))
	}
	m.now = min(max(m.now, 0), MaxNow)
}

func (m *maker) amount() string {
	burst, err := strconv.ParseInt(m.burst, 10, 64)
	if err != nil {
		return "1"
	}
	switch m.IntN(8) {
	case 0:
		return "0"
	case 1:
		return m.burst
	case 2:
		if m.kind >= 2 {
			return strconv.FormatInt(m.Int64N(1<<m.IntN(62)), 10)
		}
		return strconv.FormatInt(burst+1, 10)
	case 3:
		return strconv.FormatInt(1+m.Int64N(burst), 10)
	case 4:
		if m.kind >= 2 {
			return pick(m, []string{"9223372036854775807", "4611686018427387904", "9007199254740992", "9205357638345293824"})
		}
	}
	return strconv.Itoa(1 + m.IntN(3))
}
