package persist

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A view is a file system for tools that look at a directory and leave it as it is: whatever would change something is an error. Locks
// are not taken: hold has taken the one that matters.
type view struct{ vfs.FS }

var errView = errors.New("a directory that is only looked at was to be changed")

func (view) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, errView }
func (view) Link(string, string) error                              { return errView }
func (view) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errView
}
func (view) Remove(string) error         { return errView }
func (view) RemoveAll(string) error      { return errView }
func (view) Rename(string, string) error { return errView }
func (view) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errView
}
func (view) MkdirAll(string, os.FileMode) error { return errView }
func (view) Lock(string) (io.Closer, error)     { return noLock{}, nil }
func (v view) Unwrap() vfs.FS                   { return v.FS }

type noLock struct{}

func (noLock) Close() error { return nil }

// A lockSharer can keep servers away from a lock file without changing it.
type lockSharer interface {
	lockShared(name string) (io.Closer, error)
}

// hold keeps servers away from a directory while it is looked at, and changes nothing there. Several tools may hold one directory. The
// error is ErrInUse while a server has it.
func hold(fsys vfs.FS, dir string) (io.Closer, error) {
	name := fsys.PathJoin(dir, lockFile)
	if _, err := fsys.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return noLock{}, nil // no server has ever been there, or it is a backup
	}
	lock := fsys.Lock
	if s, ok := fsys.(lockSharer); ok {
		lock = s.lockShared
	}
	l, err := lock(name)
	switch path := (*fs.PathError)(nil); {
	case errors.As(err, &path):
		return nil, forbidden(dir, err)
	case err != nil:
		return nil, notLocked(dir, err)
	}
	return l, nil
}
