package persist

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCheck: whatever is damaged, the check says so, or a start finds exactly what was there; and it leaves every byte as it is.
func TestCheck(t *testing.T) {
	h := newHistory(t)
	long, _ := longHistory(t)
	for _, image := range append(long, h.clean, h.crashed, h.unsealed) {
		found, harmless := 0, 0
		image.each(fewFlips(), func(what string, damaged map[string][]byte) {
			fs := written(t, damaged)
			r, err := Check(dir, fs)
			if after := files(t, fs, dir); !maps.EqualFunc(after, damaged, slices.Equal) {
				t.Fatalf("%s: the check changed the directory", what)
			}
			if err != nil {
				t.Errorf("%s: %v", what, err)
				return
			}
			if r.Damage.Total > 0 {
				found++
				return
			}
			harmless++
			got, info, err := stateOn(t, fs)
			switch {
			case err != nil:
				t.Errorf("%s: fine, but a start says %v", what, err)
			case !maps.Equal(got, image.want) && !maps.Equal(got, image.before):
				t.Errorf("%s: fine, but %d entries, want %d", what, len(got), len(image.want))
			case info.Warning != "":
				t.Errorf("%s: fine, but a start warns: %s", what, info.Warning)
			case r.Entries+r.Limits != len(got) || info.Clean != r.Clean || !info.SavedAt.Equal(r.SavedAt):
				t.Errorf("%s: %+v, a start finds %d, %+v", what, r, len(got), info)
			}
		})
		t.Logf("%s: %d damages found, %d harmless", image.what, found, harmless)
		if found == 0 || harmless == 0 {
			t.Error("the damage was not where it should be")
		}
	}
}

// TestToolsOnDisk: a real directory is left exactly as it is, the lock file and all times too, and is not taken from a process that has it.
func TestToolsOnDisk(t *testing.T) {
	base := t.TempDir()
	d := filepath.Join(base, "data")
	w := open(t, Options{Dir: d})
	w.debit("a", "b")
	w.limit("name", 5)
	w.save()
	for what, err := range map[string]error{
		"check":  second(Check(d, nil)),
		"repair": second(Repair(d, filepath.Join(base, "new"), nil, nil)),
	} {
		if !errors.Is(err, ErrInUse) {
			t.Errorf("%s while the process has it: %v", what, err)
		}
	}
	w.close()
	if err := os.WriteFile(filepath.Join(d, lockFile), []byte("not ours"), 0o400); err != nil {
		t.Fatal(err)
	}
	before := dirTree(t, d)
	if r, err := Check(d, nil); err != nil || r.Damage.Total > 0 || r.Entries != 2 || r.Limits != 1 || !r.Clean || r.Files == 0 || r.Bytes == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := Repair(d, filepath.Join(base, "new"), nil, nil); err != nil || r.Lost.Total > 0 || r.Entries != 2 || !r.Clean {
		t.Errorf("%+v, %v", r, err)
	}
	if after := dirTree(t, d); !maps.Equal(after, before) {
		t.Errorf("before\n%v\nafter\n%v", before, after)
	}
	for path, what := range dirTree(t, filepath.Join(base, "new")) {
		if !strings.HasPrefix(what, "-rw-------") && !strings.HasPrefix(what, "drwx------") {
			t.Errorf("%s: %s", path, what)
		}
	}
	w = open(t, Options{Dir: filepath.Join(base, "new")})
	wantState(t, w.state(), state{"a": 1, "b": 1, "@name": 5})
	w.close()
}

func second[T any](_ T, err error) error { return err }

// dirTree returns what there is below a directory: modes, sizes and times.
func dirTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			m[path] = fmt.Sprint(info.Mode(), info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
