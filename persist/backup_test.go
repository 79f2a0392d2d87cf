package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// backup makes a backup and waits for its end.
func (w *world) backup(dir string) BackupStats {
	w.t.Helper()
	if err := w.db.Backup(dir); err != nil {
		w.t.Fatal(err)
	}
	for {
		if st := w.db.BackupStats(); !st.Running {
			return st
		}
		time.Sleep(time.Millisecond)
	}
}

// stateIn starts on a directory and closes it again.
func stateIn(t testing.TB, fs vfs.FS, dir string) (state, LoadInfo) {
	t.Helper()
	w, err := opened(t, Options{FS: fs, Dir: dir, Mode: Shutdown})
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	return w.state(), w.info
}

// farAway makes a directory another disk: nothing can be moved there.
type farAway struct {
	vfs.FS
	dir string
}

func (f farAway) Rename(from, to string) error {
	if strings.HasPrefix(to, f.dir) && !strings.HasPrefix(from, f.dir) {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.EXDEV}
	}
	return f.FS.Rename(from, to)
}

// TestBackup: a backup holds what was changed before it was asked for and nothing that came later, passes the check, and a server starts
// on it, as after a crash at that moment.
func TestBackup(t *testing.T) {
	for _, mode := range []Mode{Interval, Reserve, Shutdown} {
		for _, far := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewCrashableMem()
				var fsys vfs.FS = mem
				if far {
					fsys = farAway{mem, "/b/"}
				}
				w := open(t, Options{FS: fsys, Mode: mode, tune: tuning{chunkRecords: 10, mergeEntries: 60}})
				wants := map[string]state{}
				for i := range 6 {
					for j := range 50 {
						w.debit(fmt.Sprint("k", i*7+j), "hot")
					}
					w.limit(fmt.Sprint("l", i), int64(5+i))
					name := fmt.Sprint("/b/", i)
					wants[name] = w.state()
					if st := w.backup(name); !st.OK || st.Last != name || st.At != time.Now().Unix() || st.Bytes == 0 || st.Made != uint64(i+1) {
						t.Fatalf("%+v", st)
					}
					time.Sleep(20 * time.Second) // merges go on
				}
				again := w.backup("/b/3")
				if again.OK || !strings.Contains(again.Error, "/b/3: file already exists") || again.Failures != 1 || again.Bytes == 0 {
					t.Errorf("the same name again: %+v", again)
				}
				names, _ := mem.List(dir)
				if slices.Contains(names, checkpointDir) {
					t.Errorf("left: %q", names)
				}
				w.close()
				if err := w.db.Backup("/b/late"); !errors.Is(err, ErrClosed) {
					t.Errorf("after Close: %v", err)
				}
				for name, want := range wants {
					r, err := Check(name, mem)
					if err != nil || r.Damage.Total > 0 || r.Entries+r.Limits != len(want) || r.Clean {
						t.Errorf("%s: %+v, %v", name, r, err)
					}
					got, info := stateIn(t, mem, name)
					if wantState(t, got, want); info.Clean || info.Warning != "" {
						t.Errorf("%s: %+v", name, info)
					}
				}
			})
		}
	}
}

// TestBackupUnderLoad: 50 writers debit several hot keys together all the time; each backup has the state of one moment, in which what each
// of them did is there as a whole or not at all.
func TestBackupUnderLoad(t *testing.T) {
	base := t.TempDir()
	w := open(t, Options{Dir: filepath.Join(base, "data"), Interval: 20 * time.Millisecond, tune: tuning{mergeEntries: 40}})
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 0))
			for !stop.Load() {
				a := rng.IntN(20)
				w.debit(fmt.Sprint("writer", i), fmt.Sprint("hot", a), fmt.Sprint("hot", (a+1+rng.IntN(19))%20), "all")
			}
		})
	}
	var last int64
	for i := range 6 {
		before := w.state()["all"]
		name := filepath.Join(base, "backups", fmt.Sprint(i))
		if st := w.backup(name); !st.OK {
			t.Fatal(st.Error)
		}
		if r, err := Check(name, nil); err != nil || r.Damage.Total > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		st, _ := stateIn(t, nil, name)
		var writers, hot int64
		for k, n := range st {
			if strings.HasPrefix(k, "writer") {
				writers += n
			} else if strings.HasPrefix(k, "hot") {
				hot += n
			}
		}
		if writers != st["all"] || hot != 2*st["all"] || st["all"] < before || st["all"] <= last && i > 0 {
			t.Errorf("backup %d: %d by the writers, %d on hot keys, %d in all; there were %d before it", i, writers, hot, st["all"], before)
		}
		last = st["all"]
	}
	stop.Store(true)
	wg.Wait()
	w.close()
}

// TestBackupFails: whichever write for the backup fails, it fails cleanly: nothing is left of it, what was there stays, and saving goes on in
// TestBackupClosesFiles: what Pebble leaves open of a checkpoint that fails is closed. Each open file has a goroutine that watches the disk,
// and a bubble does not end while there is one.
func TestBackupClosesFiles(t *testing.T) {
	backupFails(t, func(op errorfs.Op) bool {
		return op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, "OPTIONS")
	})
}

// TestBackupSurvivesDirectorySync: Pebble panics when the directory of a marker cannot be synced; it does not hear of that, and the backup
// fails.
func TestBackupSurvivesDirectorySync(t *testing.T) {
	backupFails(t, func(op errorfs.Op) bool { return isSync(op) && strings.HasSuffix(op.Path, generationName(1)) })
}

// backupFails makes a backup of which the operations named fail.
func backupFails(t *testing.T, bad func(errorfs.Op) bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := open(t, Options{FS: errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if strings.Contains(op.Path, checkpointDir) && bad(op) {
				return &fs.PathError{Op: "write", Path: op.Path, Err: errENOSPC}
			}
			return nil
		}))})
		w.debit("a")
		if st := w.backup("/b/one"); !strings.Contains(st.Error, "no space left") {
			t.Errorf("%+v", st)
		}
		if st := w.db.Stats(); !st.LastSaveOK || st.Generation != 1 {
			t.Errorf("saving: %+v", st)
		}
		w.close()
	})
}

// the same generation.
func TestBackupFails(t *testing.T) {
	for _, far := range []bool{false, true} {
		failed := 0
		for n := int64(1); ; n += int64(stride()) {
			over := false
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewCrashableMem()
				var count atomic.Int64
				bad := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
					backup := strings.Contains(op.Path, checkpointDir) || strings.HasPrefix(op.Path, "/b")
					if !backup || op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpRemoveAll || op.Kind == errorfs.OpRemove {
						return nil
					}
					if count.Add(1) == n {
						return &fs.PathError{Op: "write", Path: op.Path, Err: errENOSPC}
					}
					return nil
				}))
				var fsys vfs.FS = bad
				if far {
					fsys = farAway{bad, "/b/"}
				}
				w := open(t, Options{FS: fsys})
				w.debit("a", "b")
				w.save()
				st := w.backup("/b/one")
				over = count.Load() < n
				names, _ := mem.List("/b")
				ours, _ := mem.List(dir)
				switch {
				case over:
					w.close()
					return
				case st.OK: // a hard link that failed was a copy instead
				case !strings.Contains(st.Error, "no space left") || st.Failures != 1 || len(names) > 0 || slices.Contains(ours, checkpointDir):
					t.Errorf("write %d: %+v; left are %q and %q", n, st, names, ours)
				default:
					failed++
				}
				w.debit("a")
				w.save()
				if s := w.db.Stats(); !s.LastSaveOK || s.Failures > 0 || s.Generation != 1 {
					t.Errorf("write %d: saving: %+v", n, s)
				}
				if st := w.backup("/b/two"); !st.OK {
					t.Errorf("write %d: the next one: %+v", n, st)
				}
				if got, _ := stateIn(t, mem, "/b/two"); got["a"] != 2 {
					t.Errorf("write %d: the next one has %v", n, got)
				}
				w.close()
			})
			if over {
				break
			}
		}
		if failed < 30/stride() {
			t.Errorf("%d failures", failed)
		}
	}
}

// TestBackupCutOff: whenever the process is killed or the power goes, the backup is whole or refused, and the data is as it was.
func TestBackupCutOff(t *testing.T) {
	for _, far := range []bool{false, true} {
		c := newCrasher(0, thin)
		var fsys vfs.FS = c.fs(nil)
		if far {
			fsys = farAway{fsys, "/b/"}
		}
		w := open(t, Options{FS: fsys, Mode: Shutdown})
		w.debit("a", "b")
		w.limit("l", 5)
		w.save()
		want := w.state()
		from := len(c.clones)
		if st := w.backup("/b/one"); !st.OK {
			t.Fatal(st.Error)
		}
		to := len(c.clones)
		w.close()
		found := map[string]int{}
		for _, cl := range append(c.clones[from:to], clone{fs: c.mem}) {
			for _, name := range []string{"/b/one", "/b/one.tmp", dir + "/" + checkpointDir} {
				found[filepath.Base(name)+" "+unfinished(t, cl.fs, name, want)]++
			}
			got, _, err := stateOn(t, cl.fs)
			if err != nil {
				t.Fatalf("at %s: %v", cl.op, err)
			}
			wantState(t, got, want)
			if names, _ := cl.fs.List(dir); slices.Contains(names, checkpointDir) {
				t.Errorf("at %s: a start has left %q", cl.op, names)
			}
		}
		t.Log(found)
		if found["one refused"] > 0 || found["one complete"] == 0 || found[checkpointDir+" refused"] == 0 {
			t.Error("it was not cut off where it should be")
		}
	}
}

// TestBackupWhileWritingFails: there is none, and the reason is said at once.
func TestBackupWhileWritingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		bad := whenOn(isSync, errEIO)
		w := open(t, Options{FS: errorfs.Wrap(mem, bad)})
		w.debit("a")
		w.save()
		bad.On()
		w.debit("a")
		if st := w.backup("/b/one"); st.OK || !strings.Contains(st.Error, "input/output error") {
			t.Errorf("the round before it: %+v", st)
		}
		time.Sleep(time.Minute)
		if st := w.backup("/b/one"); st.OK || !strings.Contains(st.Error, "writing to the data directory fails") {
			t.Errorf("%+v", st)
		}
		bad.Off()
		time.Sleep(retryMost + time.Second)
		if st := w.backup("/b/one"); !st.OK {
			t.Errorf("%+v", st)
		}
		got, _ := stateIn(t, mem, "/b/one")
		wantState(t, got, w.state())
		w.close()
	})
}

// slowFar is a disk that is far away and slow.
type slowFar struct {
	farAway
	began chan struct{}
	once  *sync.Once
}

func (f slowFar) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(name, f.dir) && strings.HasSuffix(name, ".sst") {
		f.once.Do(func() { close(f.began) })
		time.Sleep(time.Second)
	}
	return f.FS.Create(name, c)
}

// TestBackupOne: there is one at a time, rounds go on meanwhile, and a stop ends it and leaves nothing.
func TestBackupOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		slow := slowFar{farAway{mem, "/b/"}, make(chan struct{}), new(sync.Once)}
		w := open(t, Options{FS: slow})
		w.debit("a")
		w.save()
		time.Sleep(2 * mergeEvery) // there is a table
		if err := w.db.Backup("/b/one"); err != nil {
			t.Fatal(err)
		}
		<-slow.began
		if err := w.db.Backup("/b/two"); !errors.Is(err, ErrBackupRunning) {
			t.Errorf("a second one: %v", err)
		}
		before := time.Now()
		w.debit("a")
		w.save()
		if took := time.Since(before); took > 0 {
			t.Errorf("a save took %v", took)
		}
		w.close()
		if st := w.db.BackupStats(); st.Running || st.OK || st.Error != ErrClosed.Error() {
			t.Errorf("%+v", st)
		}
		if names, _ := mem.List("/b"); len(names) > 0 {
			t.Errorf("left: %q", names)
		}
	})
}
