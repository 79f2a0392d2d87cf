package crash_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutants are faults that would admit tokens twice, each planted alone: in file, from the module's root, the text old, which stands there
// exactly once, becomes new. The first of them run always, the others in make soak.
var mutants = []struct{ name, file, old, new string }{
	{"a covered debit does not wait for its block", "shard/held.go", "return holding{sh.held, round, false}", "return holding{sh.held, 0, false}"},
	{"time does not count", "engine/ahead.go", "h.carryState(&h.limit, s.ts)", "h.carryState(&h.limit, h.ts)"},
	{"a new generation has the true value", "shard/iterate.go", "appendChange(out, buf, feed)", "appendChange(out, buf, 1)"},
	{"lost time counts at the rate of the call", "engine/ahead.go", "s.credit = min(s.credit, direct.credit)", "*s = direct"},

	{"what a disk has is certain", "engine/stored.go", "e.certain = min(e.certain, maxTS)", "e.certain = 0"},
	{"a longer penalty is covered", "engine/ahead.go", " || h.blocked < s.blocked {", " {"},
	{"only loaded keys are drained", "shard/drain.go", "at == 0 || len(value) > 0 && !engine.Untouched(value, at)", "at == 0 || len(value) == 0 || !engine.Untouched(value, at)"},
	{"only absent keys are drained", "shard/drain.go", "at == 0 || len(value) > 0 && !engine.Untouched(value, at)", "at == 0 || len(value) > 0"},
}

// always is how many mutants run without soaking.
const always = 4

// TestMutants: the other tests catch each of them.
func TestMutants(t *testing.T) {
	list := mutants
	if testing.Short() {
		t.Skip("runs the other tests once for each planted fault")
	} else if !soaking {
		list = list[:always]
	}
	for _, m := range list {
		t.Run(m.name, func(t *testing.T) {
			out, err := overlaid(t, m.file, m.old, m.new)
			switch {
			case err == nil:
				t.Error("no test noticed")
			case !strings.Contains(out, "tokens were admitted twice") && !strings.Contains(out, "panic: "):
				t.Errorf("not for the tokens: %v\n%s", err, out)
			}
		})
	}
}

// overlaid runs the other tests with one text of a file replaced, without writing to the package.
func overlaid(t *testing.T, file, old, new string) (output string, err error) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), old); n != 1 {
		t.Fatalf("%q stands %d times in %s, want once: move the fault to where the code went", old, n, file)
	}
	dir := t.TempDir()
	mutated, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{mutated: []byte(strings.Replace(string(source), old, new, 1)), overlay: replace} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.Command("go", "test", "-failfast", "-vet=off", "-ldflags=-s -w", "-timeout=120s", "-run", "TestReserve|TestRefund", "-overlay="+overlay, ".")
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "RLSERVER_SOAK=") {
			run.Env = append(run.Env, v)
		}
	}
	out, err := run.CombinedOutput()
	return string(out), err
}
