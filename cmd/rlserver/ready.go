package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/rlserver/rlserver/persist"
	"github.com/rlserver/rlserver/shard"
)

// readiness says why the server cannot serve callers, or nil, and what is to be known of one that can.
func (n *node) readiness() (remark string, err error) {
	if n.ready.Load() {
		return n.whileSaving(n.db.Trouble())
	}
	if n.stopping.Load() {
		return "", errors.New("stopping")
	}
	if st, on := n.db.Loading(); on {
		return "", fmt.Errorf("loading the data: %s %% of about %d keys, %d s left", st.Percent, st.Keys, st.Left)
	}
	return "", errors.New("starting")
}

// whileSaving is what trouble with the disk means to an orchestrator, which takes callers away from a server that is not
// ready. Where decisions go on from memory that would be the outage that the server avoids, so it is ready and says what
// is wrong. Where replies wait for the disk, changes are refused: it is not.
func (n *node) whileSaving(trouble error) (remark string, err error) {
	if trouble == nil {
		return "", nil
	}
	mode, err := persist.ParseMode(n.config.Values().Durability)
	if err != nil {
		return "", err
	}
	if mode.Promise() != shard.Nothing {
		return "", fmt.Errorf("changes cannot be made durable and are refused: %w", trouble)
	}
	return fmt.Sprintf("saving fails: %v; decisions go on from memory", trouble), nil
}

// savedAt is a time of the last save as the log shows it.
func savedAt(t time.Time) string {
	if t.Unix() <= 0 {
		return "never"
	}
	return t.UTC().Format(time.RFC3339Nano)
}
