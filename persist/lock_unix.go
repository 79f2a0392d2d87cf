//go:build unix

package persist

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// lockShared locks a file that is there for reading, and neither makes nor truncates it. Closing any descriptor of a file drops all locks
// that the process has on it, so one of this process's own is looked for first.
func (diskFS) lockShared(name string) (io.Closer, error) {
	if _, ours := locked.Load(name); ours {
		return nil, errors.New("held by this process")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	whole := syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &whole); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
