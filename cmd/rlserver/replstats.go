package main

import "github.com/rlserver/rlserver/replicate"

// replicationStats are the figures of leading and following.
type replicationStats struct {
	Primary    bool   `metric:"primary" type:"gauge" help:"1 if this node is the primary, fenced or not; 0 on a replica."`
	Fenced     bool   `metric:"fenced" type:"gauge" help:"1 while this node is the primary and must not decide, since another one may."`
	Term       uint64 `metric:"term" type:"gauge" help:"Lead that this node knows of; each promotion begins a higher one."`
	Replicas   int64  `metric:"connected_replicas" type:"gauge" help:"Replicas that are connected to this primary."`
	InStep     int64  `metric:"online_replicas" type:"gauge" help:"Of them, those whose full sync is done."`
	LagMs      int64  `metric:"replication_lag_ms" type:"gauge" help:"Age of the oldest change that a connected replica has not acknowledged, ms; what failing over to it now could lose."`
	LinkUp     bool   `metric:"primary_link_up" type:"gauge" help:"1 on a replica that is in step with its primary."`
	HeardMs    int64  `metric:"primary_heard_ms" type:"gauge" help:"On a replica in step: time since its primary said something, ms."`
	Sentinels  int64  `metric:"sentinels" type:"gauge" help:"Sentinels known; a primary decides while it hears most of them."`
	AcksNeeded int64  `metric:"acks_needed" type:"gauge" help:"Replicas that must have a change before its reply leaves, see repl-ack."`
	AcksLate   uint64 `metric:"acks_timed_out_total" type:"counter" help:"Times that replies had waited for acks for repl-ack-timeout."`
	LogBytes   int64  `metric:"replication_backlog_bytes" type:"gauge" help:"Frames kept for replicas whose link breaks."`
	Full       uint64 `metric:"full_syncs_total" type:"counter" help:"Times that a replica of this node was sent everything." info:"Stats:sync_full"`
	Partial    uint64 `metric:"partial_syncs_total" type:"counter" help:"Times that one went on where its link had broken." info:"Stats:sync_partial_ok"`
}

func (r *replication) stats() replicationStats {
	r.mu.Lock()
	late := r.late
	r.mu.Unlock()
	run := r.run.Load()
	if run == nil {
		return replicationStats{AcksLate: late}
	}
	st := run.Status()
	s := replicationStats{
		Primary: st.Role == replicate.Leading, Fenced: st.Fenced, Term: st.Term, Sentinels: int64(st.Sentinels),
		AcksNeeded: int64(run.Doors().Acks), AcksLate: late, LogBytes: int64(st.LogBytes), LagMs: lag(&st).Milliseconds(), LinkUp: st.Link,
		Full: st.FullSyncs, Partial: st.PartialSyncs,
	}
	if st.Link {
		s.HeardMs = st.HeardAgo.Milliseconds()
	}
	for _, p := range st.Replicas {
		if p.Attached {
			s.Replicas++
		}
		if p.Online {
			s.InStep++
		}
	}
	return s
}
