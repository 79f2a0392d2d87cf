package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// plants are faults that the ledger of TestKill must notice, each in the mode named: in file the text old, which stands there exactly
// once, becomes new, which does it only if the fault is planted. So all are in one build of the program. Who changes the code moves the
// fault along.
var plants = []struct{ name, mode, file, old, new string }{
	{"no sync on commit", "always", "persist/round.go",
		"return b.Commit(pebble.Sync)",
		"if planted(`no sync on commit`) {\nreturn b.Commit(pebble.NoSync)\n}\nreturn b.Commit(pebble.Sync)"},
	{"a reply before its round", "always", "resp/lock.go",
		"s.round = max(s.round, tx.Due())",
		"if !planted(`a reply before its round`) {\ns.round = max(s.round, tx.Due())\n}"},
	{"SAVE answers before its round", "shutdown", "resp/admin.go",
		"s.round = max(s.round, s.srv.durability.Save())",
		"if !planted(`SAVE answers before its round`) {\ns.round = max(s.round, s.srv.durability.Save())\n}"},
	{"a lag that is not told", "interval", "persist/stats.go",
		"st.LagMs = now.Sub(s.durableAt).Milliseconds()",
		"if !planted(`a lag that is not told`) {\nst.LagMs = now.Sub(s.durableAt).Milliseconds()\n}"},
	{"rounds that wait for a minute", "interval", "persist/flusher.go",
		"late := d.o.Mode.periodic() &&",
		"late := d.o.Mode.periodic() && !planted(`rounds that wait for a minute`) &&"},
	{"nothing is synced ahead", "reserve", "shard/promise.go",
		"return t.due",
		"if planted(`nothing is synced ahead`) {\nreturn 0\n}\nreturn t.due"},
	{"the disk is not ahead", "reserve", "shard/held.go",
		"if state, _ := r.held(); state != nil {",
		"if state, _ := r.held(); state != nil && !planted(`the disk is not ahead`) {"},
	{"what was saved counts beside a drain", "interval,drain", "shard/drain.go",
		"if at == 0 || len(value) > 0 && !engine.Untouched(value, at) {",
		"if at == 0 || len(value) > 0 && (planted(`what was saved counts beside a drain`) || !engine.Untouched(value, at)) {"},
}

const plantEnv = "RLSERVER_PLANTED"

// TestKillNoticesPlantedFaults kills servers with a fault each, until the ledger says so.
func TestKillNoticesPlantedFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program again")
	}
	t.Parallel()
	binary := buildPlanted(t)
	for _, f := range plants {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			const tries = 20
			all := append(slices.Clone(modes), draining)
			k := newKiller(t, 1, all[slices.IndexFunc(all, func(m mode) bool { return m.String() == f.mode })])
			k.patient, k.strict = f.mode == "interval", true
			k.program = func(args ...string) *exec.Cmd {
				cmd := exec.Command(binary, args...)
				cmd.Env = append(os.Environ(), plantEnv+"="+f.name)
				return cmd
			}
			for range tries {
				if faults := k.round(); len(faults) > 0 {
					t.Logf("noticed after %d kills: %.200s", k.kills, faults[0])
					return
				}
			}
			t.Errorf("not noticed in %d kills", k.kills)
		})
	}
}

// buildPlanted builds the program with all faults in it, without writing to the packages.
func buildPlanted(t *testing.T) (binary string) {
	t.Helper()
	dir, replace, texts := t.TempDir(), map[string]string{}, map[string]string{}
	for _, f := range plants {
		if _, ok := texts[f.file]; !ok {
			b, err := os.ReadFile(filepath.Join("..", "..", f.file))
			if err != nil {
				t.Fatal(err)
			}
			texts[f.file] = string(b)
		}
		if n := strings.Count(texts[f.file], f.old); n != 1 {
			t.Fatalf("%s: %q stands %d times in %s, want once: move the fault to where the code went", f.name, f.old, n, f.file)
		}
		texts[f.file] = strings.Replace(texts[f.file], f.old, f.new, 1)
		room := filepath.Dir(f.file)
		texts[room+"/planted.go"] = "package " + room + "\n\nimport \"os\"\n\nvar thePlanted = os.Getenv(\"" + plantEnv +
			"\")\n\nfunc planted(fault string) bool { return thePlanted == fault }\n"
	}
	for name, text := range texts {
		path, err := filepath.Abs(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		replace[path] = filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "planted")
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-overlay="+filepath.Join(dir, "overlay.json"), "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}
