package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// What kill -9 may lose under durability interval: what was admitted in the
// interval and the flush under way. killSlack is how late a round may be cut at
// any rate; after killLag one has been, of a server that does nothing else.
const (
	killInterval = 100 * time.Millisecond
	killSlack    = 500 * time.Millisecond
	killLag      = 2 * (killInterval + killSlack)
	killLimit    = "1/30d"
)

// A mode is a value of the option durability, and what it promises after a kill or a power loss.
type mode struct {
	name   string
	args   []string
	holds  promise
	drains bool // unclean-restart drain
}

var modes = []mode{
	{"interval", []string{"--snapshot-interval", killInterval.String()}, keepsOld, false},
	{"shutdown", nil, keepsSaved, false},
	{"always", nil, keepsAll, false},
	{"reserve", nil, admitsNothingTwice, false},
}

// draining is where nothing is admitted twice because every key counts as emptied. It is the same in all modes.
var draining = mode{"interval", []string{"--snapshot-interval", killInterval.String(), "--unclean-restart", "drain"}, empties, true}

func (m mode) String() string {
	if m.drains {
		return m.name + ",drain"
	}
	return m.name
}

// often is how often a test that takes long does its deed in each mode: as often as the variable says, or for long in make soak, or a few
// times, or fewer with -short.
func often(t *testing.T, variable string, soak, usual, short int) int {
	t.Helper()
	if text := os.Getenv(variable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	switch {
	case os.Getenv(soakEnv) != "":
		return soak
	case testing.Short():
		return short
	}
	return usual
}

// TestKill kills a server under load again and again, on one directory, and
// holds what it remembers against what clients were told, by the promise of its
// mode. Some are killed a second time as they come up, and some are stopped in
// order instead, after which nothing that was answered may be missing.
func TestKill(t *testing.T) {
	for _, mode := range append(slices.Clone(modes), draining) {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			k := newKiller(t, seed, mode)
			for range often(t, "RL_TEST_KILLS", 200, 6, 2) {
				for _, fault := range k.round() {
					t.Error(fault)
				}
			}
			t.Logf("%d kills under load, %d as it came up, %d orderly stops; of %d deeds answered %d were forgotten, the oldest %v old; "+
				"at most %d of %d tokens of a key were withheld", k.kills, k.early, k.stops, k.deeds, k.forgotten, k.oldest, k.withheld, bucketBurst)
			if mode.name == "interval" && !mode.drains {
				t.Logf("the longest lag told at a kill was %v; %d times something older was forgotten than the interval and the flush under way, "+
					"at most %v older", k.told, k.late, k.latest)
			}
		})
	}
}

// A killer is a server that is killed again and again.
type killer struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand
	dir     string
	mode    mode
	args    []string
	program func(args ...string) *exec.Cmd
	strict  bool // allows a slow machine nothing
	patient bool // plays longer than the lag, without what starts rounds of its own, each time

	last                *ledger // of the round before
	lastKnown           memories
	kills, early, stops int
	deeds, forgotten    int
	oldest              time.Duration // that was forgotten
	withheld            int64         // tokens of a key that nobody took and that were gone
	told                time.Duration // the longest lag that was told last before a kill
	late                int           // kills after which what was forgotten was older than the interval and the flush
	latest              time.Duration // by how much
}

func newKiller(t *testing.T, seed uint64, m mode) *killer {
	return &killer{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), dir: t.TempDir(), mode: m,
		args:    append([]string{"--durability", m.name}, m.args...),
		program: func(args ...string) *exec.Cmd { return program(t, args...) }}
}

func (k *killer) spawn() *process {
	k.t.Helper()
	return launch(k.t, k.dir, k.program(serverArgs(k.dir, k.args)...))
}

// round starts a server, plays, ends it at a random moment, and looks what the next one remembers.
func (k *killer) round() (faults []string) {
	n, shutdown := k.kills+k.stops, k.mode.name == "shutdown"
	l := newLedger(fmt.Sprint("r", n), k.seed+uint64(n), !shutdown && !k.patient && k.rng.IntN(2) == 0)
	p := k.spawn().up()
	if k.mode.drains { // no key counts as emptied then
		if got := dial(k.t, p.addr).do("FLUSHALL"); got.text != "OK" {
			k.t.Fatalf("FLUSHALL: %q", got.lines())
		}
	}
	wait := l.load(k.t, p.addr)
	if shutdown {
		go l.save(dial(k.t, p.addr), 10*time.Millisecond+time.Duration(k.rng.Int64N(int64(100*time.Millisecond))))
	}
	moment := time.Duration(k.rng.Int64N(int64(500 * time.Millisecond)))
	if k.patient || !l.urgent && k.rng.IntN(2) == 0 {
		moment += killLag // so that there is something that the contract does not let it forget
	}
	time.Sleep(moment) // the moment itself is what is tested
	holds, clean := k.mode.holds, k.rng.IntN(8) == 0
	killed := time.Now()
	if clean {
		holds = keepsAll
		k.stops++
		p.stop()
	} else {
		k.kills++
		p.kill()
	}
	wait()
	at := l.begin().end(l) // what was told until the end counts
	at.at, at.strict = killed, k.strict
	if !clean && k.rng.IntN(4) == 0 {
		k.early++
		p := k.spawn()
		time.Sleep(time.Duration(k.rng.Int64N(int64(60 * time.Millisecond))))
		p.kill()
	}
	return k.look(l, at, holds)
}

// look starts the server again and holds what it remembers against the ledger.
func (k *killer) look(l *ledger, at *moment, holds promise) (faults []string) {
	k.t.Helper()
	p := k.spawn().up()
	defer p.kill()
	m := l.recall(k.t, p.addr)
	faults = holds(l, at, m)
	exact := k.mode.name != "reserve" // what a server has come up with once it comes up with again
	if k.last != nil && !k.mode.drains {
		for key, n := range k.last.recall(k.t, p.addr) {
			if was := k.lastKnown[key]; n < was || exact && n != was {
				faults = append(faults, fmt.Sprintf("%s is %d, was %d when nobody used it any more", key, n, was))
			}
		}
	}
	k.last, k.lastKnown = l, m
	for i := range l.actors {
		k.deeds += at.told[i]
	}
	if k.mode.drains {
		return k.counted(faults)
	}
	if k.withheld = max(k.withheld, l.withheld(at, m)); exact {
		missing, age := l.forgotten(at, m)
		k.forgotten, k.oldest = k.forgotten+missing, max(k.oldest, age)
		if !at.heard.promised.IsZero() {
			k.told = max(k.told, at.at.Sub(at.heard.promised))
		}
		if late := age - at.lag(); late > 0 {
			k.late, k.latest = k.late+1, max(k.latest, late)
		}
	}
	return k.counted(faults)
}

// counted says of faults when they came.
func (k *killer) counted(faults []string) []string {
	for i := range faults {
		faults[i] = fmt.Sprintf("after kill %d, %d of them as it came up, %d stops: %s", k.kills, k.early, k.stops, faults[i])
	}
	return faults
}

// TestKillIsNoticed: a server that writes nothing breaks the promises of all
// modes but its own, and the tests' own check says so.
func TestKillIsNoticed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := newLedger("r", 1, false)
	p := start(t, dir, "--durability", "shutdown")
	wait := l.load(t, p.addr)
	time.Sleep(2 * killLag)
	at := l.begin()
	at.strict = true
	p.kill()
	wait()
	at.end(l)
	m := l.recall(t, start(t, dir, "--durability", "shutdown").addr)
	for _, mode := range modes {
		if faults := mode.holds(l, at, m); (mode.name == "shutdown") != (len(faults) == 0) {
			t.Errorf("by the promise of %s: %q", mode.name, faults)
		}
	}
}

// TestKillAfterSave: SAVE answers when the state is on disk, a deletion
// included, whatever the durability; what came after it is forgotten as a whole.
func TestKillAfterSave(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, dir, "--durability", "shutdown")
	c := dial(t, p.addr)
	acquire := func(key string, cost int) { c.do("RL.ACQUIRE", key, killLimit, "1000000", "COST", strconv.Itoa(cost)) }
	save := func() {
		if got := c.do("SAVE"); got.text != "OK" {
			t.Fatalf("SAVE: %q", got.lines())
		}
	}
	acquire("kept", 100000)
	acquire("deleted", 1)
	acquire("deleted and used again", 500000)
	save()
	c.do("DEL", "deleted", "deleted and used again")
	acquire("deleted and used again", 3)
	c.do("RL.PENALIZE", "penalized", killLimit, "1000000", "30d")
	save()
	acquire("kept", 100000)
	acquire("late", 1)
	c.do("RL.RESET", "penalized")
	p.kill()

	p = start(t, dir)
	for key, want := range map[string]int64{"kept": 900000, "deleted": 1000000, "deleted and used again": 999997, "penalized": 0, "late": 1000000} {
		if got := left(t, p.addr, key); got != want {
			t.Errorf("%s: %d tokens after the restart, want %d", key, got, want)
		}
	}
	c = dial(t, p.addr)
	if got := c.do("DBSIZE").text; got != "3" {
		t.Errorf("DBSIZE %s after the restart, want 3", got)
	}
	if got := infoInt(t, c, "rl_clean_start"); got != 0 {
		t.Errorf("rl_clean_start %d after a kill", got)
	}
	c.do("FLUSHALL")
	save()
	p.kill()
	p = start(t, dir)
	if got := dial(t, p.addr).do("DBSIZE").text; got != "0" {
		t.Errorf("DBSIZE %s after FLUSHALL, SAVE and a kill", got)
	}
	p.stop()
	p = start(t, dir)
	if got := infoInt(t, dial(t, p.addr), "rl_clean_start"); got != 1 {
		t.Errorf("rl_clean_start %d after an orderly stop", got)
	}
}

// TestKillAfterInterval: limiter traffic alone makes the server write (it needs
// no SAVE), a last save is shown, and then a kill forgets nothing.
func TestKillAfterInterval(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, dir, "--snapshot-interval", "50ms")
	c := dial(t, p.addr)
	for range 5 {
		c.do("RL.ACQUIRE", "k", "1/1h", "5")
	}
	p.await("the round on disk", func() bool { return infoInt(t, c, "rl_durable_lag_ms") == 0 })
	if n := infoInt(t, c, "rdb_changes_since_last_save"); n != 0 {
		t.Errorf("%d changes are pending after the round", n)
	}
	if got, _ := strconv.ParseInt(c.do("LASTSAVE").text, 10, 64); time.Since(time.Unix(got, 0)) > readyWithin {
		t.Errorf("LASTSAVE %d", got)
	}
	p.kill()
	p = start(t, dir)
	if got := dial(t, p.addr).do("RL.ACQUIRE", "k", "1/1h", "5").ints(); got == nil || got[0] != 0 {
		t.Errorf("after the restart: %v, want a denial", got)
	}
}

// TestKillAfterPenalty: a penalty starts a round of its own and does not wait for
// the interval.
func TestKillAfterPenalty(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, dir, "--snapshot-interval", "1h")
	c := dial(t, p.addr)
	c.do("RL.PENALIZE", "penalized", killLimit, "1000000", "30d")
	p.await("the penalty to be on disk", func() bool { return infoInt(t, c, "rl_rounds") > 0 })
	p.kill()
	p = start(t, dir, "--snapshot-interval", "1h")
	if got := left(t, p.addr, "penalized"); got != 0 {
		t.Errorf("%d tokens after the restart, want the penalty", got)
	}
}

// TestKillWhileStarting: a server killed again and again as it comes up loses
// nothing.
func TestKillWhileStarting(t *testing.T) {
	t.Parallel()
	const keys = 5000
	dir := t.TempDir()
	p := start(t, dir)
	c := dial(t, p.addr)
	for i := range keys {
		c.do("RL.ACQUIRE", "key:"+strconv.Itoa(i), killLimit, "10")
	}
	c.do("SAVE")
	p.kill()
	for range 8 {
		p := spawn(t, dir)
		time.Sleep(rand.N(60 * time.Millisecond)) // the moment itself is what is tested
		p.signal(syscall.SIGKILL)
		p.exit()
	}
	p = start(t, dir)
	if got := dial(t, p.addr).do("DBSIZE").text; got != strconv.Itoa(keys) {
		t.Errorf("%s keys came back, want %d", got, keys)
	}
}
