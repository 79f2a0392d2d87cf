package resp

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// allOf is a call over keys, each with the same limit and cost.
func allOf(keys []string, limit string, cost int) string {
	var b strings.Builder
	b.WriteString("RL.ACQUIREALL")
	for _, k := range keys {
		fmt.Fprintf(&b, " %s %s %d", k, limit, cost)
	}
	return b.String()
}

// manyKeys are n keys with a common prefix.
func manyKeys(prefix string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("%s:%d", prefix, i))
	}
	return keys
}

func TestAcquireAllBounds(t *testing.T) {
	c := newTalker(t, trustedServer())
	if got := c.ints(allOf(manyKeys("k", maxLegs), "1:10", 1)); len(got) != 3+5*maxLegs || got[0] != 1 || got[2] != -1 {
		t.Errorf("%d keys: %v", maxLegs, got)
	}
	for name, line := range map[string]string{
		"one key too many":  allOf(manyKeys("k", maxLegs+1), "1:10", 1),
		"a key too long":    "RL.ACQUIREALL a 1:10 1 " + strings.Repeat("x", 1025) + " 1:10 1",
		"the same key last": allOf(append(manyKeys("n", maxLegs-1), "n:0"), "1:10", 1),
	} {
		if got := c.raw(line); !strings.HasPrefix(got, "-ERR ") || strings.Count(got, "\r\n") != 1 {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := c.ints("DBSIZE"); got[0] != maxLegs {
		t.Errorf("%d keys after calls that were refused, want %d", got[0], maxLegs)
	}
}

// A refused call leaves every entry as it was, byte for byte, and its deadline.
func TestAcquireAllDeniedChangesNothing(t *testing.T) {
	srv := trustedServer()
	c := newTalker(t, srv)
	c.ints("RL.ACQUIRE a 1 10 1000 COST 3")
	c.ints("RL.ACQUIRE b 1 10 1000 COST 10")
	c.ints("RL.PENALIZE c 1 10 1m 1000")
	before := srv.store.Stats().Changes
	for _, line := range []string{
		"RL.ACQUIREALL a 1:10 1 b 1:10 1 NOW 1500",
		"RL.ACQUIREALL a 2:20 1 new 1:10 1 c 1:10 0 NOW 60999",
		"RL.ACQUIREALL a 1:10 11 new 1:10 1 NOW 5000",
	} {
		got := c.ints(line)
		if got[0] != 0 || got[1] == 0 || got[2] < 0 {
			t.Errorf("%s: %v, want a denial", line, got)
		}
		words := strings.Fields(line)
		now := words[len(words)-1]
		for i := 1; i+2 < len(words)-1; i += 3 {
			peek := c.ints("RL.PEEK " + words[i] + " " + words[i+1] + " " + now + " COST " + words[i+2])
			if leg := got[3+5*(i/3):][:5]; !slices.Equal(leg, peek) {
				t.Errorf("%s: %s is told %v, RL.PEEK %v", line, words[i], leg, peek)
			}
		}
	}
	if after := srv.store.Stats().Changes; after != before {
		t.Errorf("%d changes by denied calls", after-before)
	}
}

// Fifty connections ask for the same keys in opposite orders. All get answers,
// and what the keys lack in the end is what was granted.
func TestAcquireAllOppositeOrders(t *testing.T) {
	const clients, calls, burst = 50, 40, 900
	srv := trustedServer()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	defer l.Close()
	keys := manyKeys("k", 12)
	granted := make([]int64, len(keys))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			nc, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer nc.Close()
			nc.SetDeadline(time.Now().Add(time.Minute))
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for range calls {
				order := slices.Clone(keys[rng.IntN(4) : 8+rng.IntN(5)])
				if i%2 == 1 {
					slices.Reverse(order)
				}
				cost := 1 + rng.IntN(2)
				allowed, err := askAll(nc, allOf(order, fmt.Sprintf("1/30d:%d", burst), cost)+" NOW 1000", len(order))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, k := range order {
					granted[slices.Index(keys, k)] += allowed * int64(cost)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	c := newTalker(t, srv)
	denied := srv.Stats().Denied
	for i, k := range keys {
		if left := c.ints(fmt.Sprintf("RL.PEEK %s 1/30d %d 1000", k, burst))[2]; left != burst-granted[i] {
			t.Errorf("%s has %d tokens, %d of %d were granted", k, left, granted[i], burst)
		}
	}
	if denied == 0 || srv.Stats().Allowed == 0 {
		t.Errorf("%d calls denied: the test does not see both sides", denied)
	}
}

// askAll sends a call over n keys and returns whether it was allowed.
func askAll(nc net.Conn, line string, n int) (allowed int64, err error) {
	if _, err := nc.Write(frame(strings.Fields(line)...)); err != nil {
		return 0, err
	}
	var got []byte
	buf := make([]byte, 4096)
	for lines := 0; lines < 5+6*n; lines = strings.Count(string(got), "\r\n") {
		m, err := nc.Read(buf)
		if err != nil {
			return 0, fmt.Errorf("%s: after %q: %w", line, got, err)
		}
		if got = append(got, buf[:m]...); got[0] != '*' {
			return 0, fmt.Errorf("%s: %q", line, got)
		}
	}
	if strings.HasPrefix(string(got), "*4\r\n:1\r\n") {
		return 1, nil
	}
	return 0, nil
}

// A call allocates for the locks of several shards (their list and the Tx) and
// for nothing else. More keys than here need more arguments than a session keeps
// room for.
func TestAcquireAllAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget at random under the race detector")
	}
	const keys = argsKept / wordsPerLeg / 2
	srv := trustedServer()
	s := srv.newSession("test", "test")
	in := frame(strings.Fields(allOf(manyKeys("k", keys), "1/30d:1000000", 1))...)
	call := func() {
		s.Feed(in)
		s.Written()
	}
	call()
	if n := testing.AllocsPerRun(100, call); n > 2 {
		t.Errorf("%v allocations for a call of %d keys", n, keys)
	}
}
