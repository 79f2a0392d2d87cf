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
	{"debit on denial", "bucket.go", "return s, 0, wait, nil", "return state{s.credit - op.Cost*l.Q}, 0, wait, nil"},
	{"ts moved on denial", "decide.go", "changed, err := c.take(&op, &d)\n\tif changed {", "changed, err := c.take(&op, &d)\n\tif changed || err == nil && d.Allowed == 0 {"},
	{"ts moved back", "call.go", "t := max(now, c.ts)", "t := max(now, min(c.ts, now))"},
	{"lateness forgotten", "call.go", "c.late = s, *lim, t, t-now", "c.late = s, *lim, t, 0"},
	{"no clamp after the refill", "bucket.go", "if borrow != 0 {\n\t\treturn state{credit: full}, nil", "if borrow != 0 {\n\t\treturn state{credit: full + 1}, nil"},
	{"no clamp after a refund", "bucket.go", "if hi != 0 || lo >= uint64(full-s.credit) {", "if hi != 0 {"},
	{"rescaled credit rounded up", "bucket.go", "return 0, uint64(full) - quoLo", "return 0, uint64(full) - quoLo - min(rest, 1)"},
	{"rescaled debt rounded up", "bucket.go", "if rest != 0 {", "if rest > uint64(q) {"},
	{"elapsed time at the old rate", "bucket.go", "bits.Mul64(uint64(elapsed), uint64(to.P))", "bits.Mul64(uint64(elapsed), uint64(from.P))"},
	{"a larger burst conjures tokens", "bucket.go", "case s.credit < full:", "case s.credit < from.Capacity*from.Q:"},
	{"64 bits for a debt", "bucket.go", "if hi != 0 || lo > room {", "if hi != 0 && lo > room {"},
	{"COST 0 passes in debt", "bucket.go", "hold == 0 && s.credit >= op.Cost*l.Q", "hold == 0 && (op.Cost == 0 || s.credit >= op.Cost*l.Q)"},
	{"MAXWAIT from the entry's time", "bucket.go", "if wait > op.MaxWait {", "if wait-late > op.MaxWait {"},
	{"FORCE waits for its cost", "bucket.go", "bucketWait(l, next, 0)", "bucketWait(l, next, min(op.Cost, 1))"},
	{"a penalty shortened", "decide.go", "until > max(c.blocked, c.ts)", "until > c.ts"},
	{"a penalty lost on writing", "entry.go", "head[0] |= flagBlocked", "e.ts = e.blocked"},
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
	out, err := exec.Command("go", "test", "-short", "-failfast", "-vet=off", "-ldflags=-s -w", "-timeout=60s", "-overlay="+overlay, ".").CombinedOutput()
	return string(out), err
}
