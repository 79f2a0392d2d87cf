package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// What kill -9 may lose under durability interval: what was admitted in the
// interval and the flush under way. killLag is that interval and a generous
// allowance for the flush of a busy machine.
const (
	killInterval = 100 * time.Millisecond
	killLag      = killInterval + 900*time.Millisecond
	killClients  = 8
	killKeys     = 400
	killBurst    = 1000 // more than a key is asked for in one round
	killLimit    = "1/30d"
)

// An admission is what a client was told: n tokens of a key, at the time the
// answer was in its hands.
type admission struct {
	key string
	n   int64
	at  time.Time
}

// A ledger is all that clients know.
type ledger struct {
	told     []admission
	pending  map[string]int64 // calls that were sent and never answered
	keys     []string
	killed   time.Time // when the last kill was sent
	promised time.Time // what the server itself last said was on disk
}

// ask sends one command and reads its answer; the end of the connection is an
// error, not a failure.
func ask(c *testConn, words ...string) (reply, error) {
	if _, err := io.WriteString(c.nc, frame(words...)); err != nil {
		return reply{}, err
	}
	return readReply(c.r)
}

// load sends calls for the keys of this round from all clients until the server
// is gone, and enters what they are told.
func (l *ledger) load(t *testing.T, p *process, keys []string) (wait func()) {
	var mu sync.Mutex
	var clients sync.WaitGroup
	for range killClients {
		c := dial(t, p.addr)
		clients.Go(func() {
			var told []admission
			key := ""
			for {
				key = keys[rand.IntN(len(keys))]
				got, err := ask(c, "RL.ACQUIRE", key, killLimit, strconv.Itoa(killBurst))
				if err != nil {
					break
				}
				if d := got.ints(); len(d) == 5 && d[0] == 1 {
					told = append(told, admission{key, 1, time.Now()})
				}
			}
			mu.Lock()
			defer mu.Unlock()
			l.told = append(l.told, told...)
			l.pending[key]++
		})
	}
	watcher := dial(t, p.addr)
	clients.Go(func() {
		for {
			asked := time.Now()
			lag, err := durableLag(watcher)
			if err != nil {
				return
			}
			if at := asked.Add(-lag - time.Millisecond); at.After(l.promised) {
				l.promised = at
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	return clients.Wait
}

// durableLag is what the server says a crash now could lose.
func durableLag(c *testConn) (time.Duration, error) {
	got, err := ask(c, "INFO", "persistence")
	if err != nil {
		return 0, err
	}
	ms, err := infoField(got.text, "rl_durable_lag_ms")
	return time.Duration(ms) * time.Millisecond, err
}

// crash starts a server on the directory, puts load on it and kills it at a
// random moment after at least killLag, so that there is something it must not
// forget.
func (l *ledger) crash(t *testing.T, dir string, round int, args ...string) {
	t.Helper()
	p := start(t, dir, args...)
	var keys []string
	for i := range killKeys {
		keys = append(keys, fmt.Sprintf("round:%d:key:%d", round, i))
	}
	l.keys = append(l.keys, keys...)
	l.promised = time.Time{}
	wait := l.load(t, p, keys)
	moment := killLag + 100*time.Millisecond + rand.N(500*time.Millisecond)
	time.Sleep(moment) // the moment itself is what is tested
	l.killed = time.Now()
	p.kill()
	wait()
	t.Logf("round %d: killed after %v, %d admissions so far, the server's own lag was %v", round, moment, len(l.told), l.killed.Sub(l.promised))
}

// drain takes all that each key has left.
func (l *ledger) drain(t *testing.T, addr string) map[string]int64 {
	t.Helper()
	c := dial(t, addr)
	drained := map[string]int64{}
	for _, key := range l.keys {
		got := c.do("RL.ACQUIRE", key, killLimit, strconv.Itoa(killBurst), "COST", strconv.Itoa(killBurst), "PARTIAL").ints()
		again := c.do("RL.ACQUIRE", key, killLimit, strconv.Itoa(killBurst)).ints()
		if len(got) != 5 || len(again) != 5 || again[0] != 0 {
			t.Fatalf("draining %s: %v, then %v", key, got, again)
		}
		drained[key] = got[0]
	}
	return drained
}

// faults compares what came back after a kill with what clients were told
// before it: nothing admitted before the horizon is forgotten, no key has more
// than its burst, and none misses tokens that nobody took.
func (l *ledger) faults(drained map[string]int64, horizon time.Time) (faults []string) {
	all, old := map[string]int64{}, map[string]int64{}
	for _, a := range l.told {
		all[a.key] += a.n
		if !a.at.After(horizon) {
			old[a.key] += a.n
		}
	}
	for _, key := range l.keys {
		switch d := drained[key]; {
		case d > killBurst:
			faults = append(faults, fmt.Sprintf("%s has %d tokens after the restart, more than its burst", key, d))
		case old[key]+d > killBurst:
			faults = append(faults, fmt.Sprintf("%s: %d were admitted before the lag and %d after the restart", key, old[key], d))
		case all[key]+d+l.pending[key] < killBurst:
			faults = append(faults, fmt.Sprintf("%s: %d were admitted before and %d after, with %d calls unanswered: some are missing", key, all[key], d, l.pending[key]))
		}
	}
	return faults
}

// settle closes the books: now that the keys are drained, all their tokens are
// known to be gone.
func (l *ledger) settle() {
	l.told, l.pending = nil, map[string]int64{}
	for _, key := range l.keys {
		l.told = append(l.told, admission{key, killBurst, time.Now()})
	}
}

// TestKill kills the server under load again and again, on one directory, and
// holds what it remembers against the ledger: first by the contract's rule, then
// by the lag that the server itself reported just before. RL_TEST_KILLS says how
// often, for a longer run.
func TestKill(t *testing.T) {
	t.Parallel()
	rounds := 5
	if text := os.Getenv("RL_TEST_KILLS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	l := ledger{pending: map[string]int64{}}
	for round := range rounds {
		l.crash(t, dir, round, "--snapshot-interval", killInterval.String())
		p := start(t, dir, "--snapshot-interval", killInterval.String())
		drained := l.drain(t, p.addr)
		for _, fault := range l.faults(drained, l.killed.Add(-killLag)) {
			t.Errorf("round %d: with a lag of %v: %s", round, killLag, fault)
		}
		for _, fault := range l.faults(drained, l.promised) {
			t.Errorf("round %d: with the lag the server reported: %s", round, fault)
		}
		l.settle()
		p.await("the drained keys to be on disk", func() bool {
			lag, err := durableLag(dial(t, p.addr))
			return err == nil && lag == 0
		})
		p.kill()
	}
}

// TestKillIsNoticed: the same check without a flusher reports that admissions
// were forgotten, so its silence means something.
func TestKillIsNoticed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := ledger{pending: map[string]int64{}}
	l.crash(t, dir, 0, "--durability", "shutdown")
	p := start(t, dir, "--durability", "shutdown")
	faults := l.faults(l.drain(t, p.addr), l.killed.Add(-killLag))
	if len(faults) < killKeys/2 {
		t.Errorf("only %d of %d keys are reported, though nothing was written: %q", len(faults), killKeys, faults)
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
