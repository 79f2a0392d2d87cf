//go:build linux || darwin

package main

import "syscall"

// openFiles is the limit of this process.
func openFiles() fileLimit {
	var now syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now) != nil {
		return unlimitedFiles()
	}
	return fileLimit{now.Cur, raiseFiles}
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
