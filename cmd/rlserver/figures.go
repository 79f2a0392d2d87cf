package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/rlserver/rlserver/replicate"
)

// Figures are INFO replication: Redis's fields in Redis's order, which Sentinel
// depends on, then ours.
func (r *replication) Figures() [][2]string {
	run := r.run.Load()
	if run == nil {
		return [][2]string{{"role", "master"}, {"connected_slaves", "0"}}
	}
	at := sinceBoot()
	st := run.Status()
	var f figures
	if st.Role == replicate.Following {
		f.ofReplica(&st, r.n.config.Values().ReplicaPriority)
	} else {
		f.add("role", "master")
		run.Tell(replicate.Told{At: at})
	}
	f.replicas(&st)
	f.add("master_failover_state", "no-failover")
	f.add("master_replid", historyID(st.Replid))
	f.add("master_replid2", historyID(st.Replid2))
	f.add("master_repl_offset", st.Offset)
	if st.Replid2 == "" {
		f.add("second_repl_offset", -1)
	} else {
		f.add("second_repl_offset", st.End2+1)
	}
	active := 0
	if st.LogBytes > 0 {
		active = 1
	}
	f.add("repl_backlog_active", active)
	f.add("repl_backlog_size", replicate.RingBytes)
	f.add("repl_backlog_first_byte_offset", st.First)
	f.add("repl_backlog_histlen", st.LogBytes)
	f.ours(&st, run.Doors(), r.stats().AcksLate)
	return f
}

// figures are fields of INFO in order.
type figures [][2]string

func (f *figures) add(name string, value any) {
	*f = append(*f, [2]string{name, fmt.Sprint(value)})
}

// historyID is Redis's form of a name that there is none of.
func historyID(id string) string {
	if id == "" {
		return strings.Repeat("0", 40)
	}
	return id
}

func (f *figures) ofReplica(st *replicate.Status, priority int) {
	host, port, _ := net.SplitHostPort(st.Primary)
	link, sync := "down", 0
	if st.Link {
		link = "up"
	}
	if st.Syncing {
		sync = 1
	}
	f.add("role", "slave")
	f.add("master_host", host)
	f.add("master_port", port)
	f.add("master_link_status", link)
	ago := int64(-1)
	if st.Link {
		ago = int64(st.HeardAgo / time.Second)
	}
	f.add("master_last_io_seconds_ago", ago)
	f.add("master_sync_in_progress", sync)
	f.add("slave_read_repl_offset", st.Offset)
	f.add("slave_repl_offset", st.Offset)
	if !st.Link {
		f.add("master_link_down_since_seconds", int64(st.DownSince/time.Second))
	}
	f.add("slave_priority", st.Priority(priority))
	f.add("slave_read_only", 1)
	f.add("replica_announced", 1)
}

func (f *figures) replicas(st *replicate.Status) {
	var attached []replicate.ReplicaStatus
	for _, p := range st.Replicas {
		if p.Attached {
			attached = append(attached, p)
		}
	}
	f.add("connected_slaves", len(attached))
	for i, p := range attached {
		host, port, _ := net.SplitHostPort(p.Addr)
		state := "send_bulk"
		if p.Online {
			state = "online"
		}
		f.add("slave"+strconv.Itoa(i), fmt.Sprintf("ip=%s,port=%s,state=%s,offset=%d,lag=%d", host, port, state, p.Acked, int64(p.Answered/time.Second)))
	}
}

func (f *figures) ours(st *replicate.Status, d *replicate.Doors, late uint64) {
	f.add("rl_term", st.Term)
	f.add("rl_epoch", st.Epoch)
	fenced := 0
	if st.Fenced {
		fenced = 1
	}
	f.add("rl_fenced", fenced)
	f.add("rl_sentinels", st.Sentinels)
	f.add("rl_acks_needed", d.Acks)
	f.add("rl_acks_timed_out", late)
	f.add("rl_lag_ms", lag(st).Milliseconds())
}

// lag is the age of the oldest change that an attached replica has not acked.
func lag(st *replicate.Status) (behind time.Duration) {
	for _, p := range st.Replicas {
		if p.Attached {
			behind = max(behind, p.Behind)
		}
	}
	return behind
}
