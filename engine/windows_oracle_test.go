package engine

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// The windows' oracle knows nothing but a list of what was granted, and when. It asks "would this pass at that ms, if nobody else came?"
// and finds waits by trying: by halves, since what counts only ever becomes less. It reads the arguments by itself and shares no code with
// the engine; span and events are the bucket oracle's.

// windowTerms is an expression as the oracle reads it.
type windowTerms struct {
	kind         string // fixed, fixed-aligned, sliding, log
	limit, width int64
}

func readWindow(expr string) (m windowTerms, ok bool) {
	kind, rest, _ := strings.Cut(expr, ":")
	count, width, _ := strings.Cut(rest, "/")
	n, fits := new(big.Int).SetString(count, 10)
	if !fits {
		return m, false
	}
	most := new(big.Int).Rsh(new(big.Int).SetUint64(1<<63-1), 1)
	if kind == "log" {
		most = big.NewInt(4096)
	}
	m = windowTerms{kind: kind, limit: n.Int64(), width: span(width)}
	return m, n.Sign() > 0 && n.Cmp(most) <= 0 && m.width <= 1e12
}

// granted is one call that was let in, or what refunds have left of it.
type granted struct{ at, n int64 }

// windowOracle is one key.
type windowOracle struct {
	terms  windowTerms // of the last change
	list   []granted   // oldest first
	open   int64       // fixed: when the window in which the list was granted was opened
	last   int64       // when the key changed last
	until  int64       // end of the longest penalty
	exists bool
}

// under is what of the list still has a say at the ms t under terms m, if nothing changes until then.
func (o *windowOracle) under(m windowTerms, t int64) (list []granted, open int64) {
	list, open = o.list, o.open
	switch m.kind {
	case "fixed":
		if sum(list) == 0 || t-open >= m.width {
			return nil, t
		}
		return list, open
	case "fixed-aligned":
		open = t / m.width * m.width
		if o.last < open {
			return nil, open
		}
		return list, open
	case "sliding":
		if m.width != o.terms.width && sum(list) > 0 {
			used := o.terms.estimate(list, o.last)
			up := new(big.Int).Add(used.Num(), new(big.Int).Sub(used.Denom(), big.NewInt(1)))
			list = []granted{{o.last, up.Quo(up, used.Denom()).Int64()}}
		}
		return list, 0
	}
	for len(list) > 0 && list[0].at <= t-m.width {
		list = list[1:]
	}
	return list, 0
}

func sum(list []granted) (n int64) {
	for _, g := range list {
		n += g.n
	}
	return n
}

// parts is what was granted of a list that under has returned: what counts at t in full, and what counts as a share.
func (m windowTerms) parts(list []granted, t int64) (full, shared int64) {
	if m.kind != "sliding" {
		return sum(list), 0
	}
	for _, g := range list {
		switch t/m.width - g.at/m.width {
		case 0:
			full += g.n
		case 1:
			shared += g.n
		}
	}
	return full, shared
}

// estimate is what counts at t of a list that under has returned, exactly.
func (m windowTerms) estimate(list []granted, t int64) *big.Rat {
	full, shared := m.parts(list, t)
	used := new(big.Rat).SetInt64(full)
	if shared == 0 {
		return used
	}
	share := big.NewRat(m.width-t%m.width, m.width)
	return used.Add(used, share.Mul(share, new(big.Rat).SetInt64(shared)))
}

// used is what counts at t under m, and idle whether that is nothing, with no penalty.
func (o *windowOracle) used(m windowTerms, t int64) *big.Rat {
	list, _ := o.under(m, t)
	return m.estimate(list, t)
}

func (o *windowOracle) idle(m windowTerms, t int64) bool {
	list, _ := o.under(m, t)
	full, shared := m.parts(list, t)
	return t >= o.until && full+shared == 0
}

// first returns the first ms from t on at which yes holds; it does so for good, at the latest two windows and a penalty later.
func (o *windowOracle) first(m windowTerms, t int64, yes func(at int64) bool) int64 {
	low, high := t, t
	for step := int64(1); !yes(high); step *= 2 {
		low, high = high+1, high+step
	}
	for low < high {
		if mid := (low + high) / 2; yes(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return high
}

// ask decides an event and lets it happen.
func (o *windowOracle) ask(e event) reply {
	now, _ := strconv.ParseInt(e.now, 10, 64)
	m, ok := readWindow(e.expr)
	if e.verb == "refund" {
		m, ok = o.terms, o.exists
	}
	if !ok || e.force || e.partial || e.maxWait != "" {
		return reply{failed: true}
	}
	t := max(now, o.last)
	switch e.verb {
	case "refund":
		return o.refund(m, e, t, t-now)
	case "penalize":
		end := t + span(e.amount)
		changed := end > t && end > o.until
		held := o.until
		o.until = max(held, end)
		r := o.acquire(m, event{verb: "peek", amount: "1"}, t, t-now)
		o.until = held
		if changed {
			o.change(m, t)
			o.until = end
		}
		r.changed = changed
		return r
	}
	return o.acquire(m, e, t, t-now)
}

// change makes t the time of the last change, and m its terms.
func (o *windowOracle) change(m windowTerms, t int64) {
	list, open := o.under(m, t)
	o.list, o.open = append([]granted(nil), list...), open
	o.terms, o.last, o.exists = m, t, true
}

func (o *windowOracle) acquire(m windowTerms, e event, t, late int64) reply {
	cost, _ := new(big.Rat).SetString(e.amount)
	limit := new(big.Rat).SetInt64(m.limit)
	passes := func(at int64) bool {
		used := o.used(m, at)
		return at >= o.until && used.Add(used, cost).Cmp(limit) <= 0
	}
	switch {
	case cost.Cmp(limit) > 0:
		return o.answer(m, 0, -1, t, late, false)
	case !passes(t):
		return o.answer(m, 0, o.first(m, t, passes)-t+late, t, late, false)
	}
	n := cost.Num().Int64()
	if e.verb == "peek" || n == 0 {
		return o.answer(m, 1, 0, t, late, false)
	}
	o.change(m, t)
	o.list = append(o.list, granted{t, n})
	return o.answer(m, 1, 0, t, late, true)
}

// refund takes the oldest first: of all that still has a say, in a sliding counter also what is fading.
func (o *windowOracle) refund(m windowTerms, e event, t, late int64) reply {
	tokens, _ := new(big.Int).SetString(e.amount, 10)
	left := tokens.Int64()
	if left == 0 || o.used(m, t).Sign() == 0 {
		return o.answer(m, 1, 0, t, late, false)
	}
	o.change(m, t)
	for i := range o.list {
		if m.kind == "sliding" && t/m.width-o.list[i].at/m.width > 1 {
			continue // no say any more
		}
		taken := min(left, o.list[i].n)
		o.list[i].n -= taken
		left -= taken
	}
	return o.answer(m, 1, 0, t, late, true)
}

func (o *windowOracle) answer(m windowTerms, allowed, retry, t, late int64, changed bool) reply {
	left := new(big.Rat).SetInt64(m.limit)
	left.Sub(left, o.used(m, t))
	remaining := int64(0)
	if left.Sign() > 0 && t >= o.until {
		remaining = new(big.Int).Quo(left.Num(), left.Denom()).Int64()
	}
	reset := o.first(m, t, func(at int64) bool { return o.idle(m, at) }) - t
	if reset > 0 {
		reset += late
	}
	return reply{five: [5]int64{allowed, retry, remaining, reset, m.limit}, changed: changed}
}

// TestWindowsOracle lets engine and oracle answer the same random sequences.
func TestWindowsOracle(t *testing.T) {
	sequences, parts := 102_000, 4
	if testing.Short() {
		sequences = 2400
	}
	for part := range parts {
		t.Run(strconv.Itoa(part), func(t *testing.T) {
			t.Parallel()
			for i := part; i < sequences; i += parts {
				if report := compareWindows(generateWindows(i)); report != "" {
					t.Fatalf("sequence %d:\n%s", i, report)
				}
			}
		})
	}
}

// compareWindows plays a sequence to both and reports the first difference, "" if there is none.
func compareWindows(events []event) (report string) {
	var o windowOracle
	var value []byte
	for i, e := range events {
		before := value
		var got reply
		value, got = answerOf(e, value)
		want := o.ask(e)
		if got == want {
			continue
		}
		var all strings.Builder
		for _, e := range events[:i+1] {
			fmt.Fprintln(&all, e)
		}
		return fmt.Sprintf("%sbytes before %x\n got %+v\nwant %+v", all.String(), before, got, want)
	}
	if !o.exists {
		if value != nil {
			return fmt.Sprintf("%v\nstored %x, want nothing", events, value)
		}
		return ""
	}
	used := o.used(o.terms, o.last)
	up := new(big.Int).Add(used.Num(), new(big.Int).Sub(used.Denom(), big.NewInt(1)))
	want := Info{Limit: Limit{}, Used: up.Quo(up, used.Denom()).Int64(), TS: o.last}
	if o.until > o.last {
		want.BlockedUntil = o.until
	}
	clock := o.last / 2
	idle := o.first(o.terms, o.last, func(at int64) bool { return o.idle(o.terms, at) }) - clock
	info, err := Inspect(value)
	kind := info.Limit.String()
	info.Limit = Limit{}
	if m, _ := readWindow(kind); err != nil || info != want || m != o.terms || Reset(value, clock) != idle {
		return fmt.Sprintf("%v\nstored %s %+v, reset %d, %v\nwant %+v %+v, reset %d", events, kind, info, Reset(value, clock), err, o.terms, want, idle)
	}
	return ""
}

// windowMaker makes the events of one sequence.
type windowMaker struct {
	*rand.Rand
	edge   bool
	family string
	expr   string
	m      windowTerms
	now    int64
}

// generateWindows returns sequence number i; the same number gives the same sequence.
func generateWindows(i int) []event {
	g := windowMaker{Rand: rand.New(rand.NewPCG(uint64(i), 3)), family: [...]string{"fixed", "sliding", "log"}[i%3], edge: i/3%4 == 3}
	g.limit()
	g.now = rowsEpoch + g.Int64N(1000)
	if g.edge {
		g.now = [...]int64{0, g.now, MaxNow - 1<<g.IntN(53)}[g.IntN(3)]
	}
	events := make([]event, 3+g.IntN(10))
	for j := range events {
		events[j] = g.event()
	}
	return events
}

func (g *windowMaker) limit() {
	kind := g.family
	if kind == "fixed" && g.IntN(2) == 0 {
		kind = "fixed-aligned"
	}
	g.m = windowTerms{kind: kind, limit: 1 + g.Int64N(12), width: []int64{1, 7, 10, 1000, 1500, 60_000, 3_600_000}[g.IntN(7)]}
	if g.edge {
		g.m.width = 1 + g.Int64N(1<<g.IntN(40))
		switch g.IntN(3) {
		case 0:
			g.m.limit = 1 + g.Int64N(1<<g.IntN(62))
		case 1:
			g.m.limit = 1<<62 - 3 + g.Int64N(4) // at what can just be held, or just not
		}
		if g.family == "log" && g.IntN(8) > 0 {
			g.m.limit = 1 + g.m.limit%4096
		}
	}
	width := strconv.FormatInt(g.m.width, 10) + "ms"
	if g.m.width%60_000 == 0 {
		width = strconv.FormatInt(g.m.width/60_000, 10) + "m"
	}
	g.expr = fmt.Sprintf("%s:%d/%s", kind, g.m.limit, width)
}

func (g *windowMaker) event() event {
	if g.IntN(12) == 0 {
		g.limit()
	}
	g.step()
	e := event{verb: "acquire", expr: g.expr, now: strconv.FormatInt(g.now, 10), amount: g.amount()}
	switch g.IntN(16) {
	case 0, 1:
		e.verb = "peek"
	case 2, 3:
		e.verb = "refund"
	case 4:
		e.verb, e.amount = "penalize", []string{"0", "1", "250", "2s", "1m", "365d", strconv.Itoa(g.IntN(5000))}[g.IntN(7)]
	}
	if g.IntN(100) == 0 && e.verb == "acquire" {
		e.maxWait = "1s"
	}
	return e
}

// step goes on by little, by a good part of a window or to the edge of one, and back now and then.
func (g *windowMaker) step() {
	switch g.IntN(7) {
	case 0:
		g.now += g.Int64N(3)
	case 1, 2:
		g.now += g.Int64N(g.m.width/2 + 1)
	case 3:
		g.now += g.Int64N(3 * g.m.width)
	case 4:
		g.now += g.m.width - g.now%g.m.width - g.Int64N(2)
	case 5:
		if g.IntN(2) == 0 {
			g.now -= g.Int64N(2*g.m.width + 1)
		}
	}
	g.now = min(max(g.now, 0), MaxNow)
}

func (g *windowMaker) amount() string {
	switch g.IntN(8) {
	case 0:
		return "0"
	case 1:
		return strconv.FormatInt(g.m.limit, 10)
	case 2:
		return strconv.FormatInt(g.m.limit+1, 10)
	case 3:
		return strconv.FormatInt(1+g.Int64N(g.m.limit), 10)
	case 4:
		if g.edge {
			return "9223372036854775807"
		}
	}
	return strconv.Itoa(1 + g.IntN(3))
}
