package main

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fingerprints are of all files below a directory.
func fingerprints(t *testing.T, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		m[path] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sealedFile is a file of facts as persist writes them.
func sealedFile(name string, facts ...string) []byte {
	b := "rlserver " + name + "\n" + strings.Join(facts, "\n") + "\n"
	return fmt.Appendf(nil, "%scrc32c %08x\n", b, crc32.Checksum([]byte(b), crc32.MakeTable(crc32.Castagnoli)))
}

// TestRefusedStarts: a directory that another server has, that a newer one wrote, that is damaged or that is something else stops the
// start with exit code 1 and a sentence that says what to do; nobody is served, and what is there stays as it is, to the byte, but for a
// damaged table, that is met late.
func TestRefusedStarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, dir)
	c := dial(t, p.addr)
	c.do("RL.ACQUIRE", "k", killLimit, "1000000", "COST", "400000")
	c.do("SAVE")
	refused := func(what, dir, want string) {
		t.Helper()
		before := fingerprints(t, dir)
		code, out, text := once(t, serverArgs(dir, nil)...)
		if code != exitFailed || out != "" || !strings.Contains(text, want) || !strings.Contains(text, dir) {
			t.Errorf("%s: exit code %d, %q, %q", what, code, out, text)
		}
		if after := fingerprints(t, dir); !maps.Equal(before, after) && !strings.Contains(what, "table") {
			t.Errorf("%s: the directory was changed", what)
		}
	}
	begun := time.Now()
	code, out, text := once(t, serverArgs(dir, nil)...)
	if want := "another rlserver uses the data directory " + dir; code != exitFailed || out != "" || !strings.Contains(text, want) {
		t.Errorf("a second server: exit code %d, %q, %q", code, out, text)
	}
	if took := time.Since(begun); took > readyWithin/3 {
		t.Errorf("a second server took %v", took)
	}
	if got := c.do("RL.ACQUIRE", "k", killLimit, "1000000").ints(); len(got) != 5 || got[2] != 599999 {
		t.Errorf("the first server, after a second one tried: %v", got)
	}
	p.stop()

	damage := func(name string, change func([]byte) []byte) (undo func()) {
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(append([]byte{}, b...)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() { os.WriteFile(path, b, 0o600) }
	}
	tables, err := filepath.Glob(filepath.Join(dir, "gen-*", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal("no tables", err)
	}
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	advice := `save what can be read with "rlserver repair ` + dir + ` NEWDIR"`
	for _, c := range []struct {
		what, name, want string
		change           func([]byte) []byte
	}{
		{"CURRENT damaged", "CURRENT", advice, flip},
		{"CURRENT empty", "CURRENT", advice, func([]byte) []byte { return nil }},
		{"FORMAT damaged", "FORMAT", advice, flip},
		{"a table damaged", strings.TrimPrefix(tables[0], dir), advice, flip},
		{"MARK of a later round", "MARK", advice, func([]byte) []byte {
			return sealedFile("MARK", "generation 1", "round 900", "chain 00000000", "clean false")
		}},
		{"a newer format", "FORMAT", "written by a newer rlserver", func([]byte) []byte { return sealedFile("FORMAT", "format 99") }},
	} {
		undo := damage(c.name, c.change)
		refused(c.what, dir, c.want)
		undo()
	}
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "holiday.jpg"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("another directory", foreign, "choose another one, or an empty one")
	if got := left(t, start(t, dir).addr, "k"); got != 599999 {
		t.Errorf("%d tokens when all is as it was", got)
	}
}
