//go:build !linux

package main

// machineSlept is nil: on this system nobody is asked, and time in which the machine is suspended does not count.
var machineSlept sampler
