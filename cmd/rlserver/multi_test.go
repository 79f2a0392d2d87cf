package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlserver/rlserver/resp"
)

// TestTranscriptsInsideMulti plays every transcript with each command in a
// transaction of its own, behind one that locks all keys: the replies are the
// same. A handler that took a lock by itself would never answer.
func TestTranscriptsInsideMulti(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("testdata/*.txt")
	inside := map[string]int{}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { playInsideMulti(t, path, inside) })
	}
	for _, c := range resp.Commands() {
		if !c.Open && inside[c.Name] == 0 && !slices.Contains(neverInside, c.Name) && !slices.Contains(betweenNodes, c.Name) {
			t.Errorf("no transcript shows %s inside MULTI", c.Name)
		}
	}
}

// neverInside are the commands that MULTI does not queue.
var neverInside = []string{"multi", "exec", "discard", "watch", "quit", "reset", "shutdown", "client|reply", "client|pause", "client|unpause",
	"subscribe", "unsubscribe", "psubscribe", "punsubscribe"}

// playInsideMulti plays one transcript; inside counts what ran, by row.
func playInsideMulti(t *testing.T, path string, inside map[string]int) {
	name := strings.TrimSuffix(filepath.Base(path), ".txt")
	switch name {
	case "unwatch":
		inside["unwatch"]++ // it shows that itself
		return
	case "multi", "exec", "discard", "watch":
		return
	}
	// These show what was done, and that is more than without the transactions.
	loose := name == "slowlog" || name == "acl" || name == "client"
	steps, _ := parseTranscript(t, path)
	srv := startTest(t, nil)
	conns := map[string]*testConn{}
	for _, st := range steps {
		if st.mark == '@' {
			if err := srv.event(st.words); err != nil {
				t.Fatalf("%s:%d: %v", path, st.line, err)
			}
			if st.words[0] == "restart" {
				clear(conns)
			}
			continue
		}
		if conns[st.conn] == nil {
			conns[st.conn] = dial(t, srv.addr)
		}
		row, known := rowOf(st.words)
		got, ran := conns[st.conn].insideMulti(st.words, known && slices.Contains(neverInside, row.Name))
		if got.mark == closed {
			delete(conns, st.conn)
		}
		if ran && known {
			inside[row.Name]++
		}
		if !loose && !matches(st.want, got.lines()) {
			t.Errorf("%s:%d: %s\ngot:\n%s\nwant:\n%s", path, st.line, st.text, strings.Join(got.lines(), "\n"), strings.Join(st.want, "\n"))
		}
	}
}

// insideMulti sends a command in a transaction and returns what it answered,
// there or when it was to be queued. Where no transaction can be had, the
// command is sent by itself.
func (c *testConn) insideMulti(words []string, never bool) (got reply, ran bool) {
	c.t.Helper()
	if never {
		return c.do(words...), false
	}
	switch got = c.do("MULTI"); {
	case got.mark == closed:
		return got, false
	case got.text != "OK":
		return c.do(words...), false
	}
	if c.do("DBSIZE").text != "QUEUED" { // this user may not
		c.do("DISCARD")
		return c.do(words...), false
	}
	if got = c.do(words...); got.text != "QUEUED" {
		if got.mark == closed {
			return got, false
		}
		c.do("DISCARD")
		if strings.Contains(got.text, "inside a transaction") {
			got = c.do(words...)
		}
		return got, false
	}
	all := c.do("EXEC")
	switch {
	case all.mark == closed:
		return all, true
	case len(all.items) != 2:
		c.t.Fatalf("%q: EXEC answers %q", words, all.lines())
	}
	return all.items[1], true
}

// Buckets of the transfer tests: they gain nothing in the time of a test, and
// are far from empty and full.
const (
	transferLimit = "1/30d:2000000"
	transferStart = 1_000_000
)

// fillAccounts makes n buckets that are half full.
func fillAccounts(c *testConn, n int) {
	for i := range n {
		c.do("RL.ACQUIRE", account(i), transferLimit, "COST", strconv.Itoa(transferStart))
	}
}

func account(i int) string { return "account:" + strconv.Itoa(i) }

// transaction sends commands between MULTI and EXEC in one write and returns
// EXEC's reply.
func (c *testConn) transaction(calls ...[]string) reply {
	c.t.Helper()
	out := frame("MULTI")
	for _, call := range calls {
		out += frame(call...)
	}
	if _, err := io.WriteString(c.nc, out+frame("EXEC")); err != nil {
		c.t.Fatal(err)
	}
	var last reply
	for range len(calls) + 2 {
		var err error
		if last, err = readReply(c.r); err != nil {
			c.t.Fatal(err)
		}
	}
	return last
}

// sum is what all accounts hold, seen in one transaction.
func sum(c *testConn, n int) (total int64) {
	var calls [][]string
	for i := range n {
		calls = append(calls, []string{"RL.PEEK", account(i), transferLimit, "COST", "0"})
	}
	for _, item := range c.transaction(calls...).items {
		total += item.ints()[2]
	}
	return total
}

// TestMultiIsAtomic: 50 clients move tokens between buckets, in any order of the
// keys, while others look at all of them, count all keys and save: the sum is
// the same whenever it is looked at, and nobody waits for ever.
func TestMultiIsAtomic(t *testing.T) {
	t.Parallel()
	const clients, accounts, each = 50, 8, 60
	srv := startTest(t, nil)
	fillAccounts(dial(t, srv.addr), accounts)
	const want = accounts * transferStart
	var wg sync.WaitGroup
	for g := range clients {
		c := dial(t, srv.addr)
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 7))
			for i := range each {
				switch {
				case g%10 == 0:
					if got := sum(c, accounts); got != want {
						t.Errorf("the accounts hold %d, want %d", got, want)
					}
				case g%10 == 1 && i%10 == 0:
					c.transaction([]string{"DBSIZE"}, []string{"RL.PEEK", account(0)}, []string{"SAVE"}, []string{"INFO"})
				default:
					n := strconv.Itoa(1 + rng.IntN(10))
					from, to := rng.IntN(accounts), rng.IntN(accounts)
					c.transaction([]string{"RL.ACQUIRE", account(from), transferLimit, "COST", n}, []string{"RL.REFUND", account(to), n})
				}
			}
		})
	}
	wg.Wait()
	if got := sum(dial(t, srv.addr), accounts); got != want {
		t.Errorf("the accounts hold %d in the end, want %d", got, want)
	}
}

// TestWatchRaces: many take a token each on the condition that nobody did since
// they looked. What each saw when it won is seen by no other winner.
func TestWatchRaces(t *testing.T) {
	t.Parallel()
	const clients, each = 12, 25
	srv := startTest(t, nil)
	var mu sync.Mutex
	won := map[int64]int{}
	var lost atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		c := dial(t, srv.addr)
		wg.Go(func() {
			for wins := 0; wins < each; {
				c.do("WATCH", "k", "other")
				before := c.do("RL.PEEK", "k", transferLimit).ints()[2]
				got := c.transaction([]string{"RL.ACQUIRE", "k", transferLimit})
				if got.null {
					lost.Add(1)
					continue
				}
				wins++
				if left := got.items[0].ints()[2]; left != before-1 {
					t.Errorf("a bucket of %d has %d after one was taken", before, left)
				}
				mu.Lock()
				won[before]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d won, %d lost", len(won), lost.Load())
	if len(won) != clients*each || lost.Load() == 0 {
		t.Errorf("%d different states were won from, want %d; %d lost", len(won), clients*each, lost.Load())
	}
}

// TestEndInsideMulti: a client that goes away between MULTI and EXEC has asked
// for nothing, and what it watched is forgotten.
func TestEndInsideMulti(t *testing.T) {
	t.Parallel()
	srv := startTest(t, nil)
	c := dial(t, srv.addr)
	for i := range 20 {
		gone := dial(t, srv.addr)
		gone.do("WATCH", "k", fmt.Sprint("watched:", i))
		gone.do("MULTI")
		if got := gone.do("RL.ACQUIRE", "k", "1/1h:5"); got.text != "QUEUED" {
			t.Fatal(got.lines())
		}
		switch i % 3 {
		case 0:
			gone.nc.Close()
		case 1:
			gone.do("QUIT")
		default:
			io.WriteString(gone.nc, frame("EXEC")[:8]) // half of it
			gone.nc.Close()
		}
	}
	for end := time.Now().Add(readyWithin); infoInt(t, c, "connected_clients") > 1; {
		if time.Now().After(end) {
			t.Fatal("clients that closed are still there")
		}
		time.Sleep(time.Millisecond)
	}
	if got := c.do("EXISTS", "k").text; got != "0" {
		t.Errorf("EXISTS %s", got)
	}
	if n := infoInt(t, c, "total_watched_keys"); n != 0 {
		t.Errorf("%d keys are still watched", n)
	}
	c.do("WATCH", "a", "b", "a")
	if n := infoInt(t, c, "total_watched_keys"); n != 2 {
		t.Errorf("%d keys are watched, want 2", n)
	}
}

// TestKillInsideMulti: a server that is killed between MULTI and EXEC has done
// nothing of it, and one that is killed while many transactions run has done
// each of them wholly or not at all.
func TestKillInsideMulti(t *testing.T) {
	t.Parallel()
	const accounts, clients = 6, 8
	dir := t.TempDir()
	p := start(t, dir, "--snapshot-interval", "10ms")
	c := dial(t, p.addr)
	fillAccounts(c, accounts)
	c.do("SAVE")
	half := dial(t, p.addr)
	half.do("MULTI")
	half.do("RL.ACQUIRE", "half", "1/1h:5")
	half.do("RL.ACQUIRE", account(0), transferLimit, "COST", "1000")

	var moved atomic.Int64
	var wg sync.WaitGroup
	for g := range clients {
		c := dial(t, p.addr)
		wg.Go(func() {
			for i := 0; ; i++ {
				n := strconv.Itoa(1 + i%10)
				from, to := account((g+i)%accounts), account((g+3*i+1)%accounts)
				io.WriteString(c.nc, frame("MULTI")+frame("RL.ACQUIRE", from, transferLimit, "COST", n)+frame("RL.REFUND", to, n)+frame("EXEC"))
				for range 4 {
					if _, err := readReply(c.r); err != nil {
						return // killed
					}
				}
				moved.Add(1)
			}
		})
	}
	p.await("transfers in several rounds", func() bool { return moved.Load() > 2000 && infoInt(t, c, "rl_rounds") > 5 })
	p.kill()
	wg.Wait()

	p = start(t, dir)
	c = dial(t, p.addr)
	if got := c.do("EXISTS", "half").text; got != "0" {
		t.Errorf("EXISTS %s of a key that was never asked for", got)
	}
	changed := 0
	for i := range accounts {
		if c.do("RL.PEEK", account(i), transferLimit).ints()[2] != transferStart {
			changed++
		}
	}
	if changed < 2 {
		t.Errorf("%d accounts differ from the start: nothing was tested", changed)
	}
	if got := sum(c, accounts); got != accounts*transferStart {
		t.Errorf("the accounts hold %d after %d transfers and a kill, want %d", got, moved.Load(), accounts*transferStart)
	}
}

// TestScanWhileKeysComeAndGo: keys that stay are told once in each scan.
func TestScanWhileKeysComeAndGo(t *testing.T) {
	t.Parallel()
	const stay = 500
	srv := startTest(t, nil)
	c := dial(t, srv.addr)
	for i := range stay {
		c.do("RL.ACQUIRE", fmt.Sprint("stay:", i), "1/1h:5")
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for g := range 3 {
		c := dial(t, srv.addr)
		wg.Go(func() {
			for i := 0; ; i += 50 {
				select {
				case <-stop:
					return
				default:
				}
				var calls [][]string
				for j := range 50 {
					key := fmt.Sprintf("other:%d:%d", g, (i+j)%4000)
					if i/4000%2 == 0 {
						calls = append(calls, []string{"RL.ACQUIRE", key, "1/1h:5"})
					} else {
						calls = append(calls, []string{"DEL", key})
					}
				}
				c.transaction(calls...)
			}
		})
	}
	for round := range 8 {
		told := map[string]int{}
		cursor := "0"
		for calls := 0; calls == 0 || cursor != "0"; calls++ {
			got := c.do("SCAN", cursor, "COUNT", strconv.Itoa(1+round*50))
			cursor = got.items[0].text
			for _, key := range got.items[1].items {
				told[key.text]++
			}
			if n, err := strconv.ParseUint(cursor, 10, 64); err != nil || n >= 1<<53 {
				t.Fatalf("cursor %q", cursor)
			}
		}
		all := c.do("KEYS", "stay:*")
		if len(all.items) != stay {
			t.Errorf("KEYS tells %d keys, want %d", len(all.items), stay)
		}
		for i := range stay {
			if n := told[fmt.Sprint("stay:", i)]; n != 1 {
				t.Fatalf("round %d: SCAN tells key %d %d times", round, i, n)
			}
		}
	}
	close(stop)
	wg.Wait()
}
