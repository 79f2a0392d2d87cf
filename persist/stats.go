package persist

import "time"

// stalled is how long a piece of the flusher's work may take before the last save counts as failed: the disk hangs.
const stalled = 5 * time.Second

// Stats is a snapshot of the figures of durability.
type Stats struct {
	LagMs        int64   `metric:"durable_lag_ms" type:"gauge" help:"Age of the oldest change that is not on disk, ms, a second too much at the most; what a crash now could lose." info:"Persistence:rl_durable_lag_ms"`
	Pending      int64   `metric:"durable_pending" type:"gauge" help:"Entries changed and not yet in a round, about." info:"Persistence:rdb_changes_since_last_save"`
	Writing      bool    `metric:"round_in_progress" type:"gauge" help:"1 while a round is being written." info:"Persistence:rdb_bgsave_in_progress"`
	LastSave     int64   `metric:"last_save_timestamp_seconds" type:"gauge" help:"Unix time of the last round on disk." info:"Persistence:rdb_last_save_time"`
	LastSaveOK   bool    `metric:"persistence_ok" type:"gauge" help:"1 if the last round reached the disk and none hangs." info:"Persistence:rl_last_save_status"`
	LastError    string  `info:"Persistence:rl_last_save_error"`
	Durability   string  `info:"Persistence:rl_durability"`
	CleanStart   bool    `metric:"clean_start" type:"gauge" help:"1 if the stop before this start wrote everything." info:"Persistence:rl_clean_start"`
	Rounds       uint64  `metric:"rounds_total" type:"counter" help:"Rounds written to disk." info:"Persistence:rl_rounds"`
	Failures     uint64  `metric:"round_failures_total" type:"counter" help:"Failed attempts to write to disk." info:"Persistence:rl_round_failures"`
	Entries      uint64  `metric:"round_entries_total" type:"counter" help:"Changed entries written in rounds."`
	Bytes        uint64  `metric:"round_bytes_total" type:"counter" help:"Bytes of the rounds written, before Pebble."`
	LastEntries  int64   `metric:"last_round_entries" type:"gauge" help:"Changed entries in the last round." info:"Persistence:rl_last_round_entries"`
	LastDuration float64 `metric:"last_round_seconds" type:"gauge" help:"From the cut of the last round until it was on disk, s." info:"Persistence:rl_last_round_seconds"`
	MaxDuration  float64 `metric:"max_round_seconds" type:"gauge" help:"The longest time from a cut until the round was on disk, s."`
	Merges       uint64  `metric:"journal_merges_total" type:"counter" help:"Times the journal was merged into the table."`
	Generation   uint64  `metric:"store_generation" type:"gauge" help:"Number of the generation in use." info:"Persistence:rl_generation"`
	Rewrites     uint64  `metric:"store_rewrites_total" type:"counter" help:"Times everything was written anew, because writing had failed or rounds had been dropped to save memory."`
	DiskBytes    uint64  `metric:"disk_bytes" type:"gauge" help:"Size of the store on disk, bytes; asked every 10 s." info:"Persistence:rl_disk_bytes"`
	LogBytes     uint64  `metric:"disk_log_bytes" type:"gauge" help:"Size of Pebble's write-ahead log, bytes; asked every 10 s."`
	Memory       int64   `metric:"store_memory_bytes" type:"gauge" help:"Memory that writing to disk has lately taken at the most: tables not yet written, a cache, a merge, bytes." info:"Memory:rl_store_memory"`
	DiskSlow     uint64  `metric:"disk_slow_total" type:"counter" help:"Disk operations that took longer than 5 s, counted again as they go on." info:"Persistence:rl_disk_slow"`
	Background   uint64  `metric:"disk_background_errors_total" type:"counter" help:"Errors in Pebble's background work."`
	Corruptions  uint64  `metric:"disk_corruptions_total" type:"counter" help:"Damaged files that Pebble met."`
	Loading      bool    `metric:"loading" type:"gauge" help:"1 while the data is loaded at start-up."`
	LoadSeconds  float64 `metric:"load_seconds" type:"gauge" help:"How long the load at start-up took, s." info:"Persistence:rl_load_seconds"`
	LoadKeys     int64   `metric:"load_keys" type:"gauge" help:"Entries loaded at start-up, so far while it goes on." info:"Persistence:rl_load_keys"`
	LoadDropped  int64   `metric:"load_dropped" type:"gauge" help:"Idle entries dropped at start-up."`
}

// Stats returns the figures. It never waits for the disk. It may be called as soon as Open has returned.
func (d *DB) Stats() Stats {
	s := &d.status
	s.mu.Lock()
	feed := d.feed
	s.mu.Unlock()
	pending := 0
	if feed != nil {
		pending = feed.Pending()
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	pending += s.owed
	f := &s.figures
	st := Stats{
		Pending: int64(pending), Writing: !s.writing.IsZero(), LastSave: f.lastSave.Unix(),
		Durability: d.o.Mode.String(), CleanStart: !f.unclean,
		Rounds: f.rounds, Failures: f.failures, Entries: f.changes, Bytes: f.bytes,
		LastEntries: int64(f.lastEntries), LastDuration: f.lastTook.Seconds(), MaxDuration: f.maxTook.Seconds(),
		Merges: f.merges, Generation: f.generation, Rewrites: f.generations, DiskBytes: f.diskBytes, LogBytes: f.walBytes, Memory: f.memory,
		DiskSlow: d.site.slow.Load(), Background: d.site.backgroundErrors.Load(), Corruptions: d.site.corruptions.Load(),
		LoadSeconds: f.loadTook.Seconds(), LoadKeys: int64(f.loadKeys), LoadDropped: int64(f.loadDropped),
	}
	if l, on := d.loading.stats(now); on {
		st.Loading, st.LoadKeys = true, l.LoadedKeys
	}
	st.LastSaveOK = s.err == nil && !s.stalled(now)
	if s.err != nil {
		st.LastError = s.err.Error()
	} else if !st.LastSaveOK {
		st.LastError = ErrHangs.Error()
	}
	if pending > 0 || s.err != nil || !s.writing.IsZero() {
		st.LagMs = now.Sub(s.durableAt).Milliseconds()
	}
	return st
}
