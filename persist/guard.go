package persist

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A guard is the file system under one Pebble handle. At the first write that fails it freezes: nothing below it changes any more, as
// if the power had gone at that moment, and dead is closed. Pebble never sees the error, since on most of them it would exit the
// process or panic with its locks held; this and all later writes are answered with success, so that it can be closed.
//
// Reads are passed on as they are, errors included. So are Remove, RemoveAll and Link while the guard is not frozen: Pebble copes with
// their failure and no data depends on it.
type guard struct {
	vfs.FS
	dead chan struct{}
	// noPreallocation keeps Pebble from reserving space ahead for its log: 4 MB for each of several files.
	noPreallocation bool
	pace            pace

	mu      sync.Mutex
	err     error
	spared  string                 // a directory on which failures are not those of the handle, "" if there is none
	lent    map[*lentFile]struct{} // open files of it
	lentErr error                  // a failure of it that was not passed on
}

func newGuard(below vfs.FS) *guard { return &guard{FS: below, dead: make(chan struct{})} }

// fail freezes the guard, with the reason; the first one counts.
func (g *guard) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
		close(g.dead)
	}
}

// failed returns why the guard froze, nil if it did not. What was written before a failed that returned nil reached the disk as far as
// the disk said so.
func (g *guard) failed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

func (g *guard) frozen() bool { return g.failed() != nil }

// spare leaves a directory, and what is in it, to whoever writes there: failures of it are passed on and do not freeze the guard. There is
// one at a time, until own.
func (g *guard) spare(dir string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spared, g.lent, g.lentErr = dir, map[*lentFile]struct{}{}, nil
}

// own ends a spare and closes what is open in that directory: Pebble leaves files of a checkpoint open when it cannot write them. The error
// is a failure that was not passed on.
func (g *guard) own() error {
	g.mu.Lock()
	left, err := g.lent, g.lentErr
	g.spared, g.lent = "", map[*lentFile]struct{}{} // who was given up may still be there
	g.mu.Unlock()
	for f := range left {
		_ = f.File.Close()
	}
	return err
}

// A lentFile is an open file, or directory, of a spared directory.
type lentFile struct {
	vfs.File
	guard     *guard
	directory bool
}

func (g *guard) lend(f vfs.File, directory bool) vfs.File {
	l := &lentFile{f, g, directory}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lent[l] = struct{}{}
	return l
}

// Sync does not pass on the failure of a directory: Pebble panics when it is that of a marker.
func (f *lentFile) Sync() error {
	err := f.File.Sync()
	if err == nil || !f.directory {
		return err
	}
	f.guard.mu.Lock()
	defer f.guard.mu.Unlock()
	if f.guard.lentErr == nil {
		f.guard.lentErr = err
	}
	return nil
}

// Close closes the file unless own has.
func (f *lentFile) Close() error {
	f.guard.mu.Lock()
	_, open := f.guard.lent[f]
	delete(f.guard.lent, f)
	f.guard.mu.Unlock()
	if !open {
		return nil
	}
	return f.File.Close()
}

func (g *guard) spares(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.spared != "" && strings.HasPrefix(name, g.spared)
}

// A writeFault is why a guard froze when it was a write that failed: the data that is there is as it was.
type writeFault struct{ error }

func (f writeFault) Unwrap() error { return f.error }

// wrote takes note of the result of a write.
func (g *guard) wrote(op, name string, err error) {
	var path *fs.PathError
	switch {
	case err == nil:
	case errors.As(err, &path):
		g.fail(writeFault{path}) // says all that
	default:
		g.fail(writeFault{fmt.Errorf("%s %s: %w", op, name, err)})
	}
}

// file guards a file just opened for writing.
func (g *guard) file(op, name string, f vfs.File, err error) (vfs.File, error) {
	g.wrote(op, name, err)
	if err != nil {
		return nullFile{}, nil
	}
	return &guardFile{File: f, guard: g, name: name}, nil
}

// markerPrefix begins the names of Pebble's markers, empty files that name another file.
const markerPrefix = "marker."

// Create makes a file. Pebble syncs the directory once for a new file and the marker that names it; a disk that keeps new names in any
// order could keep the marker alone, and the store could not be opened. So the directory is synced before a marker, too.
func (g *guard) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if g.spares(name) {
		f, err := g.FS.Create(name, c)
		if err != nil {
			return nil, err
		}
		return g.lend(f, false), nil
	}
	if strings.HasPrefix(g.PathBase(name), markerPrefix) && !g.frozen() {
		g.wrote("sync", g.PathDir(name), syncDir(g.FS, g.PathDir(name)))
	}
	if g.frozen() {
		return nullFile{}, nil
	}
	f, err := g.FS.Create(name, c)
	if f, err = g.file("create", name, f, err); err == nil {
		f = g.pace.file(f, c)
	}
	return f, err
}

func (g *guard) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if g.frozen() {
		return nullFile{}, nil
	}
	f, err := g.FS.OpenReadWrite(name, c, opts...)
	return g.file("open", name, f, err)
}

func (g *guard) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if g.frozen() {
		return nullFile{}, nil
	}
	f, err := g.FS.ReuseForWrite(oldname, newname, c)
	return g.file("reuse", newname, f, err)
}

func (g *guard) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	switch {
	case err != nil:
		return nil, err
	case g.spares(name):
		return g.lend(f, true), nil
	}
	return &guardFile{File: f, guard: g, name: name}, nil
}

func (g *guard) Rename(oldname, newname string) error {
	if g.spares(newname) {
		return g.FS.Rename(oldname, newname)
	}
	if !g.frozen() {
		g.wrote("rename", newname, g.FS.Rename(oldname, newname))
	}
	return nil
}

func (g *guard) MkdirAll(dir string, perm os.FileMode) error {
	if g.spares(dir) {
		return g.FS.MkdirAll(dir, perm)
	}
	if !g.frozen() {
		g.wrote("mkdir", dir, g.FS.MkdirAll(dir, perm))
	}
	return nil
}

// Lock makes a file, which takes a disk that can be written. Pebble gives up if that fails.
func (g *guard) Lock(name string) (io.Closer, error) {
	c, err := g.FS.Lock(name)
	g.wrote("lock", name, err)
	return c, err
}

func (g *guard) Link(oldname, newname string) error {
	if g.frozen() {
		return nil
	}
	return g.FS.Link(oldname, newname)
}

func (g *guard) Remove(name string) error {
	if g.frozen() {
		return nil
	}
	return g.FS.Remove(name)
}

func (g *guard) RemoveAll(name string) error {
	if g.frozen() {
		return nil
	}
	return g.FS.RemoveAll(name)
}

// GetDiskUsage is not answered when the disk does not: Pebble only paces itself by it.
func (g *guard) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	u, err := g.FS.GetDiskUsage(path)
	if err != nil {
		return vfs.DiskUsage{}, vfs.ErrUnsupported
	}
	return u, nil
}

func (g *guard) Unwrap() vfs.FS { return g.FS }

// A guardFile is an open file below a guard.
type guardFile struct {
	vfs.File
	guard *guard
	name  string
}

func (f *guardFile) Write(p []byte) (int, error) {
	if !f.guard.frozen() {
		n, err := f.File.Write(p)
		f.guard.wrote("write", f.name, whole(n, p, err))
	}
	return len(p), nil
}

func (f *guardFile) WriteAt(p []byte, off int64) (int, error) {
	if !f.guard.frozen() {
		n, err := f.File.WriteAt(p, off)
		f.guard.wrote("write", f.name, whole(n, p, err))
	}
	return len(p), nil
}

func (f *guardFile) Sync() error {
	if !f.guard.frozen() {
		f.guard.wrote("sync", f.name, f.File.Sync())
	}
	return nil
}

func (f *guardFile) SyncData() error {
	if !f.guard.frozen() {
		f.guard.wrote("sync", f.name, f.File.SyncData())
	}
	return nil
}

func (f *guardFile) SyncTo(length int64) (bool, error) {
	if f.guard.frozen() {
		return true, nil
	}
	full, err := f.File.SyncTo(length)
	f.guard.wrote("sync", f.name, err)
	return full || err != nil, nil
}

// Preallocate is a hint; its failure is not one of the data's.
func (f *guardFile) Preallocate(offset, length int64) error {
	if !f.guard.noPreallocation && !f.guard.frozen() {
		_ = f.File.Preallocate(offset, length)
	}
	return nil
}

func (f *guardFile) Stat() (vfs.FileInfo, error) {
	fi, err := f.File.Stat()
	if err != nil && f.guard.frozen() {
		return nullInfo{}, nil
	}
	return fi, err
}

// Close closes the file below in any case, so that a frozen handle gives back what it holds.
func (f *guardFile) Close() error {
	if err := f.File.Close(); !f.guard.frozen() {
		f.guard.wrote("close", f.name, err)
	}
	return nil
}

// A nullFile stands for a file that a frozen guard did not make.
type nullFile struct{}

func (nullFile) Close() error                           { return nil }
func (nullFile) Read([]byte) (int, error)               { return 0, errFrozen }
func (nullFile) ReadAt([]byte, int64) (int, error)      { return 0, errFrozen }
func (nullFile) Write(p []byte) (int, error)            { return len(p), nil }
func (nullFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (nullFile) Preallocate(_, _ int64) error           { return nil }
func (nullFile) Stat() (vfs.FileInfo, error)            { return nullInfo{}, nil }
func (nullFile) Sync() error                            { return nil }
func (nullFile) SyncTo(int64) (bool, error)             { return true, nil }
func (nullFile) SyncData() error                        { return nil }
func (nullFile) Prefetch(int64, int64) error            { return nil }
func (nullFile) Fd() uintptr                            { return vfs.InvalidFd }

var errFrozen = errors.New("not read: an earlier write to this store failed")

// nullInfo describes a nullFile.
type nullInfo struct{}

func (nullInfo) Name() string           { return "" }
func (nullInfo) Size() int64            { return 0 }
func (nullInfo) Mode() os.FileMode      { return fileMode }
func (nullInfo) ModTime() time.Time     { return time.Time{} }
func (nullInfo) IsDir() bool            { return false }
func (nullInfo) Sys() any               { return nil }
func (nullInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
