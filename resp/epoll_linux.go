package resp

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// eventsAtOnce is how many ready sockets one wait returns at most.
const eventsAtOnce = 128

// epoll is a level-triggered epoll set with a bell that other goroutines ring.
type epoll struct {
	fd     int
	bell   int // an eventfd
	events [eventsAtOnce]syscall.EpollEvent
}

func newEpoll() (*epoll, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	bell, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		syscall.Close(fd)
		return nil, os.NewSyscallError("eventfd2", errno)
	}
	e := &epoll{fd: fd, bell: int(bell)}
	if err := e.control(syscall.EPOLL_CTL_ADD, e.bell, syscall.EPOLLIN); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *epoll) close() {
	syscall.Close(e.bell)
	syscall.Close(e.fd)
}

// control adds, changes or removes a descriptor.
func (e *epoll) control(op, fd int, events uint32) error {
	ev := syscall.EpollEvent{Events: events, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", syscall.EpollCtl(e.fd, op, fd, &ev))
}

// wait returns the descriptors that are ready; it blocks for at most the given
// time, without end if that is negative.
func (e *epoll) wait(atMost time.Duration) []syscall.EpollEvent {
	ms := -1
	if atMost >= 0 {
		ms = int((atMost + time.Millisecond - 1) / time.Millisecond)
	}
	n, err := syscall.EpollWait(e.fd, e.events[:], ms)
	if err != nil && err != syscall.EINTR {
		panic(fmt.Sprintf("epoll_wait on a set of our own: %v", err))
	}
	return e.events[:max(n, 0)]
}

// ring wakes the goroutine in wait.
func (e *epoll) ring() {
	one := uint64(1)
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(e.bell), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
}

// heard silences the bell.
func (e *epoll) heard() {
	var count uint64
	syscall.RawSyscall(syscall.SYS_READ, uintptr(e.bell), uintptr(unsafe.Pointer(&count)), unsafe.Sizeof(count))
}

// readFd and writeFd are one read or write of a non-blocking socket. They cannot
// block, so the Go scheduler is not told: that would cost as much again. n is 0
// with an errno.
func readFd(fd int, b []byte) (n int, errno syscall.Errno) {
	r, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(r), 0
}

func writeFd(fd int, b []byte) (n int, errno syscall.Errno) {
	r, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(r), 0
}

// duplicate returns a descriptor of our own for the socket of nc. It is
// non-blocking and has all the options that were set; closing nc, so that Go's
// own poller lets go of the socket, leaves it open.
func duplicate(nc net.Conn) (fd int, err error) {
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return -1, err
	}
	var errno syscall.Errno
	err = raw.Control(func(from uintptr) {
		var r uintptr
		r, _, errno = syscall.RawSyscall(syscall.SYS_FCNTL, from, syscall.F_DUPFD_CLOEXEC, 0)
		fd = int(r)
	})
	if err == nil && errno != 0 {
		err = os.NewSyscallError("fcntl", errno)
	}
	if err != nil {
		return -1, err
	}
	return fd, nil
}
