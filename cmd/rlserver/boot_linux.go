package main

import "time"

// sinceBoot is the time since the machine was started, what it was suspended for
// included.
func sinceBoot() time.Duration {
	t, ok := readClock(clockBoottime)
	if !ok {
		panic("no CLOCK_BOOTTIME")
	}
	return t
}
