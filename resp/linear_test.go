package resp

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"
)

// The histories: some clients work on three keys at once, and porcupine looks
// for one order of the calls that explains all answers. Time stands still, so
// that the model is three numbers.
const (
	linearHistories = 40
	linearClients   = 6
	linearCalls     = 80 // per client and history
	linearPeriod    = int64(30 * 24 * 3600 * 1000)
)

// linearBursts are the keys' sizes; each key gains a token in linearPeriod ms.
var linearBursts = [...]int64{4, 6, 9}

// tokens is the model's state: what each key holds.
type tokens [len(linearBursts)]int64

// linearCall is a call: costs of the keys, -1 where a key is not in it.
type linearCall struct {
	verb  string // ACQUIRE, ACQUIREALL, REFUND, RESET
	costs tokens
	order []int // of the keys in the call
}

// line is the call as a client writes it.
func (c linearCall) line() string {
	var b strings.Builder
	b.WriteString("RL." + c.verb)
	for _, k := range c.order {
		switch c.verb {
		case "ACQUIRE":
			fmt.Fprintf(&b, " k%d 1/30d:%d 1000 COST %d", k, linearBursts[k], c.costs[k])
		case "ACQUIREALL":
			fmt.Fprintf(&b, " k%d 1/30d:%d %d", k, linearBursts[k], c.costs[k])
		case "REFUND":
			fmt.Fprintf(&b, " k%d %d 1000", k, c.costs[k])
		case "RESET":
			fmt.Fprintf(&b, " k%d", k)
		}
	}
	if c.verb == "ACQUIREALL" {
		b.WriteString(" NOW 1000")
	}
	return b.String()
}

// decide is a key's own answer and what it would hold after it.
func decide(k int, held, cost int64) (d []int64, after int64) {
	burst := linearBursts[k]
	allowed, retry := int64(1), int64(0)
	switch after = held - cost; {
	case cost > burst:
		allowed, retry, after = 0, -1, held
	case after < 0:
		allowed, retry, after = 0, (cost-held)*linearPeriod, held
	}
	return []int64{allowed, retry, after, (burst - after) * linearPeriod, burst}, after
}

// step is the sequential model: what a call answers on a state, and the state
// after it. A refund of an absent key is null, and a full key may be absent or
// not, so the answer of a refund that finds the key full is not looked at.
func (s tokens) step(c linearCall, got []int64) (ok bool, after tokens) {
	after = s
	switch c.verb {
	case "RESET":
		for _, k := range c.order {
			after[k] = linearBursts[k]
		}
		return true, after
	case "REFUND":
		k := c.order[0]
		if s[k] == linearBursts[k] {
			return true, s
		}
		after[k] = min(s[k]+c.costs[k], linearBursts[k])
		return slices.Equal(got, []int64{1, 0, after[k], (linearBursts[k] - after[k]) * linearPeriod, linearBursts[k]}), after
	case "ACQUIRE":
		var d []int64
		k := c.order[0]
		d, after[k] = decide(k, s[k], c.costs[k])
		return slices.Equal(got, d), after
	}
	return s.stepAll(c, got)
}

// stepAll is step for RL.ACQUIREALL.
func (s tokens) stepAll(c linearCall, got []int64) (ok bool, after tokens) {
	after = s
	retry, binding := int64(0), int64(-1)
	var legs []int64
	for i, k := range c.order {
		var d []int64
		d, after[k] = decide(k, s[k], c.costs[k])
		if d[0] == 0 && retry >= 0 && (d[1] < 0 || d[1] > retry) {
			retry, binding = d[1], int64(i)
		}
		legs = append(legs, d...)
	}
	want := []int64{1, 0, -1}
	if binding >= 0 {
		want, legs, after = []int64{0, retry, binding}, nil, s
		for _, k := range c.order {
			d, _ := decide(k, s[k], c.costs[k])
			legs = append(legs, d[0], d[1], s[k], (linearBursts[k]-s[k])*linearPeriod, linearBursts[k])
		}
	}
	return slices.Equal(got, append(want, legs...)), after
}

var linearModel = porcupine.Model{
	Init: func() any { return tokens(linearBursts) },
	Step: func(state, input, output any) (bool, any) {
		return state.(tokens).step(input.(linearCall), output.([]int64))
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprint(input.(linearCall).line(), " -> ", output) },
}

// randomCall is what a client does next.
func randomCall(rng *rand.Rand) (c linearCall) {
	n := 1
	switch r := rng.IntN(20); {
	case r < 6:
		c.verb = "ACQUIRE"
	case r < 14:
		c.verb, n = "ACQUIREALL", 2+rng.IntN(2)
	case r < 19:
		c.verb = "REFUND"
	default:
		c.verb, n = "RESET", 1+rng.IntN(3)
	}
	c.order = rng.Perm(len(linearBursts))[:n]
	for _, k := range c.order {
		c.costs[k] = rng.Int64N(4)
	}
	return c
}

// history lets the clients work at once. Before and after each call a client
// lets others go on, so that many calls are open at any moment.
func history(t *testing.T, seed uint64) []porcupine.Operation {
	srv := trustedServer()
	var clock atomic.Int64
	ops := make([][]porcupine.Operation, linearClients)
	var wg sync.WaitGroup
	for i := range linearClients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			c := newTalker(t, srv)
			for range linearCalls {
				call := randomCall(rng)
				op := porcupine.Operation{ClientId: i, Input: call, Call: clock.Add(1)}
				runtime.Gosched()
				op.Output = c.ints(call.line())
				runtime.Gosched()
				op.Return = clock.Add(1)
				ops[i] = append(ops[i], op)
			}
		})
	}
	wg.Wait()
	return slices.Concat(ops...)
}

// overlapping counts the calls during which another one began.
func overlapping(ops []porcupine.Operation) (n int) {
	for _, op := range ops {
		if op.Return > op.Call+1 {
			n++
		}
	}
	return n
}

// TestLinearizable: RL.ACQUIREALL and the commands of one key act as if each
// call happened at one moment between its sending and its answer.
func TestLinearizable(t *testing.T) {
	calls, overlap := 0, 0
	for seed := range uint64(linearHistories) {
		ops := history(t, seed)
		calls, overlap = calls+len(ops), overlap+overlapping(ops)
		if !porcupine.CheckOperations(linearModel, ops) {
			t.Fatalf("history %d: no order of its %d calls explains the answers", seed, len(ops))
		}
	}
	if t.Logf("%d calls, %d of them overlapping others", calls, overlap); overlap < 10_000 {
		t.Error("too few calls overlap to tell anything")
	}
}

// linearFaults are planted in acquireall.go, each alone: the texts old, which
// stand there exactly once, become new.
var linearFaults = []struct {
	name    string
	replace [][2]string
}{
	{"the locks are let go between deciding and writing", [][2]string{
		{"\t\"sync\"\n", "\t\"runtime\"\n\t\"sync\"\n"},
		{"\tretry, binding := c.binding()\n", "\tretry, binding := c.binding()\n\ttx.Unlock()\n\truntime.Gosched()\n\ttx = s.srv.store.Lock(s.now, c.keys...)\n"},
	}},
	{"a denied call keeps what its first keys gave", [][2]string{
		{"\tif binding < 0 {\n\t\tc.write(&tx)\n\t} else if", "\tc.write(&tx)\n\tif binding < 0 {\n\t} else if"},
	}},
	{"a denied call tells of debits that were not made", [][2]string{
		{"\t\tif l.to == l.from {\n\t\t\tcontinue\n", "\t\tif l.to >= l.from {\n\t\t\tcontinue\n"},
	}},
}

// TestLinearizableCatches runs TestLinearizable against each planted fault.
func TestLinearizableCatches(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs this package's tests once for each planted fault")
	}
	for _, f := range linearFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			out, err := testPlanted(t, "acquireall.go", f.replace)
			if err == nil || !strings.Contains(out, "no order of its") {
				t.Errorf("not noticed: %v\n%s", err, out)
			}
		})
	}
}

// testPlanted runs TestLinearizable with texts of a file replaced, without
// writing to the package.
func testPlanted(t *testing.T, file string, replace [][2]string) (output string, err error) {
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(source)
	for _, r := range replace {
		if n := strings.Count(text, r[0]); n != 1 {
			t.Fatalf("%q stands %d times in %s, want once: move the fault to where the code went", r[0], n, file)
		}
		text = strings.Replace(text, r[0], r[1], 1)
	}
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	planted, overlay := filepath.Join(dir, file), filepath.Join(dir, "overlay.json")
	table, err := json.Marshal(map[string]map[string]string{"Replace": {path: planted}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{planted: []byte(text), overlay: table} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("go", "test", "-short", "-vet=off", "-ldflags=-s -w", "-timeout=60s", "-run=TestLinearizable$", "-overlay="+overlay, ".").CombinedOutput()
	return string(out), err
}
