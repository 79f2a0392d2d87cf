package engine

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutants are faults that the other tests must catch, each planted alone: in file, the text old, which stands there exactly once, becomes
// new. Who changes the code moves the fault along; who finds a new kind of fault adds it.
var mutants = []struct{ name, file, old, new string }{
	{"floor for ceil", "bucket.go", "(uint64(a) + uint64(b) - 1) / uint64(b)", "uint64(a) / uint64(b)"},
	{"float64 refill", "bucket.go", "bits.Mul64(uint64(elapsed), uint64(to.P))", "uint64(0), uint64(float64(elapsed)*float64(to.P))"},
	{"float64 wait", "bucket.go", "return roundedUp(missing, l.P)", "return int64(float64(missing)/float64(l.P) + 0.999999999)"},
	{"debit on denial", "bucket.go", "return 0, wait, nil", "s.credit -= op.Cost * l.Q\n\t\treturn 0, wait, nil"},
	{"ts moved on denial", "decide.go", "c.outlook(&d)\n\tif changed {\n\t\tout = appendEntry(dst, &c.entry)\n\t}\n\treturn out, d, nil\n}\n\n// Peek", "c.outlook(&d)\n\tif changed || d.Allowed == 0 {\n\t\tout = appendEntry(dst, &c.entry)\n\t}\n\treturn out, d, nil\n}\n\n// Peek"},
	{"ts moved back", "call.go", "t := max(now, c.ts)", "t := max(now, min(c.ts, now))"},
	{"lateness forgotten", "call.go", "c.ts, c.late = t, t-now", "c.ts, c.late = t, 0"},
	{"no clamp after the refill", "bucket.go", "s.credit = full\n\t\treturn nil", "s.credit = full + 1\n\t\treturn nil"},
	{"no clamp after a refund", "bucket.go", "if hi != 0 || lo >= uint64(full-s.credit) {", "if hi != 0 {"},
	{"rescaled credit rounded up", "bucket.go", "return 0, uint64(full) - quoLo", "return 0, uint64(full) - quoLo - min(rest, 1)"},
	{"rescaled debt rounded up", "bucket.go", "if rest != 0 {", "if rest > uint64(q) {"},
	{"elapsed time at the old rate", "bucket.go", "bits.Mul64(uint64(elapsed), uint64(to.P))", "bits.Mul64(uint64(elapsed), uint64(from.P))"},
	{"a larger burst conjures tokens", "bucket.go", "case s.credit < full:", "case s.credit < from.Capacity*from.Q:"},
	{"64 bits for a debt", "bucket.go", "if hi != 0 || lo > room {", "if hi != 0 && lo > room {"},
	{"COST 0 passes in debt", "bucket.go", "hold == 0 && s.credit >= op.Cost*l.Q", "hold == 0 && (op.Cost == 0 || s.credit >= op.Cost*l.Q)"},
	{"MAXWAIT from the entry's time", "bucket.go", "if wait > op.MaxWait {", "if wait-late > op.MaxWait {"},
	{"FORCE waits for its cost", "bucket.go", "s.wait(l, 0)", "s.wait(l, min(op.Cost, 1))"},
	{"a penalty shortened", "decide.go", "until > max(c.blocked, c.ts)", "until > c.ts"},
	{"a penalty lost on writing", "entry.go", "head[0] |= flagBlocked", "e.ts = e.blocked"},
	{"a direct call keeps the name", "call.go", "c.limit, c.name = *lim, nil", "c.limit = *lim"},
	{"the limit in force ignored", "stored.go", "e.limit, e.ts = lim, t\n\treturn e.resetAfter(clock)", "return e.resetAfter(clock)"},
	{"FORCE on a window", "call.go", "if a == Bucket {", "if a == Bucket || op.Force {"},
	{"a log without a bound", "limit.go", "n > row.largest", "n > maxCount"},

	{"a fixed window ends late", "fixed.go", "s.age >= to.Window ||", "s.age > to.Window ||"},
	{"an aligned window starts late", "fixed.go", "if s.age < elapsed {", "if s.age <= elapsed {"},
	{"an empty window goes on", "fixed.go", "s.age >= to.Window || s.count == 0", "s.age >= to.Window"},
	{"a hit lengthens the window", "fixed.go", "s.count += cost\n", "s.count, s.age = s.count+cost, 0\n"},
	{"the wait is the whole window", "fixed.go", "max(l.Window-s.age, hold)", "max(l.Window, hold)"},
	{"a cost that overflows the count", "fixed.go", "cost <= l.Capacity-s.count", "s.count+cost <= l.Capacity"},
	{"a penalty does not hold", "fixed.go", "case fits && hold == 0:", "case fits:"},
	{"more refunded than was counted", "fixed.go", "s.count -= min(tokens, s.count)", "s.count -= tokens"},

	{"the share rounded down", "sliding.go", "if rest != 0 {", "if rest == uint64(l.Window) {"},
	{"the share by float64", "sliding.go", "share, rest := bits.Div64(hi, lo, uint64(l.Window))", "hi, lo = hi+0, lo+0\n\tshare, rest := uint64(float64(s.prev)*float64(l.Window-s.age)/float64(l.Window)), uint64(1)"},
	{"the previous window forgotten", "sliding.go", "s.prev, s.cur = s.cur, 0", "s.prev, s.cur = 0, 0"},
	{"the window before that remembered", "sliding.go", "if s.age < 2*to.Window {", "if s.age < 3*to.Window {"},
	{"the wait ends with the window", "sliding.go", "return l.Window - s.age + shrunk(s.cur, l.Capacity-cost, l.Window)", "return l.Window - s.age"},
	{"the wait is a ms short", "sliding.go", "return window - int64(left)", "return max(window-int64(left)-1, 0)"},
	{"the reset ends with the window", "sliding.go", "reset = 2*l.Window - s.age", "reset = l.Window - s.age"},
	{"the newest refunded first", "sliding.go", "older := min(tokens, s.prev)", "older := min(max(tokens-s.cur, 0), s.prev)"},
	{"another window forgets all", "sliding.go", "s.merge(from)", "s.prev, s.cur = 0, 0"},
	{"moved back into a larger share", "algorithms.go", "if e.limit.Algorithm == Sliding {", "if e.limit.Algorithm == 0 {"},

	{"a record counts a ms too long", "log.go", "for s.age+s.span >= to.Window {", "for s.age+s.span > to.Window {"},
	{"the wait is for the newest", "log.go", "return l.Window - s.age - span, nil", "return l.Window - s.age, nil"},
	{"the wait is for the oldest whatever the cost", "log.go", "if excess -= r.count; excess <= 0 {", "if excess -= r.count; true {"},
	{"denials are recorded", "log.go", "wait, err := s.wait(l, cost)", "wait, err := s.wait(l, cost)\n\ts.add(cost)"},
	{"a record for each call", "log.go", "if s.age > 0 {", "if s.age >= 0 {"},
	{"a count written wrong", "log.go", "uint64(r.count-2)", "uint64(r.count-1)"},
	{"a refund loses what it left", "log.go", "s.head = r\n", ""},
	{"the log forgets lateness", "log.go", "return 0, late + max(wait, hold), err", "return 0, max(wait, hold), err"},
	{"damage among records unseen", "algorithms.go", "return e.state.log.verify()", "return true"},

	{"a state ahead covers whatever time has passed", "ahead.go", "h.carryState(&h.limit, s.ts)", "h.carryState(&h.limit, h.ts)"},
	{"a state ahead covers a longer penalty", "ahead.go", " || h.blocked < s.blocked {", " {"},
	{"a state ahead covers another limit", "ahead.go", "h.limit != s.limit || ", ""},
	{"a state ahead covers another window", "ahead.go", "h.fixed.age != s.fixed.age || ", ""},
	{"a full one covers one that is full later", "ahead.go", " && h.bucket.credit < l.Capacity*l.Q,", ","},
	{"lost time at the call's rate", "ahead.go", "s.credit = min(s.credit, direct.credit)", "*s = direct"},
	{"lost time at the rate before", "ahead.go", "s.credit = min(s.credit, direct.credit)", ""},
	{"a lost count is as old as what was found", "ahead.go", "s.sliding.age = latest % to.Window", "latest = e.ts\n\t\ts.sliding.age = latest % to.Window"},
	{"another window may be open", "ahead.go", "e.blocked = max(e.blocked, latest+1)\n\t}\n\treturn reached", "_ = 0\n\t}\n\treturn reached"},
	{"a refund earlier than it was", "decide.go", "c.settle()\n", ""},
	{"a penalty earlier than it was", "decide.go", "max(c.ts, c.certain) + wait", "c.ts + wait"},
	{"what comes from a disk is certain", "stored.go", "e.certain = min(e.certain, maxTS)", "e.certain = 0"},
	{"a drained bucket is as it was found", "drained.go", "min(s.bucket.credit, 0)", "s.bucket.credit"},
	{"a drained window was full when it began", "drained.go", "s.fixed.age = 0", "_ = 0"},
	{"a drained sliding window is as it was found", "drained.go", "s.sliding.cur = max(s.sliding.used(l), l.Capacity)", "s.sliding.cur = s.sliding.used(l)"},
	{"a drained log is as it was found", "drained.go", "max(s.log.total, l.Capacity)", "s.log.total"},

	{"a minute of 60 ms", "limit.go", "size = 60 * 1000\n", "size = 60\n"},
}

// TestMutants runs the other tests, in their short form, against each mutant.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the other tests once for each planted fault")
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		if out, err := testOverlaid(t, "bucket.go", "", ""); err != nil {
			t.Fatalf("the tests fail without a planted fault:\n%s", out)
		}
	})
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			out, err := testOverlaid(t, m.file, m.old, m.new)
			switch {
			case err == nil:
				t.Error("no test noticed")
			case !strings.Contains(out, "--- FAIL: Test") && !strings.Contains(out, "panic: "):
				t.Errorf("not a test's failure: %v\n%s", err, out)
			}
		})
	}
}

// testOverlaid runs the short tests with one text of a file replaced, without writing to the package.
func testOverlaid(t *testing.T, file, old, new string) (output string, err error) {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), old); old != "" && n != 1 {
		t.Fatalf("%q stands %d times in %s, want once: move the fault to where the code went", old, n, file)
	}
	dir := t.TempDir()
	mutated, overlay := filepath.Join(dir, file), filepath.Join(dir, "overlay.json")
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{mutated: []byte(strings.Replace(string(source), old, new, 1)), overlay: replace} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.Command("go", "test", "-short", "-failfast", "-vet=off", "-ldflags=-s -w", "-timeout=120s", "-overlay="+overlay, ".")
	run.Env = append(os.Environ(), "GOGC=400") // for the compiler: a sixth less time
	out, err := run.CombinedOutput()
	return string(out), err
}
