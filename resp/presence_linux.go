package resp

import (
	"net"
	"syscall"
	"unsafe"
)

// What ppoll tells without being asked, and the one that must be asked for.
const (
	pollErr   = 0x8
	pollHup   = 0x10
	pollRdHup = 0x2000
)

// presenceOf asks the kernel about a socket's other end. It reads nothing.
func presenceOf(fd int) presence {
	ask := struct {
		fd            int32
		events, found int16
	}{fd: int32(fd), events: pollRdHup}
	var atOnce syscall.Timespec
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&ask)), 1, uintptr(unsafe.Pointer(&atOnce)), 0, 0, 0)
	switch {
	case errno != 0:
		return present
	case ask.found&(pollErr|pollHup) != 0:
		return vanished
	case ask.found&pollRdHup != 0:
		return finished
	}
	return present
}

// presenceAt is presenceOf for a connection that has a goroutine.
func presenceAt(nc net.Conn) (p presence) {
	sc, ok := raw(nc).(syscall.Conn)
	if !ok {
		return present
	}
	socket, err := sc.SyscallConn()
	if err != nil {
		return present
	}
	socket.Control(func(fd uintptr) { p = presenceOf(int(fd)) })
	return p
}
