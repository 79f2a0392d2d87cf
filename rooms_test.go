package rlserver

import (
	"go/build"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/rlserver/rlserver"

// room says what the non-test files of a folder may import: rooms of ours, and
// modules from outside. The standard library is open to all, but for bans.
type room struct {
	ours    []string
	outside []string
	bans    []string // packages of the standard library kept out
}

// rooms are the walls of the house. A new arrow needs its reason in the commit
// that adds it here.
var rooms = map[string]room{
	"engine":       {bans: []string{"os", "net", "sync", "time"}}, // pure arithmetic: it never asks the time
	"shard":        {ours: []string{"engine"}},
	"shard/crash":  {ours: []string{"engine", "shard"}}, // for tests, of rooms that do not know one another
	"persist":      {ours: []string{"shard"}, outside: []string{"github.com/cockroachdb/pebble/v2"}},
	"replicate":    {ours: []string{"shard"}},
	"observe":      {outside: []string{"github.com/prometheus/client_golang"}},
	"resp":         {ours: []string{"engine", "shard"}, outside: []string{"github.com/tidwall/redcon"}},
	"attack":       {}, // a peer: it knows what is on the wire and nothing of ours
	"drivers":      {}, // likewise: a test alone, of drivers as users install them
	"cmd/rlserver": {ours: []string{"engine", "shard", "persist", "observe", "replicate", "resp"}},
}

// TestRooms holds the table above against what is there, in both directions. It
// reads the folders in process: asking `go list` would be answered from the
// test cache.
func TestRooms(t *testing.T) {
	found := map[string]bool{}
	filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			t.Fatal(err)
		}
		if d.IsDir() && (path == "bench" || strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "testdata") {
			return filepath.SkipDir // bench is a module of its own
		}
		if !d.IsDir() || path == "." {
			return nil
		}
		pkg, err := build.ImportDir(path, 0)
		if err != nil {
			return nil // no Go files here
		}
		found[path] = true
		r, ok := rooms[path]
		if !ok {
			t.Errorf("%s is no room of the house: give it a row in rooms_test.go and a reason in the commit", path)
			return nil
		}
		for _, imp := range pkg.Imports {
			if !r.mayImport(imp) {
				t.Errorf("%s imports %s: the table in rooms_test.go has no such arrow", path, imp)
			}
		}
		return nil
	})
	for path := range rooms {
		if !found[path] {
			t.Errorf("rooms_test.go has a row for %s, which is not there", path)
		}
	}
}

func (r room) mayImport(imp string) bool {
	if rest, ok := strings.CutPrefix(imp, module+"/"); ok {
		return slices.Contains(r.ours, rest)
	}
	if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
		return !slices.Contains(r.bans, first)
	}
	return slices.ContainsFunc(r.outside, func(m string) bool { return imp == m || strings.HasPrefix(imp, m+"/") })
}
