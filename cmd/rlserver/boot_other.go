//go:build !linux

package main

import "time"

var processStarted = time.Now()

// sinceBoot is the time since about the start of the process; it may stand still
// while the machine is suspended.
func sinceBoot() time.Duration { return time.Hour + time.Since(processStarted) }
