//go:build race

package resp

// raceEnabled says that the race detector runs: pools then forget at random.
const raceEnabled = true
