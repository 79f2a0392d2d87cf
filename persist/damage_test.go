package persist

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// files returns all files below the data directory with their bytes.
func files(t testing.TB, fs vfs.FS, at string) map[string][]byte {
	t.Helper()
	m := map[string][]byte{}
	names, err := fs.List(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := fs.PathJoin(at, name)
		info, err := fs.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			maps.Copy(m, files(t, fs, path))
		} else if m[path], err = readFile(fs, path, 1<<30); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// written makes a file system of files.
func written(t testing.TB, m map[string][]byte) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewMem()
	for name, b := range m {
		if err := fs.MkdirAll(fs.PathDir(name), dirMode); err != nil {
			t.Fatal(err)
		}
		f, err := fs.Create(name, writeCategory)
		if err == nil {
			_, err = f.Write(slices.Clone(b)) // which may be scribbled over
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return fs
}

// images are a directory after a clean stop and one after a crash, both with several rounds, and what they hold.
func images(t *testing.T) (clean, crashed map[string][]byte, want state) {
	h := newHistory(t)
	return h.clean.files, h.crashed.files, h.clean.want
}

// An image is what is on a disk, and what a start on it must find.
type image struct {
	what  string
	files map[string][]byte
	want  state
	// before is what the store held a round earlier, if the last round is synced but not sealed: damage to it cannot be told from the
	// tail that a crash leaves. It is nil if all rounds are sealed.
	before state
}

// A history is one directory at several times.
type history struct {
	earlier, unsealed, crashed, clean image

	rounds []state // what was held at the end of each round
}

func newHistory(t *testing.T) (h history) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		w := open(t, Options{FS: mem, Interval: time.Hour, tune: tuning{chunkRecords: 20, mergeEntries: 100, mergeLines: 80}}) // no rounds but those of save
		now := func(what string, before state) image {
			synctest.Wait()
			return image{what, files(t, mem.CrashClone(vfs.CrashCloneCfg{}), dir), w.state(), before}
		}
		for round := range 4 {
			for i := range 40 {
				w.debit(fmt.Sprintf("user:%d:%d", round%3, i), "hot")
			}
			w.save()
			h.rounds = append(h.rounds, w.state())
			switch round {
			case 1:
				h.earlier = now("an earlier crash", nil)
			case 2: // a round so soon after another that its seal has to wait
				before := now("", nil).want
				for i := range 40 {
					w.debit(fmt.Sprintf("late:%d", i))
				}
				w.save()
				h.rounds = append(h.rounds, w.state())
				h.unsealed = now("a crash before the seal", before)
			}
			time.Sleep(time.Second) // the mark follows
		}
		h.crashed = now("a crash", nil)
		w.close()
		h.clean = image{what: "a clean stop", files: files(t, mem, dir), want: w.state()}
	})
	return h
}

// flips is how many bytes of each file are damaged, at equal distances, one start for each.
func flips() int {
	switch {
	case soaking:
		return 200
	case testing.Short():
		return max(1, 20/thin)
	}
	return 30
}

// TestBitFlips: whichever byte is damaged, a start finds what was there, or refuses with a text that says what to do, or lacks the last
// round only and says that the stop was not clean and how old the state is. The last is for a round that was synced and not sealed: what
// had been sealed is never silently less.
func TestBitFlips(t *testing.T) {
	h := newHistory(t)
	for _, image := range []image{h.clean, h.crashed, h.unsealed} {
		refused, same, warned, lost := 0, 0, 0, 0
		for name, b := range image.files {
			for at := len(name) % 7; at < len(b); at += 1 + len(b)/flips() {
				damaged := maps.Clone(image.files)
				damaged[name] = slices.Clone(b)
				damaged[name][at] ^= 0x10
				got, info, err := stateOn(t, written(t, damaged))
				switch {
				case err == nil && maps.Equal(got, image.want):
					if same++; info.Warning != "" {
						warned++
					}
				case err == nil && image.before != nil && maps.Equal(got, image.before) && !info.Clean && !info.SavedAt.IsZero():
					lost++
				case err == nil:
					t.Errorf("%s, %s byte %d of %d: %d entries, want %d; %+v", image.what, name, at, len(b), len(got), len(image.want), info)
				case !helpful(err):
					t.Errorf("%s, %s byte %d of %d: %v", image.what, name, at, len(b), err)
				default:
					refused++
				}
			}
		}
		t.Logf("%s: %d files, %d flips refused, %d harmless, %d of them with a warning, %d times the last round lost", image.what,
			len(image.files), refused, same, warned, lost)
		if refused == 0 || warned == 0 || image.before != nil && lost == 0 {
			t.Error("the damage was not where it should be")
		}
	}
}

// helpful says whether an error tells who starts the server what to do about damaged data.
func helpful(err error) bool {
	return strings.Contains(err.Error(), "Restore the directory from a backup") || strings.Contains(err.Error(), "newer rlserver")
}

// TestFilesMissingCutOrEmpty: the same for whole files.
func TestFilesMissingCutOrEmpty(t *testing.T) {
	h := newHistory(t)
	for _, image := range []image{h.clean, h.crashed, h.unsealed} {
		refused, same, lost := 0, 0, 0
		image.each(0, func(what string, damaged map[string][]byte) {
			got, info, err := stateOn(t, written(t, damaged))
			switch {
			case err != nil && helpful(err):
				refused++
			case err != nil:
				t.Errorf("%s: %v", what, err)
			case maps.Equal(got, image.want):
				same++
			case image.before != nil && maps.Equal(got, image.before) && !info.Clean:
				lost++
			default:
				t.Errorf("%s: %d entries, want %d; %+v", what, len(got), len(image.want), info)
			}
		})
		t.Logf("%s: %d refused, %d harmless, %d times the last round lost", image.what, refused, same, lost)
	}
}

// TestFilesOfAnotherTime: files of an earlier or a later state of the directory, as somebody who copies a backup over it leaves them, in
// the place of those there or beside them. A start finds the state of one round whole, or refuses.
func TestFilesOfAnotherTime(t *testing.T) {
	h := newHistory(t)
	times := []image{h.earlier, h.crashed, h.clean}
	for _, image := range times {
		for _, other := range times {
			found := map[string]int{}
			for name, b := range other.files {
				mixed := maps.Clone(image.files)
				mixed[name] = b
				got, _, err := stateOn(t, written(t, mixed))
				what := "refused"
				switch {
				case err != nil && helpful(err):
				case err != nil:
					t.Errorf("%s of %s in %s: %v", name, other.what, image.what, err)
				case maps.Equal(got, image.want):
					what = "its own state"
				case slices.ContainsFunc(h.rounds, func(s state) bool { return maps.Equal(got, s) }):
					what = "another round's state"
				default:
					t.Errorf("%s of %s in %s: %d entries that never were", name, other.what, image.what, len(got))
				}
				found[what]++
			}
			t.Logf("files of %s in %s: %v", other.what, image.what, found)
		}
	}
}

// TestMarkOfAnotherHistory: a round that was written anew, after the one that MARK speaks of was lost with its MARK, is not taken for it.
func TestMarkOfAnotherHistory(t *testing.T) {
	mark := func(more ...string) image {
		mem := vfs.NewCrashableMem()
		w := open(t, Options{FS: mem, Mode: Shutdown})
		w.debit(append(more, "a")...)
		w.save()
		w.close()
		return image{files: files(t, mem, dir), want: w.state()}
	}
	one, other := mark(), mark("b")
	one.files[dir+"/"+markFile] = other.files[dir+"/"+markFile]
	if got, _, err := stateOn(t, written(t, one.files)); err == nil || !helpful(err) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestForeignFiles: what does not belong to a directory does no harm in it, except what looks like a part of it and is not.
func TestForeignFiles(t *testing.T) {
	h := newHistory(t)
	gen := dir + "/" + generationName(1)
	for _, c := range []struct {
		name    string
		b       []byte
		refused bool
	}{
		{dir + "/holiday.jpg", []byte("x"), false},
		{dir + "/.nfs0001", []byte("x"), false},
		{dir + "/CURRENT.tmp", []byte("half"), false},
		{dir + "/gen-000009/000002.log", []byte("x"), false},
		{dir + "/gen-000009/CURRENT", nil, false},
		{gen + "/holiday.jpg", []byte("x"), false},
		{gen + "/000900.sst", []byte("x"), false},
		{gen + "/temporary.000003.dbtmp", []byte("x"), false},
		{gen + "/000900.log", []byte("not a log"), true},
	} {
		for _, image := range []image{h.clean, h.crashed} {
			mixed := maps.Clone(image.files)
			mixed[c.name] = c.b
			got, _, err := stateOn(t, written(t, mixed))
			if c.refused && err != nil && helpful(err) {
				continue
			}
			if err != nil {
				t.Errorf("%s in %s: %v", c.name, image.what, err)
				continue
			}
			wantState(t, got, image.want)
		}
	}
}

// TestLostRoundIsNoticed: Pebble takes damage at the end of its log for a torn tail; the mark knows better.
func TestLostRoundIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		w := open(t, Options{FS: mem})
		w.debit("a")
		w.save()
		time.Sleep(time.Second)
		w.debit("a")
		w.save()
		time.Sleep(time.Second)
		image := files(t, mem.CrashClone(vfs.CrashCloneCfg{}), dir)
		w.close()
		for name, b := range image {
			if strings.HasSuffix(name, ".log") && len(b) > 0 {
				image[name] = b[:len(b)/3]
			}
		}
		_, _, err := stateOn(t, written(t, image))
		if err == nil || !strings.Contains(err.Error(), "round 2 was synced to disk, but the store ends with round") {
			t.Errorf("%v", err)
		}
	})
}

// TestNewerFormat: it is refused, and not a byte is touched.
func TestNewerFormat(t *testing.T) {
	clean, _, _ := images(t)
	newer := vfs.NewMem()
	if err := newer.MkdirAll(dir, dirMode); err != nil {
		t.Fatal(err)
	}
	if err := writeSealed(newer, dir, formatFile, fact{"format", formatVersion + 1}, fact{"more", "than we know"}); err != nil {
		t.Fatal(err)
	}
	ours := maps.Clone(clean)
	delete(ours, dir+"/"+lockFile)
	maps.Copy(ours, files(t, newer, dir))

	pebbles := maps.Clone(clean)
	for name, b := range clean {
		if at := strings.Index(name, "marker.format-version."); at >= 0 {
			delete(pebbles, name)
			pebbles[name[:at]+"marker.format-version.000099.099"] = b
		}
	}
	for what, image := range map[string]map[string][]byte{"ours": ours, "Pebble's": pebbles} {
		fs := written(t, image)
		_, _, err := stateOn(t, fs)
		if err == nil || !strings.Contains(err.Error(), "written by a newer rlserver") || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", what, err)
		}
		if after := files(t, fs, dir); !maps.EqualFunc(after, image, slices.Equal) {
			t.Errorf("%s: the directory was changed: %q", what, slices.Sorted(maps.Keys(after)))
		}
	}
}

// TestForeignDirectory: a directory with something else in it is left alone.
func TestForeignDirectory(t *testing.T) {
	for _, c := range []struct {
		files map[string][]byte
		want  string
	}{
		{map[string][]byte{dir + "/holiday.jpg": {1}}, "not a data directory"},
		{map[string][]byte{dir + "/gen-000001/CURRENT": {1}}, "FORMAT is missing"},
		{map[string][]byte{dir + "/" + currentFile: {1}}, "FORMAT is missing"},
		{map[string][]byte{dir + "/lost+found/x": {1}}, ""},
	} {
		_, _, err := stateOn(t, written(t, c.files))
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.files, err)
		}
	}
}

// TestCleanOrNot: a stop by Close is told from a crash.
func TestCleanOrNot(t *testing.T) {
	mem := vfs.NewCrashableMem()
	w := open(t, Options{FS: mem})
	w.debit("a")
	w.save()
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	w.close()
	for _, c := range []struct {
		fs   vfs.FS
		want bool
	}{{crashed, false}, {crashed, true}, {mem, true}} {
		if _, info, err := stateOn(t, c.fs); err != nil || info.Clean != c.want || info.Warning != "" {
			t.Errorf("%+v, %v; want clean %v", info, err, c.want)
		}
	}
}

// TestNotCleanWhileServing: from the first change on a crash is told from a stop, however slow the disk is to note that the directory is in
// use; if it cannot be noted nobody is served. A start that served nobody leaves a clean directory clean.
func TestNotCleanWhileServing(t *testing.T) {
	var slow, bad atomic.Bool
	mem := vfs.NewCrashableMem()
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !strings.Contains(op.Path, markFile+tmpSuffix) || op.Kind != errorfs.OpCreate {
			return nil
		}
		if slow.Load() {
			time.Sleep(50 * time.Millisecond)
		}
		if bad.Load() {
			return errENOSPC
		}
		return nil
	}))
	for range 2 { // a new directory, then one that was left in order
		slow.Store(true)
		w := open(t, Options{FS: fs, Mode: Shutdown})
		w.debit("a")
		if got, info, err := stateOn(t, mem.CrashClone(vfs.CrashCloneCfg{})); err != nil || info.Clean {
			t.Errorf("after a crash: %v, %+v, %v", got, info, err)
		}
		slow.Store(false)
		w.close()
	}
	bad.Store(true)
	w, err := opened(t, Options{FS: fs})
	if err == nil {
		w.debit("a")
		t.Error("served by who cannot note it")
		w.close()
	} else if !strings.Contains(err.Error(), "make room") {
		t.Error(err)
	}
	bad.Store(false)
	d, err := Open(Options{FS: fs, Dir: dir})
	if err == nil {
		_, err = d.Load(newStore(), start, start)
	}
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	if got, info, err := stateOn(t, mem); err != nil || !info.Clean || got["a"] != 2 {
		t.Errorf("after a start that served nobody: %v, %+v, %v", got, info, err)
	}
}

// lockChildEnv makes the test binary the second process of TestLockedDirectory.
const lockChildEnv = "RLSERVER_TEST_LOCK_DIR"

func TestLockedDirectory(t *testing.T) {
	if d := os.Getenv(lockChildEnv); d != "" {
		db, err := Open(Options{Dir: d})
		if err == nil {
			db.Close()
		}
		fmt.Printf("child: %v\n", err)
		return
	}
	d := filepath.Join(t.TempDir(), "data")
	db, err := Open(Options{Dir: d})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: d}); err == nil || !strings.Contains(err.Error(), "uses the data directory "+d) {
		t.Errorf("same process: %v", err)
	}
	child := func() string {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLockedDirectory$", "-test.v")
		cmd.Env = append(os.Environ(), lockChildEnv+"="+d)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if out := child(); !strings.Contains(out, "another rlserver uses the data directory "+d) {
		t.Errorf("second process: %s", out)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if out := child(); !strings.Contains(out, "child: <nil>") {
		t.Errorf("second process, when the first has closed: %s", out)
	}
}

// TestPrivate: nobody but the owner can read what is on disk.
func TestPrivate(t *testing.T) {
	d := filepath.Join(t.TempDir(), "a", "data")
	w := open(t, Options{Dir: d})
	w.debit("a")
	w.save()
	seen := 0
	err := filepath.Walk(d, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		seen++
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || seen < 8 {
		t.Errorf("%d files, %v", seen, err)
	}
	w.close()
	w = open(t, Options{Dir: d})
	wantState(t, w.state(), state{"a": 1})
	w.close()
}
