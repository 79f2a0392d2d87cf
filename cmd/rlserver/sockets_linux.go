package main

import (
	"os"
	"syscall"
)

const (
	// unsentMost is how many bytes of output the kernel holds for a client that it cannot send yet: two flushes, enough
	// for a reader that keeps up. By the kernel's own bounds it is 4 MB: 200 clients that never read took 900 MB of
	// kernel memory here, which a container counts, and the deadline for taking output began only when that was full.
	unsentMost = 128 << 10

	tcpNotSentLowat = 25 // TCP_NOTSENT_LOWAT of linux/tcp.h; package syscall lacks it
)

// boundSocket sets up a listening socket of TCP; connections inherit what it sets.
func boundSocket(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSentLowat, unsentMost))
	})
	if err == nil {
		err = failed
	}
	return err
}
