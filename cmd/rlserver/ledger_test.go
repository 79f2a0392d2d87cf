package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A ledger is all that clients know of a server: what they sent and when, what
// they were told and when. Held against what the server remembers after it was
// killed, or its disk lost its power, it shows whether a promise was kept.
//
// Each actor is one client with keys of its own, so what is stored under them
// after any number of its deeds is known. A server that forgets must be where
// the actor was after some deed, in all of its keys at once: nothing older is
// missing where something newer is there. One key is debited by all, together
// with a key of their own.
type ledger struct {
	name   string // begins all keys
	seed   uint64
	urgent bool // named limits are set and penalties given, that start rounds of their own
	depth  int  // how many deeds an actor sends at once at the most
	actors []*actor

	mu       sync.Mutex // guards actors too, while they play
	heard    heard
	slowness time.Duration // how much slower than one may expect the machine was at times
	saves    []saving
}

// What a server was heard to say of its flushes.
type heard struct {
	asked    time.Time     // the last time
	promised time.Time     // all up to here is on disk
	rounds   int64         // written by then
	took     time.Duration // the last of them
	began    time.Time     // the flush under way, if there is one, began after that
}

// A saving is a SAVE: when it was sent and, if it was, answered with OK.
type saving struct{ sent, told time.Time }

const (
	actors       = 8
	buckets      = 6 // of each actor
	bucketBurst  = 1000
	bucketLimit  = "1/30d:1000" // nothing comes back while a test runs
	sharedBurst  = 1_000_000_000
	sharedLimit  = "1/30d:1000000000"
	windowLimit  = 300
	ledgerBlocks = 8 // reserve: a block is this part of a limit
)

// An actor is one client.
type actor struct {
	id     string
	keys   []string
	rng    *rand.Rand
	shared string
	urgent bool // sets named limits and gives penalties, too

	now     map[string]int64 // what its keys are after all deeds sent
	deeds   []deed
	refused int          // deeds refused for lack of a disk
	sent    atomic.Int64 // deeds sent
	told    atomic.Int64 // deeds answered
}

// A deed is what an actor asked for at once.
type deed struct {
	frames  string
	replies int
	expect  func(last reply) bool
	sets    map[string]int64 // what its keys are then: tokens taken, 1 for a penalty, the burst of a named limit
	shared  int64            // tokens taken of the shared key
	durable bool             // OK means that it is on disk, whatever the mode

	at, toldAt time.Time // toldAt is zero if no answer came
}

func newLedger(name string, seed uint64, urgent bool) *ledger {
	l := &ledger{name: name, seed: seed, urgent: urgent, depth: 4}
	l.heard.asked, l.heard.began = time.Now(), time.Now()
	for range actors {
		l.join()
	}
	return l
}

// join adds an actor.
func (l *ledger) join() *actor {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := len(l.actors)
	a := &actor{id: fmt.Sprintf("%s:%d", l.name, i), rng: rand.New(rand.NewPCG(l.seed, uint64(i))), shared: l.name + ":shared",
		now: map[string]int64{}, urgent: l.urgent}
	for k := range buckets {
		a.keys = append(a.keys, fmt.Sprintf("%s:b%d", a.id, k))
	}
	a.keys = append(a.keys, a.id+":fixed", a.id+":sliding", a.id+":log", a.id+":penalty")
	if l.urgent {
		a.keys = append(a.keys, "@"+a.id)
	}
	l.actors = append(l.actors, a)
	return a
}

// bucket is one of the actor's buckets.
func (a *actor) bucket() string { return a.keys[a.rng.IntN(buckets)] }

// next makes the actor's next deed.
func (a *actor) next() deed {
	switch n := a.rng.IntN(100); {
	case n < 40:
		return a.debit(a.bucket())
	case n < 55:
		return a.pair(a.bucket(), a.shared)
	case n < 62:
		return a.pair(a.bucket(), a.bucket())
	case n < 67:
		return a.exec(a.bucket(), a.bucket())
	case n < 72:
		key, tokens := a.bucket(), 1+a.rng.Int64N(5)
		s := one("RL.REFUND", key, strconv.FormatInt(tokens, 10))
		if a.now[key] > 0 {
			s.sets = map[string]int64{key: max(0, a.now[key]-tokens)}
		}
		return s
	case n < 75:
		key := a.bucket()
		return one("RL.RESET", key).setting(key, 0)
	case n < 90:
		kind := []string{"fixed", "sliding", "log"}[a.rng.IntN(3)]
		key := a.id + ":" + kind
		s := one("RL.ACQUIRE", key, fmt.Sprintf("%s:%d/30d", kind, windowLimit))
		s.expect = decided(a.now[key] < windowLimit)
		return s.setting(key, min(a.now[key]+1, windowLimit))
	case n < 92 && a.urgent:
		key := a.id + ":penalty"
		if a.now[key] == 0 {
			return one("RL.PENALIZE", key, "1/30d", "1000", "30d").setting(key, 1)
		}
		return one("RL.RESET", key).setting(key, 0)
	case n < 93 && a.urgent:
		key := "@" + a.id
		s := one("RL.LIMIT", "SET", a.id, fmt.Sprintf("1/30d:%d", a.now[key]+1)).setting(key, a.now[key]+1)
		s.durable, s.expect = true, func(r reply) bool { return r.text == "OK" }
		return s
	}
	return one("RL.PEEK", a.bucket())
}

// one is a deed of one command.
func one(words ...string) deed {
	return deed{frames: frame(words...), replies: 1, expect: func(r reply) bool { return r.mark != '-' }}
}

func (s deed) setting(key string, n int64) deed {
	s.sets = map[string]int64{key: n}
	return s
}

// decided expects a decision, allowed or not; in that of several the first number says it too.
func decided(allowed bool) func(reply) bool {
	want := map[bool]string{true: "1", false: "0"}[allowed]
	return func(r reply) bool { return len(r.items) > 0 && r.items[0].text == want }
}

// debit takes 1 to 3 tokens.
func (a *actor) debit(key string) deed {
	cost := 1 + a.rng.Int64N(3)
	s := one("RL.ACQUIRE", key, bucketLimit, "COST", strconv.FormatInt(cost, 10))
	fits := a.now[key]+cost <= bucketBurst
	if s.expect = decided(fits); fits {
		s = s.setting(key, a.now[key]+cost)
	}
	return s
}

// pair takes tokens of two keys, of both or of none.
func (a *actor) pair(x, y string) deed {
	if x == y {
		return a.debit(x)
	}
	cost, limit := 1+a.rng.Int64N(3), bucketLimit
	if y == a.shared {
		limit = sharedLimit
	}
	n := strconv.FormatInt(cost, 10)
	s := one("RL.ACQUIREALL", x, bucketLimit, n, y, limit, n)
	fits := a.now[x]+cost <= bucketBurst && (y == a.shared || a.now[y]+cost <= bucketBurst)
	if s.expect = decided(fits); !fits {
		return s
	}
	if s = s.setting(x, a.now[x]+cost); y == a.shared {
		s.shared = cost
	} else {
		s.sets[y] = a.now[y] + cost
	}
	return s
}

// exec takes a token of each of two keys in a transaction.
func (a *actor) exec(x, y string) deed {
	s := deed{replies: 4, expect: func(r reply) bool { return len(r.items) == 2 }}
	s.frames = frame("MULTI") + frame("RL.ACQUIRE", x, bucketLimit) + frame("RL.ACQUIRE", y, bucketLimit) + frame("EXEC")
	s.sets = map[string]int64{}
	for _, key := range []string{x, y} {
		n, ok := s.sets[key]
		if !ok {
			n = a.now[key]
		}
		if s.sets[key] = n; n < bucketBurst {
			s.sets[key] = n + 1
		}
	}
	return s
}

// play sends deeds until the connection ends, up to depth of them at once. A refusal for lack of a disk is as if the deed had not been.
func (a *actor) play(nc net.Conn, depth int) error {
	r := bufio.NewReader(nc)
	for {
		first, before := len(a.deeds), maps.Clone(a.now)
		var out strings.Builder
		for range 1 + a.rng.IntN(depth)*a.rng.IntN(2) {
			s := a.next()
			s.at = time.Now()
			maps.Copy(a.now, s.sets)
			a.deeds = append(a.deeds, s)
			out.WriteString(s.frames)
		}
		a.sent.Store(int64(len(a.deeds)))
		if _, err := io.WriteString(nc, out.String()); err != nil {
			return nil
		}
		for i := first; i < len(a.deeds); i++ {
			s := &a.deeds[i]
			last, err := s.answer(r)
			switch {
			case err != nil:
				return nil
			case s.expect(last):
			case depth == 1 && (strings.HasPrefix(last.text, "MISCONF") || strings.HasPrefix(last.text, "EXECABORT")):
				s.sets, s.shared, a.now = nil, 0, before
				a.refused++
			default:
				return fmt.Errorf("%q: unexpected %q", s.frames, last.lines())
			}
			s.toldAt = time.Now()
			a.told.Store(int64(i + 1))
		}
	}
}

// answer reads the replies to a deed and returns the last one.
func (s *deed) answer(r *bufio.Reader) (last reply, err error) {
	for range s.replies {
		if last, err = readReply(r); err != nil {
			break
		}
	}
	return last, err
}

// after is what the actor's keys are after its first n deeds, and what it took of the shared key by then.
func (a *actor) after(n int) (keys map[string]int64, shared int64) {
	keys = map[string]int64{}
	for _, s := range a.deeds[:n] {
		maps.Copy(keys, s.sets)
		shared += s.shared
	}
	return keys, shared
}

// load has all actors play against a server until it is gone, and watches what it says of itself.
func (l *ledger) load(t testing.TB, addr string) (wait func()) {
	var clients sync.WaitGroup
	for _, a := range l.actors {
		c := dial(t, addr)
		clients.Go(func() {
			if err := a.play(c.nc, l.depth); err != nil {
				t.Error(err)
			}
		})
	}
	watcher := dial(t, addr)
	clients.Go(func() { l.watch(watcher) })
	return clients.Wait
}

// watch asks a server again and again what a crash would lose, until the connection ends.
func (l *ledger) watch(c *testConn) {
	l.mu.Lock()
	l.heard.asked, l.heard.began = time.Now(), time.Now()
	l.mu.Unlock()
	for {
		asked := time.Now()
		got, err := ask(c, "INFO", "persistence")
		if err != nil || l.hears(asked, got.text) != nil {
			return
		}
		time.Sleep(watchEvery)
	}
}

const watchEvery = 5 * time.Millisecond

// hears notes what a server answered to INFO.
func (l *ledger) hears(asked time.Time, info string) error {
	lag, err1 := infoField(info, "rl_durable_lag_ms")
	writing, err2 := infoField(info, "rdb_bgsave_in_progress")
	rounds, err3 := infoField(info, "rl_rounds")
	took, err4 := strconv.ParseFloat(infoText(info, "rl_last_round_seconds"), 64)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.heard
	if at := asked.Add(-time.Duration(lag+1) * time.Millisecond); at.After(s.promised) { // the lag is rounded down
		s.promised = at
	}
	switch {
	case writing == 0:
		s.began = asked
	case rounds != s.rounds: // the one before ended after it was last asked
		s.began = s.asked
	}
	l.slowness = max(l.slowness, slowness(s.asked, time.Now()))
	s.asked, s.rounds, s.took = asked, rounds, time.Duration(took*float64(time.Second))
	return nil
}

// slowness is what is allowed to the flusher of a machine on which a server was not heard of for some time: that many times more, as what
// it does takes more than one turn on a processor.
func slowness(asked, until time.Time) time.Duration { return 10 * until.Sub(asked) }

// save sends SAVE now and then until the connection ends.
func (l *ledger) save(c *testConn, every time.Duration) {
	for {
		time.Sleep(every)
		l.mu.Lock()
		l.saves = append(l.saves, saving{sent: time.Now()})
		l.mu.Unlock()
		if got, err := ask(c, "SAVE"); err != nil || got.text != "OK" {
			return
		}
		l.mu.Lock()
		l.saves[len(l.saves)-1].told = time.Now()
		l.mu.Unlock()
	}
}

// infoText is a field of INFO.
func infoText(text, field string) string {
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == field {
			return value
		}
	}
	return ""
}

// ask sends one command and reads its answer; the end of the connection is an
// error, not a failure.
func ask(c *testConn, words ...string) (reply, error) {
	if _, err := io.WriteString(c.nc, frame(words...)); err != nil {
		return reply{}, err
	}
	return readReply(c.r)
}

// memories is what a server remembers of a ledger.
type memories map[string]int64

// recall asks a server for all keys of the ledger.
func (l *ledger) recall(t testing.TB, addr string) memories {
	t.Helper()
	c := dial(t, addr)
	var keys []string
	var out strings.Builder
	for _, a := range l.actors {
		for _, key := range a.keys {
			keys = append(keys, key)
			out.WriteString(frame(looking(key)...))
		}
	}
	keys = append(keys, l.name+":shared")
	out.WriteString(frame("RL.PEEK", l.name+":shared", sharedLimit, "COST", "0"))
	if _, err := io.WriteString(c.nc, out.String()); err != nil {
		t.Fatal(err)
	}
	m := memories{}
	for _, key := range keys {
		r, err := readReply(c.r)
		if err != nil {
			t.Fatal(err)
		}
		d := r.ints()
		switch {
		case key[0] == '@':
			_, burst, _ := strings.Cut(r.text, ":")
			m[key], _ = strconv.ParseInt(burst, 10, 64)
		case len(d) != 5:
			t.Fatalf("looking at %s: %q", key, r.lines())
		case strings.HasSuffix(key, ":penalty"):
			m[key] = 1 - d[0]
		default:
			m[key] = d[4] - d[2]
		}
	}
	return m
}

// looking is the command that shows a key and changes nothing.
func looking(key string) []string {
	i := strings.LastIndexByte(key, ':')
	switch kind := key[i+1:]; {
	case key[0] == '@':
		return []string{"RL.LIMIT", "GET", key[1:]}
	case kind == "penalty":
		return []string{"RL.PEEK", key, "1/30d", "1000"}
	case kind[0] == 'b':
		return []string{"RL.PEEK", key, bucketLimit, "COST", "0"}
	default:
		return []string{"RL.PEEK", key, fmt.Sprintf("%s:%d/30d", kind, windowLimit), "COST", "0"}
	}
}

// A moment is what a ledger had come to when the server or the power went.
type moment struct {
	at         time.Time
	told, sent []int // deeds, by actor
	heard      heard
	slowness   time.Duration
	strict     bool // nothing is allowed to a slow machine
	saves      []saving
}

// begin takes down what has been told so far, and the moment that is returned is complete after end. What is told in between may or may
// not be remembered.
func (l *ledger) begin() *moment {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &moment{at: time.Now(), heard: l.heard, slowness: l.slowness, saves: slices.Clone(l.saves)}
	for _, a := range l.actors {
		m.told = append(m.told, int(a.told.Load()))
	}
	return m
}

func (m *moment) end(l *ledger) *moment {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.actors {
		m.sent = append(m.sent, int(a.sent.Load()))
	}
	return m
}

// A span is how many of an actor's deeds a server may have remembered.
type span struct{ least, most int }

// toldSpans are of who forgets nothing that was answered.
func (l *ledger) toldSpans(m *moment) (spans []span) {
	for i := range l.actors { // some may have joined later
		var s span
		if i < len(m.told) {
			s.least = m.told[i]
		}
		if i < len(m.sent) {
			s.most = m.sent[i]
		}
		spans = append(spans, s)
	}
	return spans
}

// spansSince are of who forgets nothing that was answered at a time, and nothing that was said to be durable.
func (l *ledger) spansSince(m *moment, horizon time.Time) []span {
	spans := l.toldSpans(m)
	for i, a := range l.actors {
		for n := &spans[i].least; *n > 0; *n-- {
			if last := a.deeds[*n-1]; last.durable || !last.toldAt.After(horizon) {
				break
			}
		}
	}
	return spans
}

// savedSpans are of who remembers what a SAVE wrote: all that was answered before it was sent, and nothing that was sent after it was
// answered.
func (l *ledger) savedSpans(m *moment, s saving) []span {
	spans := l.toldSpans(m)
	for i, a := range l.actors {
		for n := &spans[i].least; *n > 0 && !a.deeds[*n-1].toldAt.Before(s.sent); *n-- {
		}
		for n := &spans[i].most; !s.told.IsZero() && *n > 0 && a.deeds[*n-1].at.After(s.told); *n-- {
		}
	}
	return spans
}

// A promise is what a server may have forgotten after a kill or a power loss. It returns what contradicts it, nothing if all is well.
type promise func(l *ledger, at *moment, m memories) (faults []string)

// keepsAll is the promise of always, and of every orderly stop: nothing that was answered is forgotten.
func keepsAll(l *ledger, at *moment, m memories) []string {
	return l.faults(m, l.toldSpans(at))
}

// lag is how old what is forgotten may be by the contract of interval: what was answered in the interval, or in the flush before if that
// took longer, and in the flush under way.
func (m *moment) lag() time.Duration {
	return max(killInterval, m.heard.took) + m.at.Sub(m.heard.began)
}

// keepsOld is the promise of interval: nothing is forgotten that was answered longer ago than the lag, neither than the server's own
// figure, to which nothing is allowed, nor than the contract's, with an allowance for a flusher that a busy machine lets wait.
func keepsOld(l *ledger, at *moment, m memories) (faults []string) {
	for _, fault := range l.faults(m, l.spansSince(at, at.heard.promised)) {
		faults = append(faults, fmt.Sprintf("with the lag of %v that the server told: %s", at.at.Sub(at.heard.promised), fault))
	}
	slack := killSlack
	if !at.strict {
		slack += max(at.slowness, slowness(at.heard.asked, at.at))
	}
	for _, fault := range l.faults(m, l.spansSince(at, at.at.Add(-at.lag()-slack))) {
		faults = append(faults, fmt.Sprintf("with a lag of %v and %v for a slow machine: %s", at.lag(), slack, fault))
	}
	return faults
}

// keepsSaved is the promise of shutdown: what is remembered is what the last SAVE wrote, or one under way, or nothing.
func keepsSaved(l *ledger, at *moment, m memories) (faults []string) {
	for _, s := range slices.Backward(at.saves) {
		faults = l.faults(m, l.savedSpans(at, s))
		if len(faults) == 0 || !s.told.IsZero() {
			return faults
		}
	}
	return l.faults(m, make([]span, len(l.actors)))
}

// admitsNothingTwice is the promise of reserve: nothing that was answered with a debit is there to be taken again, penalties and limits
// stand, and at most a block of each key is missing to its callers. A deletion or a refund may be forgotten.
func admitsNothingTwice(l *ledger, at *moment, m memories) (faults []string) {
	shared, spans := span{}, l.toldSpans(at)
	for i, a := range l.actors {
		told, sent := spans[i].least, spans[i].most
		least, took := a.after(told)
		shared.least += int(took)
		for n := told; n < sent; n++ {
			for key, v := range a.deeds[n].sets {
				least[key] = min(least[key], v)
			}
		}
		_, took = a.after(sent)
		shared.most += int(took)
		most := map[string]int64{}
		for _, s := range a.deeds[:sent] {
			for key, v := range s.sets {
				most[key] = max(most[key], v)
			}
		}
		for _, key := range a.keys {
			if got, block := m[key], ledgerBlock(key); got < least[key] || got > most[key]+block {
				faults = append(faults, fmt.Sprintf("%s: %d taken after the restart, at least %d and at most %d and %d for the block before", key,
					got, least[key], most[key], block))
			}
		}
	}
	key := l.name + ":shared"
	if got := m[key]; got < int64(shared.least) || got > int64(shared.most)+ledgerBlock(key) {
		faults = append(faults, fmt.Sprintf("%s: %d taken, %+v by those who took them", key, got, shared))
	}
	return faults
}

// empties is the promise of unclean-restart drain: whatever was forgotten, nothing is there to be taken again, and named limits stand.
func empties(l *ledger, at *moment, m memories) (faults []string) {
	wants := map[string]int64{l.name + ":shared": sharedBurst}
	spans := l.toldSpans(at)
	for i, a := range l.actors {
		told, _ := a.after(spans[i].least)
		for _, key := range a.keys {
			switch kind := key[strings.LastIndexByte(key, ':')+1:]; {
			case key[0] == '@':
				wants[key] = told[key]
			case kind == "penalty":
				wants[key] = 1
			case kind[0] == 'b':
				wants[key] = bucketBurst
			default:
				wants[key] = windowLimit
			}
		}
	}
	for key, want := range wants {
		if m[key] < want {
			faults = append(faults, fmt.Sprintf("%s: %d taken after the restart, want %d", key, m[key], want))
		}
	}
	return faults
}

// ledgerBlock is how much of a key a crash may cost its callers under reserve.
func ledgerBlock(key string) int64 {
	switch kind := key[strings.LastIndexByte(key, ':')+1:]; {
	case kind == "shared":
		return sharedBurst / ledgerBlocks
	case key[0] == '@', kind == "penalty", kind == "log":
		return 0
	case kind[0] == 'b':
		return bucketBurst / ledgerBlocks
	default:
		return windowLimit / ledgerBlocks
	}
}

// faults compares memories with the ledger, if each actor's deeds must be remembered up to one in its span, exactly.
func (l *ledger) faults(m memories, spans []span) (faults []string) {
	var least, most int64 // of the shared key
	for i, a := range l.actors {
		s := spans[i]
		keys, shared := a.after(s.least)
		low, high, found := int64(1<<62), int64(-1), false
		for n := s.least; ; n++ {
			if a.remembered(m, keys) {
				found, low, high = true, min(low, shared), max(high, shared)
			}
			if n >= s.most {
				break
			}
			maps.Copy(keys, a.deeds[n].sets)
			shared += a.deeds[n].shared
		}
		if !found {
			faults = append(faults, fmt.Sprintf("%s is nowhere between its deeds %d and %d: %s", a.id, s.least, s.most, a.whereabouts(m, s.least)))
		}
		least, most = least+low, most+high
	}
	if got := m[l.name+":shared"]; faults == nil && (got < least || got > most) {
		faults = append(faults, fmt.Sprintf("%d were taken of the shared key, %d to %d by those who took them", got, least, most))
	}
	return faults
}

// forgotten is how many answered deeds are missing in memories that are where the actors were, and how old the oldest of them was.
func (l *ledger) forgotten(at *moment, m memories) (missing int, age time.Duration) {
	for i, a := range l.actors {
		here, keys := 0, map[string]int64{}
		for n := range at.sent[i] + 1 {
			if a.remembered(m, keys) {
				here = n
			}
			if n < at.sent[i] {
				maps.Copy(keys, a.deeds[n].sets)
			}
		}
		if here < at.told[i] {
			missing, age = missing+at.told[i]-here, max(age, at.at.Sub(a.deeds[here].toldAt))
		}
	}
	return missing, age
}

// withheld is the most tokens that are gone from a bucket though nobody took them.
func (l *ledger) withheld(at *moment, m memories) (most int64) {
	for i, a := range l.actors {
		taken := map[string]int64{}
		for _, s := range a.deeds[:at.sent[i]] {
			for key, n := range s.sets {
				taken[key] = max(taken[key], n)
			}
		}
		for _, key := range a.keys[:buckets] {
			most = max(most, m[key]-taken[key])
		}
	}
	return most
}

func (a *actor) remembered(m memories, keys map[string]int64) bool {
	for _, key := range a.keys {
		if m[key] != keys[key] {
			return false
		}
	}
	return true
}

// whereabouts says where an actor's memories are, if not near deed n.
func (a *actor) whereabouts(m memories, n int) string {
	keys := map[string]int64{}
	for i, s := range a.deeds {
		if a.remembered(m, keys) {
			return fmt.Sprintf("it is at deed %d", i)
		}
		maps.Copy(keys, s.sets)
	}
	keys, _ = a.after(n)
	var odd []string
	for _, key := range a.keys {
		if m[key] != keys[key] {
			odd = append(odd, fmt.Sprintf("%s %d, not %d", key, m[key], keys[key]))
		}
	}
	return "at no deed at all, " + strings.Join(odd, ", ")
}
