package persist

import (
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A shortFS cuts one write short: half of the bytes are taken. It says so with err, or, against the rules of io.Writer, not at all.
type shortFS struct {
	vfs.FS
	at  int64
	err error

	armed *atomic.Bool
	n     *atomic.Int64
}

func (s shortFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, c)
	return shortFile{f, s}, err
}

func (s shortFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.ReuseForWrite(oldname, newname, c)
	return shortFile{f, s}, err
}

func (s shortFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := s.FS.OpenReadWrite(name, c, opts...)
	return shortFile{f, s}, err
}

type shortFile struct {
	vfs.File
	fs shortFS
}

func (f shortFile) Write(p []byte) (int, error) {
	if !f.fs.armed.Load() || f.fs.n.Add(1) != f.fs.at {
		return f.File.Write(p)
	}
	n, err := f.File.Write(p[:len(p)/2])
	if err == nil {
		err = f.fs.err
	}
	return n, err
}

// TestShortWrites: half a write, whichever, is as a failed one: nothing that was waited for is missing, and it ends by itself.
func TestShortWrites(t *testing.T) {
	for _, err := range []error{io.ErrShortWrite, errENOSPC, nil} {
		writes := 0
		for fired := true; fired; writes += stride() {
			synctest.Test(t, func(t *testing.T) {
				mem := vfs.NewCrashableMem()
				short := shortFS{FS: mem, at: int64(writes + 1), err: err, armed: new(atomic.Bool), n: new(atomic.Int64)}
				endures(t, fmt.Sprint("write ", writes, " cut short"), mem, short, func() { short.armed.Store(true) })
				fired = short.n.Load() >= short.at
			})
		}
		t.Logf("then %v: %d writes", err, writes)
	}
}
