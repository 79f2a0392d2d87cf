package main

import (
	"fmt"
	"log/slog"
	"math"
)

// filesReserved are the open files kept for everything but clients: those of the data, of listeners, of metrics, and one
// client's second descriptor while it is handed over.
const filesReserved = 256 + 64

// fileLimit is the process's limit of open files; raise tries to make it at least so high and says what it is then, room
// prepares for so many, below the limit.
type fileLimit struct {
	now   uint64
	raise func(to uint64) uint64
	room  func(files int)
}

// unlimitedFiles is where the system tells of no limit.
func unlimitedFiles() fileLimit {
	return fileLimit{math.MaxUint64, func(uint64) uint64 { return math.MaxUint64 }, func(int) {}}
}

// clientsFor is how many of the clients wanted the limit of open files allows, once it was raised where that is possible.
func (l fileLimit) clientsFor(wanted int) int {
	need := uint64(wanted) + filesReserved
	if l.now < need {
		l.now = l.raise(need)
	}
	if l.now >= need {
		return wanted
	}
	return int(max(l.now, filesReserved)) - filesReserved
}

// fitFiles lowers maxclients to what the limit of open files allows, with a warning, as Redis does. A limit that leaves no
// client is an error.
func fitFiles(config *Config, l fileLimit, log *slog.Logger) error {
	wanted := config.Values().MaxClients
	most := l.clientsFor(wanted)
	if most < 1 {
		return fmt.Errorf("the limit of open files (ulimit -n) is %d, which is not enough to start: raise it to at least %d", l.now, filesReserved+1)
	}
	if most < wanted {
		config.adjust(func(v *Values) { v.MaxClients = most })
		log.Warn("maxclients is lowered to what the limit of open files allows", "wanted", wanted, "maxclients", most, "hint", fmt.Sprintf("raise the limit (ulimit -n) to %d", wanted+filesReserved))
	}
	go l.room(most + filesReserved) // it may take long, and nobody waits for it
	config.OnSet(func(v Values) error {
		if most := l.clientsFor(v.MaxClients); most < v.MaxClients {
			//lint:ignore ST1005 the text is Redis's own, capital letter and all
			return fmt.Errorf("The operating system is not able to handle the specified number of clients, try with %d", most)
		}
		return nil
	}, "maxclients")
	return nil
}
