package main

import (
	"syscall"
	"time"
	"unsafe"
)

// Clock ids of clock_gettime(2), which package syscall does not name.
const (
	clockMonotonic = 1 // stands still while the machine is suspended
	clockBoottime  = 7 // does not
)

const (
	sampleTries = 4
	// sampleWidth is the longest that the readings of one sample may take; if they take longer, this thread was
	// interrupted between them and the difference means nothing.
	sampleWidth = 100 * time.Microsecond
)

// machineSlept is the sampler of this system.
var machineSlept sampler = boottimeLead

// boottimeLead tells how far CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC, which is the time the machine has slept since
// it booted.
func boottimeLead() (time.Duration, bool) {
	for range sampleTries {
		before, ok1 := readClock(clockMonotonic)
		boot, ok2 := readClock(clockBoottime)
		after, ok3 := readClock(clockMonotonic)
		if !ok1 || !ok2 || !ok3 {
			return 0, false
		}
		if after-before <= sampleWidth {
			return boot - after, true
		}
	}
	return 0, false
}

func readClock(id uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
