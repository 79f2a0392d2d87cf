//go:build linux || darwin

package main

import (
	"os"
	"syscall"
)

// openFiles is the limit of this process.
func openFiles() fileLimit {
	var now syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now) != nil {
		return unlimitedFiles()
	}
	return fileLimit{now.Cur, raiseFiles, roomForFiles}
}

// raiseFiles raises the limit, beyond what an administrator set if this process may, else up to it.
func raiseFiles(to uint64) uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return to
	}
	hard := l.Max
	l.Cur = to
	l.Max = max(hard, l.Cur)
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		l.Cur, l.Max = min(to, hard), hard
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l) // what it is then is read below
	}
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return to
	}
	return l.Cur
}

// roomForFiles has the kernel make its table of this process's open files large enough for n at once, which must be
// below the limit. By itself the table doubles while clients connect, and at each time accepting stands still until every
// thread of the machine has come by in the kernel: on 2 cores 8 ms, with ten busy threads beside up to 9 s. 10,000
// clients need 132 KB of it.
func roomForFiles(n int) {
	fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return // the table grows as it is needed
	}
	defer syscall.Close(fd)
	if last, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, uintptr(n-1)); errno == 0 {
		syscall.Close(int(last))
	}
}
