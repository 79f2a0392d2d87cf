package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The simulation: ten workers that share nothing but the state, against an upstream that is an exact bucket of its own, in virtual ms.
// Each worker acquires, sends its call, and reports what the upstream said once the answer is back. It has any number of calls under way.

const (
	simWorkers = 10
	simRing    = 1 << 13   // ms: longer than anything is under way
	simStart   = 1_000_000 // ms, Unix
)

// simCase is an upstream, the way to it, and the limit that the callers use.
type simCase struct {
	rate    int64 // calls per second that the upstream allows at first
	burst   int64 // its burst
	window  int64 // ms: it counts in windows of that length instead, without a burst
	hints   bool  // it says with a throttled call how long to wait
	limit   string
	way     int64 // ms from the acquire to the upstream, and back, at least
	jitter  int64 // ms more, at random, each way
	late    int64 // ms by which reports come later than the answer
	lost    int   // per cent of the reports that never come
	outage  int64 // ms in the second half of the last phase for which the upstream throttles everything
	seconds int64 // length of a phase
	// Most that the figures may be: ms until a step is over, down and up. 0 = the goal is not held against this case, only shown.
	down, up int64
}

// simEvent is something under way: a call to the upstream, or a report.
type simEvent struct {
	report bool
	ok     bool
	wait   int64
}

// simPhase is what came of a phase.
type simPhase struct {
	rate      int64
	goodput   float64 // share of the rate, in the second half
	throttled float64 // share of the calls, in the second half
	recovered int64   // ms from the step until it was over; -1 = never
	wasted    int64   // calls throttled until then
}

// law is what the workers ask: ours, or another for comparison.
type law interface {
	current() (Limit, int64)
	report(ok bool, wait, now int64)
}

// searched is our law.
type searched struct {
	a     Adaptive
	state []byte
	room  []byte
	lim   Limit
	until int64
}

func newSearched(t testing.TB, expr string) *searched {
	a, err := ParseAdaptive([]byte(expr))
	if err != nil {
		t.Fatal(err)
	}
	return &searched{a: a, lim: a.Min}
}

func (l *searched) current() (Limit, int64) { return l.lim, l.until }

func (l *searched) report(ok bool, wait, now int64) {
	out, lim, until, err := Feedback(l.room[:0], &l.a, l.state, ok, wait, now)
	if err != nil {
		panic(err)
	}
	l.room, l.state, l.lim, l.until = l.state, out, lim, until
}

// sim is a run.
type sim struct {
	c        simCase
	law      law
	random   *rand.Rand
	now      int64
	ring     [simRing][]simEvent
	free     []int64 // by worker: ms at which it asks again
	bucket   []byte  // of the workers
	upstream []byte
	room     [2][]byte
	upLimit  Limit
	outage   bool
	ok, not  []int // answers by ms of the phase
}

func newSim(c simCase, l law) *sim {
	return &sim{c: c, law: l, random: rand.New(rand.NewPCG(1, 2)), now: simStart, free: make([]int64, simWorkers)}
}

func (s *sim) after(ms int64, e simEvent) {
	at := (s.now + max(ms, 1)) % simRing
	s.ring[at] = append(s.ring[at], e)
}

func (s *sim) way() int64 { return s.c.way + s.random.Int64N(s.c.jitter+1) }

// answer is the upstream's.
func (s *sim) answer(i int64) {
	out, d, err := Acquire(s.room[0][:0], s.upLimit, s.upstream, s.now, Op{Cost: 1})
	if err != nil {
		panic(err)
	}
	e := simEvent{report: true, ok: d.Allowed == 1 && !s.outage}
	if e.ok {
		s.room[0], s.upstream = s.upstream, out
		s.ok[i]++
	} else {
		s.not[i]++
		if s.c.hints {
			e.wait = d.RetryAfter
		}
	}
	if back := s.way() + s.c.late; s.random.IntN(100) >= s.c.lost {
		s.after(back, e)
	}
}

// ask has a worker acquire until it is denied or wants no more.
func (s *sim) ask(worker int) {
	for s.free[worker] <= s.now {
		lim, until := s.law.current()
		if until > s.now {
			s.free[worker] = until
			return
		}
		out, d, err := Acquire(s.room[1][:0], lim, s.bucket, s.now, Op{Cost: 1})
		if err != nil {
			panic(err)
		}
		if d.Allowed == 0 {
			s.free[worker] = s.now + d.RetryAfter
			return
		}
		s.room[1], s.bucket = s.bucket, out
		s.after(s.way(), simEvent{})
	}
}

// phase runs with the upstream at a rate.
func (s *sim) phase(rate int64) simPhase {
	length := s.c.seconds * 1000
	s.upLimit = s.c.upstream(rate)
	s.ok, s.not = make([]int, length), make([]int, length)
	for i := range length {
		s.outage = s.c.outage > 0 && rate == s.c.rate && i >= length/2 && i < length/2+s.c.outage
		events := s.ring[s.now%simRing]
		s.ring[s.now%simRing] = nil
		for _, e := range events {
			if e.report {
				s.law.report(e.ok, e.wait, s.now)
			} else {
				s.answer(i)
			}
		}
		for w := range simWorkers {
			s.ask((w + int(s.now)) % simWorkers)
		}
		s.now++
	}
	return s.figures(rate)
}

// figures sums the phase up. A step is over at the end of the first window, of a second or of 20 calls, whose goodput is within 10 % of
// the rate and of whose calls at most 5 %, or one, were throttled.
func (s *sim) figures(rate int64) simPhase {
	p := simPhase{rate: rate, recovered: -1}
	window := max(1000, 20*1000/rate)
	var ok, not int
	for i := range s.ok {
		ok, not = ok+s.ok[i], not+s.not[i]
		p.wasted += int64(s.not[i])
		if first := int64(i) - window; first >= 0 {
			ok, not = ok-s.ok[first], not-s.not[first]
		}
		goodput := float64(ok) * 1000 / float64(window) / float64(rate)
		if int64(i) >= window-1 && goodput >= 0.9 && goodput <= 1.1 && not <= max(1, (ok+not)/20) {
			p.recovered = int64(i) + 1
			break
		}
	}
	ok, not = 0, 0
	half := len(s.ok) / 2
	for i := half; i < len(s.ok); i++ {
		ok, not = ok+s.ok[i], not+s.not[i]
	}
	p.goodput = float64(ok) * 1000 / float64(len(s.ok)-half) / float64(rate)
	p.throttled = float64(not) / float64(max(ok+not, 1))
	return p
}

// upstream is the limit that the upstream keeps at a rate.
func (c simCase) upstream(rate int64) Limit {
	expr := fmt.Sprintf("%d:%d", rate, c.burst)
	if c.window > 0 {
		expr = fmt.Sprintf("fixed-aligned:%d/%dms", rate*c.window/1000, c.window)
	}
	l, err := ParseExpression([]byte(expr))
	if err != nil {
		panic(err)
	}
	return l
}

// simulate runs the phases of a case: the rate, a tenth of it, and the rate again.
func simulate(c simCase, l law) (phases []simPhase) {
	s := newSim(c, l)
	for _, rate := range []int64{c.rate, c.rate / 10, c.rate} {
		phases = append(phases, s.phase(rate))
	}
	return phases
}

func (c simCase) String() string {
	text := fmt.Sprintf("%4d/s, burst %d", c.rate, c.burst)
	if c.window > 0 {
		text = fmt.Sprintf("%4d in %d s", c.rate*c.window/1000, c.window/1000)
	}
	text += fmt.Sprintf("; %s; way %d to %d ms", c.limit, 2*c.way, 2*(c.way+c.jitter))
	if c.late > 0 {
		text += fmt.Sprintf("; reports %d s late", c.late/1000)
	}
	if c.lost > 0 {
		text += fmt.Sprintf("; %d %% lost", c.lost)
	}
	if c.hints {
		text += "; hints"
	}
	if c.outage > 0 {
		text += fmt.Sprintf("; outage of %d s", c.outage/1000)
	}
	return text
}

func (p simPhase) String() string {
	return fmt.Sprintf("%5.1f %5.1f %6.1f", p.goodput*100, p.throttled*100, float64(p.recovered)/1000)
}

const simHead = "goodput %, throttled %, s until the step was over: at first | a tenth | back"

// simCases are what the goal is held against, and what else there is.
var simCases = []simCase{
	{rate: 10, burst: 5, limit: "adaptive:0.5..100:2", way: 25, jitter: 25, seconds: 300, down: 60_000, up: 120_000},
	{rate: 10, burst: 2, limit: "adaptive:1..20:1", way: 5, jitter: 5, seconds: 300, down: 60_000, up: 120_000},
	{rate: 10, burst: 50, limit: "adaptive:0.1..1000:5", way: 100, jitter: 50, seconds: 300, down: 60_000, up: 120_000},
	{rate: 100, burst: 10, limit: "adaptive:5..200:5", way: 25, jitter: 25, seconds: 120, down: 10_000, up: 30_000},
	{rate: 100, burst: 10, limit: "adaptive:1..10000:5", way: 100, jitter: 50, seconds: 120, down: 10_000, up: 30_000},
	{rate: 100, burst: 50, limit: "adaptive:1..10000:5", way: 250, jitter: 150, seconds: 120, down: 10_000, up: 30_000},
	{rate: 5000, burst: 50, limit: "adaptive:100..10000:20", way: 5, jitter: 5, seconds: 60, down: 5_000, up: 30_000},
	{rate: 5000, burst: 50, limit: "adaptive:10..100000:20", way: 100, jitter: 100, seconds: 60, down: 5_000, up: 30_000},
	{rate: 5000, burst: 500, limit: "adaptive:10..100000:50", way: 1, jitter: 0, seconds: 60, down: 5_000, up: 30_000},
	{rate: 100, burst: 10, limit: "adaptive:1..1000:5", way: 25, jitter: 25, lost: 30, seconds: 120, down: 30_000, up: 30_000},
	{rate: 5000, burst: 50, limit: "adaptive:10..100000:20", way: 25, jitter: 25, lost: 30, seconds: 60, down: 10_000, up: 30_000},
	{rate: 100, burst: 20, limit: "adaptive:1..1000:5:40s", way: 25, jitter: 25, late: 3000, seconds: 480, down: 30_000, up: 120_000},
	{rate: 10, burst: 5, limit: "adaptive:1..50:5:40s", way: 50, jitter: 25, late: 2000, lost: 30, seconds: 600, down: 60_000, up: 180_000},
	{rate: 100, burst: 10, hints: true, limit: "adaptive:1..1000:5", way: 25, jitter: 25, seconds: 120, down: 20_000, up: 30_000},
	{rate: 100, window: 1000, limit: "adaptive:1..1000:5", way: 25, jitter: 25, seconds: 120},
	{rate: 100, window: 60_000, hints: true, limit: "adaptive:1..1000:5", way: 25, jitter: 25, seconds: 600},
	{rate: 100, window: 60_000, limit: "adaptive:1..1000:5", way: 25, jitter: 25, seconds: 600},
	{rate: 100, burst: 10, limit: "adaptive:1..1000:5", way: 25, jitter: 25, outage: 5000, seconds: 120},
	{rate: 100, burst: 20, limit: "adaptive:1..1000:5", way: 25, jitter: 25, late: 3000, seconds: 120},
}

// TestAdaptiveSimulation holds the law to its goal: in the steady state the goodput is within 10 % of what the upstream allows and less
// than 5 % of the calls are throttled, at first, after a step down to a tenth, and after one back. -v shows the figures.
func TestAdaptiveSimulation(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Log(simHead)
	for _, c := range simCases {
		phases := simulate(c, newSearched(t, c.limit))
		t.Logf("%v | %v | %v | %v", phases[0], phases[1], phases[2], c)
		if c.up == 0 {
			continue
		}
		for i, most := range []int64{c.up, c.down, c.up} {
			p := phases[i]
			if p.goodput < 0.9 || p.goodput > 1.1 || p.throttled >= 0.05 || p.recovered < 0 || i > 0 && p.recovered > most {
				t.Errorf("%v: phase %d at %d/s is not within the goal: %v", c, i, p.rate, p)
			}
		}
	}
}
