//go:build race

package shard

// raceEnabled says that the race detector slows this run down and takes memory.
const raceEnabled = true
