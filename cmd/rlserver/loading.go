package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/rlserver/rlserver/persist"
	"github.com/rlserver/rlserver/resp"
)

const (
	// progressEvery is how often a load is logged.
	progressEvery = 2 * time.Second
	// abortWithin is how long a load may take to end when it is told to. Then the
	// process ends without it, which loses nothing either: a disk hangs.
	abortWithin = 2 * time.Second
)

// startUnlessStopped brings a node up, or ends the start at the first signal or
// SHUTDOWN: the error is persist.ErrAborted then, and what is on disk is as good
// as it was.
func startUnlessStopped(config *Config, clock resp.Clock, log *slog.Logger, signals chan os.Signal, disk ...func(*persist.Options)) (*node, error) {
	type outcome struct {
		node *node
		err  error
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := make(chan outcome, 1)
	go func() {
		n, err := startNodeUntil(ctx, config, clock, log, disk...)
		started <- outcome{n, err}
	}()
	select {
	case o := <-started:
		return o.node, o.err
	case sig := <-signals:
		log.Info("stopping before the data is loaded", "signal", sig.String())
		cancel()
		select {
		case o := <-started:
			if o.err == nil {
				signals <- sig // too late to end the start: it is a stop like any other
			}
			return o.node, o.err
		case <-time.After(abortWithin):
			log.Warn("stopped while the disk did not answer; nothing was being written")
			return nil, persist.ErrAborted
		}
	}
}

// load brings the data in.
func (n *node) load(skew int64) (err error) {
	now := n.began
	n.store.Limits().Rebase(now + skew)
	tick, done := time.NewTicker(progressEvery), make(chan struct{})
	defer tick.Stop()
	defer close(done)
	go logProgress(n.db.Loading, n.log, tick.C, done)
	n.loaded, err = n.db.Load(n.store, now, now+skew)
	if n.loaded.Warning != "" {
		n.log.Warn(n.loaded.Warning)
	}
	if err == nil {
		n.restart.log(n.log, n.loaded)
	}
	if err == nil && n.loaded.Took >= progressEvery {
		n.log.Info("loaded", "keys", n.loaded.Keys, "dropped", n.loaded.Dropped, "seconds", n.loaded.Took.Seconds())
	}
	return err
}

// logProgress logs at each tick how far the load is, until done.
func logProgress(loading func() (persist.LoadStats, bool), log *slog.Logger, tick <-chan time.Time, done <-chan struct{}) {
	for {
		select {
		case <-tick:
			if st, on := loading(); on {
				log.Info("loading", "percent", st.Percent, "keys", st.LoadedKeys, "of", st.Keys, "seconds_left", st.Left)
			}
		case <-done:
			return
		}
	}
}

// figures are those of INFO and of /metrics beside those of the wire.
func (n *node) figures() []any {
	return []any{n.memory.stats(), n.store.Stats(), n.db.Stats(), n.db.BackupStats(), n.restart.stats(n.store), n.repl.stats()}
}

// extra are the figures of INFO beside those of the wire; those of a load are
// there while it goes on.
func (n *node) extra() []any {
	all := n.figures()
	if st, on := n.db.Loading(); on {
		all = append(all, st)
	}
	return all
}
