package persist

import (
	"io"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	fileMode = 0o600
	dirMode  = 0o700

	writeCategory vfs.DiskWriteCategory = "rlserver"
)

// diskFS is the real disk, with files and directories that only their owner may read. Pebble makes its files 0666 less the umask.
type diskFS struct{ vfs.FS }

func (d diskFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	return private(name, f, err)
}

func (d diskFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.OpenReadWrite(name, c, opts...)
	return private(name, f, err)
}

func private(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, fileMode); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (d diskFS) MkdirAll(dir string, _ os.FileMode) error { return d.FS.MkdirAll(dir, dirMode) }

func (d diskFS) Lock(name string) (io.Closer, error) {
	l, err := d.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, fileMode); err != nil {
		l.Close()
		return nil, err
	}
	locked.Store(name, nil)
	return diskLock{l, name}, nil
}

// locked has the names of the lock files that this process holds.
var locked sync.Map

// A diskLock is a lock that is in locked.
type diskLock struct {
	io.Closer
	name string
}

func (l diskLock) Close() error {
	locked.Delete(l.name)
	return l.Closer.Close()
}

func (d diskFS) Unwrap() vfs.FS { return d.FS }

// syncDir makes the names in a directory durable.
func syncDir(fs vfs.FS, dir string) error {
	f, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// whole is the error of a write of p that took n bytes. A file system may take fewer and not say so, though it must not.
func whole(n int, p []byte, err error) error {
	if err == nil && n < len(p) {
		return io.ErrShortWrite
	}
	return err
}

// replaceFile makes name in dir hold data, durably; after a crash it holds the old data or the new.
func replaceFile(fs vfs.FS, dir, name string, data []byte) error {
	tmp := fs.PathJoin(dir, name+tmpSuffix)
	f, err := fs.Create(tmp, writeCategory)
	if err != nil {
		return err
	}
	n, err := f.Write(data)
	if err = whole(n, data, err); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = fs.Rename(tmp, fs.PathJoin(dir, name))
	}
	if err == nil {
		err = syncDir(fs, dir)
	}
	return err
}

// readFile returns a file's bytes, at most max of them.
func readFile(fs vfs.FS, name string, max int64) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, max))
}
