package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTools takes a directory through what an operator does with the tools: exit codes, and which stream says what.
func TestTools(t *testing.T) {
	t.Parallel()
	base := shortDir(t)
	dir, saved := filepath.Join(base, "data"), filepath.Join(base, "saved")
	run := func(code int, on string, args ...string) (said string) {
		t.Helper()
		got, stdout, stderr := once(t, args...)
		if got != code {
			t.Errorf("%q: exit code %d, want %d: %s%s", args, got, code, stdout, stderr)
		}
		said, silent := stdout, stderr
		if on == "stderr" {
			said, silent = stderr, stdout
		}
		if said == "" || silent != "" {
			t.Errorf("%q: stdout %q, stderr %q", args, stdout, stderr)
		}
		return said
	}
	wants := func(said string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(said, part) {
				t.Errorf("%q is missing in\n%s", part, said)
			}
		}
	}

	for _, args := range [][]string{{"check"}, {"check", dir, dir}, {"repair", dir}} {
		wants(run(exitBadUsage, "stderr", args...), "expected DIR")
	}
	wants(run(exitOK, "stdout", "check", "--help"), "check DIR")
	wants(run(exitBadUsage, "stderr", "check", dir), "is not a data directory", "does not exist")
	wants(run(exitBadUsage, "stderr", "repair", base, saved), "is not a data directory")

	p := start(t, dir)
	c := dial(t, p.addr)
	c.do("RL.LIMIT", "SET", "up", "adaptive:100..1000:20")
	for _, cmd := range []string{"RL.ACQUIRE a 1/1h 10", "RL.ACQUIRE b 1/1h 10", "RL.SLIDING c 10 1h", "RL.LOG d 10 1h", "RL.FEEDBACK up ok", "SAVE"} {
		c.do(strings.Fields(cmd)...)
	}
	wants(run(exitInUse, "stderr", "check", dir), "another rlserver uses")
	wants(run(exitInUse, "stderr", "repair", dir, saved), "another rlserver uses")
	p.stop()
	wants(run(exitOK, "stdout", "check", dir), "is fine\n", "4 (bucket 2, ", "1 named, 1 of them adaptive, 1 with a rate found", "last stop    clean\n")

	current := filepath.Join(dir, "CURRENT")
	text, err := os.ReadFile(current)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(current, text, 0o600); err != nil {
		t.Fatal(err)
	}
	wants(run(exitDamaged, "stdout", "check", dir), "is damaged in 1 place", "file CURRENT: checksum does not match", "rlserver repair "+dir+" NEWDIR")
	code, _, stderr := once(t, "--dir", dir, "--port", "0", "--http-addr", "")
	if code != exitFailed {
		t.Errorf("a start: exit code %d", code)
	}
	wants(stderr, "file CURRENT", `"rlserver check `+dir+`"`, `"rlserver repair `+dir+` NEWDIR"`)
	wants(run(exitOK, "stdout", "repair", dir, saved), saved+" holds what could be saved of "+dir, "file CURRENT", "lost         nothing\n")
	wants(run(exitBadUsage, "stderr", "repair", dir, saved), "is not empty")
	wants(run(exitOK, "stdout", "check", saved), "is fine\n", "4 (bucket 2, ")
	p = start(t, saved)
	wants(p.out.String(), "4 keys loaded")
	p.stop()

	tables, err := filepath.Glob(filepath.Join(saved, "gen-000001", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, name := range tables {
		if err := os.Truncate(name, 20); err != nil {
			t.Fatal(err)
		}
	}
	again := filepath.Join(base, "again")
	wants(run(exitDamaged, "stdout", "check", saved), "cannot be read")
	wants(run(exitDamaged, "stdout", "repair", saved, again), "cannot be read", "lost         not known", "Start with --dir "+again)
	wants(run(exitOK, "stdout", "check", again), "is fine\n", "entries      0", "lacks what could not be saved")
	p = start(t, again)
	wants(p.out.String(), "the directory was repaired; what was lost, as repair said, is forgotten")
	p.stop()
}
