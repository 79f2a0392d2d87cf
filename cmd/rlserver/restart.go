package main

import (
	"errors"
	"log/slog"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/persist"
	"github.com/rlserver/rlserver/shard"
)

// Restarts. A stop that was not clean may have lost the last changes, unless
// replies waited for them; unclean-restart says what becomes of the keys then.

// How a start follows the stop before it, as the log and INFO say it.
const (
	restartClean  = "clean"  // the stop wrote everything, or there was none
	restartExact  = "exact"  // it did not, but nothing that was answered is lost
	restartRefund = "refund" // what was saved last counts: what was admitted after it may be admitted again
	restartDrain  = "drain"  // every key counts as emptied
	restartBackup = "backup" // what came after the backup was made is forgotten
	restartRepair = "repair" // what could not be repaired is lost
)

// errTrustedDrain is a refusal of two options together.
var errTrustedDrain = errors.New("unclean-restart drain has keys count as emptied at a time, and with caller-clock trusted the server knows no time " +
	"of its callers: choose caller-clock bounded or ignored, or unclean-restart refund")

// checkRestart refuses options that contradict each other.
func checkRestart(v Values) error {
	if v.UncleanRestart == restartDrain && v.CallerClock == engine.Trusted.String() {
		return errTrustedDrain
	}
	return nil
}

// chosenModes are how far callers' clocks are believed and what replies wait for.
func chosenModes(v Values) (clock engine.ClockMode, durability persist.Mode, err error) {
	if err = checkRestart(v); err == nil {
		clock, err = engine.ParseClockMode(v.CallerClock)
	}
	if err == nil {
		durability, err = persist.ParseMode(v.Durability)
	}
	return clock, durability, err
}

// A restart is how this process followed the one before.
type restart struct {
	How     string `info:"Persistence:rl_restart"`
	AgeMs   int64  `metric:"loaded_state_age_ms" type:"gauge" help:"How old the state on disk was when this process started, ms; 0 if there was none." info:"Persistence:rl_loaded_age_ms"`
	Drained int64  `metric:"drained_at_ms" type:"gauge" help:"Unix ms at which every key not changed since counts as emptied, 0 if none does." info:"Persistence:rl_drained_at"`
}

// restartOf tells from what was found on disk. now is the server's clock and
// latest the latest time that an entry may have, Unix ms.
func restartOf(found persist.LoadInfo, option string, now, latest int64) (r restart) {
	if found.SavedAt.Unix() > 0 {
		r.AgeMs = max(now-found.SavedAt.UnixMilli(), 0)
	}
	drains := option == restartDrain
	switch {
	case found.Clean && drains: // what a stop before lost is not known by now
		r.How, r.Drained = restartClean, min(found.Drained, latest+1)
	case found.Clean:
		r.How = restartClean
	case drains:
		r.How, r.Drained = restartDrain, latest+1
	case found.Origin == persist.OriginBackup:
		r.How = restartBackup
	case found.Origin == persist.OriginRepair:
		r.How = restartRepair
	case answeredIsSaved(found.Durability):
		r.How = restartExact
	default:
		r.How = restartRefund
	}
	return r
}

// follow notes what was found on disk, and has keys count as emptied before they
// are loaded.
func (n *node) follow(option string, skew int64) {
	n.began = n.clock.NowNs() / 1e6
	n.restart = restartOf(n.db.Found(), option, n.began, n.began+skew)
	if n.restart.Drained != 0 {
		n.store.Drain(n.restart.Drained)
	}
}

// stats are the figures as they are now: FLUSHALL has no key count as emptied.
func (r restart) stats(s *shard.Store) restart {
	r.Drained = s.DrainedAt()
	return r
}

// answeredIsSaved says whether replies waited under a durability.
func answeredIsSaved(durability string) bool {
	mode, err := persist.ParseMode(durability)
	return err == nil && mode.Promise() != shard.Nothing
}

// log says what an unclean stop means for the keys.
func (r *restart) log(log *slog.Logger, found persist.LoadInfo) {
	about := []any{"saved_at", savedAt(found.SavedAt), "age_ms", r.AgeMs, "durability", found.Durability}
	switch r.How {
	case restartExact:
		forgotten := "nothing that was answered is forgotten"
		if found.Durability == persist.Reserve.String() {
			forgotten = "nothing that was admitted is forgotten, refunds and resets of the last snapshot-interval may be"
		}
		log.Info("the last stop was not clean; "+forgotten, about...)
	case restartBackup:
		log.Warn("the directory is a backup; what was admitted after it was made is forgotten", about...)
	case restartRepair:
		log.Warn("the directory was repaired; what was lost, as repair said, is forgotten", about...)
	case restartRefund:
		log.Warn("the last stop was not clean; what was admitted after the last save is forgotten", about...)
	case restartDrain:
		log.Warn("the last stop was not clean; every key counts as emptied now", about...)
	}
}
