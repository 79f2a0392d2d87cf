package shard

// Stats is a snapshot of the keyspace's figures.
type Stats struct {
	Keys        int64  `metric:"keys" type:"gauge" help:"Keys held now." info:"Limiter:rl_keys"`
	Bytes       int64  `metric:"keyspace_bytes" type:"gauge" help:"Memory of keys, index and lists of changes, bytes." info:"Limiter:rl_keyspace_bytes"`
	UsedBytes   int64  `metric:"keyspace_used_bytes" type:"gauge" help:"Memory of the slots in use, bytes; the rest is free or index." info:"Limiter:rl_keyspace_used_bytes"`
	Shards      int64  `metric:"shards" type:"gauge" help:"Shards of the keyspace." info:"Limiter:rl_shards"`
	FullestKeys int64  `metric:"shard_keys_max" type:"gauge" help:"Keys in the fullest shard."`
	Changes     uint64 `metric:"changes_total" type:"counter" help:"Entries and named limits stored or deleted by commands." info:"Limiter:rl_changes"`
	Expired     uint64 `metric:"keys_expired_total" type:"counter" help:"Idle entries dropped after their deadline." info:"Limiter:rl_expired_keys"`
	Limits      int64  `metric:"named_limits" type:"gauge" help:"Named limits held now." info:"Limiter:rl_named_limits"`
	Unsaved     int64  `metric:"keys_unsaved" type:"gauge" help:"Entries changed since the last round was cut." info:"Limiter:rl_unsaved_keys"`
	Watched     int64  `metric:"keys_watched" type:"gauge" help:"Keys that clients WATCH." info:"Clients:total_watched_keys"`
}

// Stats returns the figures; each shard's are taken at one moment.
func (s *Store) Stats() Stats {
	st := Stats{Shards: int64(len(s.shards)), Changes: s.clears.Load()}
	var feed *Feed
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		keys := int64(sh.table.keys)
		st.Keys += keys
		st.FullestKeys = max(st.FullestKeys, keys)
		st.Bytes += int64(sh.bytes())
		st.UsedBytes += int64(sh.table.arena.live)
		st.Changes += sh.changes
		st.Expired += sh.expired
		st.Watched += int64(len(sh.watched))
		if f := s.feeds[0]; f != nil {
			st.Unsaved += int64(len(sh.feeds[0][f.round.Load()&1].refs))
		}
		feed = s.feeds[0]
		sh.mu.Unlock()
	}
	limits, changes, pending := s.limits.figures(feed)
	st.Limits = int64(limits)
	st.Changes += changes
	st.Unsaved += int64(pending)
	return st
}
