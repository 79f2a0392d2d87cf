package main

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlserver/rlserver/persist"
	"github.com/rlserver/rlserver/shard"
)

// The sweep looks for entries past their deadline this often and for at most
// this long: a quarter of one core when everything is due at once, half of one
// while memory is short.
const (
	sweepEvery   = 100 * time.Millisecond
	sweepBudget  = 25 * time.Millisecond
	urgentBudget = 50 * time.Millisecond
)

// fullWarnEvery is how often at most the log tells that memory is at its limit.
const fullWarnEvery = time.Minute

// relieveEvery is how often at most the store on disk is asked, while memory is
// short, to let go of what it keeps for its next round.
const relieveEvery = time.Second

// memory holds a node to maxmemory. What counts is what grows with use: the
// keyspace with its share of the Go heap's own needs, what writing to disk
// takes, and clients' buffers. The program itself is not in it.
type memory struct {
	store   *shard.Store
	db      *persist.DB
	clients func() int64 // bytes of clients' buffers
	leave   func(int64)  // tells clients how much there is for their buffers; 0 = any
	log     *slog.Logger

	mu   sync.Mutex   // makes one adjust follow another
	max  atomic.Int64 // maxmemory, bytes; 0 = none
	peak atomic.Int64 // the most that was used, of what adjust saw

	relieved time.Time // when the store on disk was last asked to let go
	warned   time.Time // when the log last told of the limit
}

// set puts a maxmemory in force, at once.
func (m *memory) set(max int64) {
	m.max.Store(max)
	m.adjust()
	if used := m.used(); max > 0 && used > max {
		m.log.Warn("maxmemory is less than what is used: every key stays, new ones are refused", "maxmemory", max, "used_memory", used)
	}
}

// others is what counts beside the keyspace.
func (m *memory) others() int64 { return m.db.Memory() + m.clients() }

func (m *memory) used() int64 { return m.dataset() + m.others() }

// dataset is what the keyspace takes.
func (m *memory) dataset() int64 {
	n := m.store.Used()
	return n + heapNeeds(n)
}

// smallHeap is how many times as large as what the Go heap needs beside it a
// small keyspace is.
const smallHeap = 8

// heapNeeds is what the Go heap takes beside a keyspace of n bytes: the garbage
// that heap.go allows and the runtime's book-keeping. Of a small keyspace it is
// an eighth, as there is less garbage of fewer keys.
func heapNeeds(n int64) int64 {
	return max(min(n/smallHeap, slackLeast), int64(slackShare*float64(n)))
}

// keyspaceIn is the largest keyspace that takes n bytes with what the heap needs.
func keyspaceIn(n int64) int64 {
	small, middle := n-n/(smallHeap+1), n-slackLeast
	switch {
	case small/smallHeap <= slackLeast:
		return small
	case slackShare*float64(middle) <= slackLeast:
		return middle
	}
	return int64(float64(n) / (1 + slackShare))
}

// clientShare and clientLeast are what clients' buffers may take when the keyspace has taken all: a share of maxmemory, at
// least so many bytes. Keys are never taken away for them, nor are clients that hold little closed for keys.
const (
	clientShare = 1.0 / 16
	clientLeast = 8 << 20
)

// roomForClients is what the rest leaves clients' buffers of maxmemory.
func roomForClients(maxmemory, rest int64) int64 {
	return max(maxmemory-rest, int64(clientShare*float64(maxmemory)), clientLeast)
}

// adjust gives the keyspace what the others leave of maxmemory, and clients what it and the disk leave.
func (m *memory) adjust() {
	m.mu.Lock()
	defer m.mu.Unlock()
	ceiling, room := m.max.Load(), int64(0)
	if ceiling > 0 {
		room = roomForClients(ceiling, m.dataset()+m.db.Memory())
		ceiling = max(keyspaceIn(ceiling-m.others()), 1)
	}
	m.store.SetMaxBytes(ceiling)
	m.leave(room)
	m.peak.Store(max(m.peak.Load(), m.used()))
}

// turn is one step of the upkeep, at clock, Unix ms: what is past its deadline
// goes, more of it in a turn while memory is short, and then slots that only
// wait to be told to the disk are made free.
func (m *memory) turn(clock int64, now time.Time) {
	budget := sweepBudget
	if m.store.Pressed() {
		budget = urgentBudget
	}
	m.store.Sweep(clock, budget)
	m.adjust()
	if max := m.max.Load(); max > 0 && m.used() >= max && now.Sub(m.warned) >= fullWarnEvery {
		m.warned = now
		m.log.Warn("memory is at its limit: new keys are refused, those that are there go on", "maxmemory", max, "used_memory", m.used(), "keys", m.store.Len())
	}
	if m.store.Gone() > 0 && now.Sub(m.relieved) >= relieveEvery {
		m.relieved = now
		m.db.Relieve()
	}
}

// memoryStats are the figures of INFO memory and of /metrics.
type memoryStats struct {
	Used      int64  `metric:"memory_used_bytes" type:"gauge" help:"Memory that counts against maxmemory: the keyspace, what writing to disk takes, and clients' buffers, bytes." info:"Memory:used_memory"`
	UsedText  string `info:"Memory:used_memory_human"`
	RSS       int64  `info:"Memory:used_memory_rss"` // in /metrics it is process_resident_memory_bytes
	RSSText   string `info:"Memory:used_memory_rss_human"`
	Peak      int64  `metric:"memory_used_peak_bytes" type:"gauge" help:"The most of memory_used_bytes so far." info:"Memory:used_memory_peak"`
	PeakText  string `info:"Memory:used_memory_peak_human"`
	Dataset   int64  `info:"Memory:used_memory_dataset"`
	Max       int64  `metric:"maxmemory_bytes" type:"gauge" help:"The option maxmemory, bytes; 0: none." info:"Memory:maxmemory"`
	MaxText   string `info:"Memory:maxmemory_human"`
	Policy    string `info:"Memory:maxmemory_policy"`
	Allocator string `info:"Memory:mem_allocator"`
}

// stats returns the figures.
func (m *memory) stats() memoryStats {
	st := memoryStats{
		Used: m.used(), RSS: residentBytes(), Dataset: m.dataset(), Max: m.max.Load(),
		Policy: "noeviction", Allocator: "go",
	}
	st.Peak = max(m.peak.Load(), st.Used)
	st.UsedText, st.RSSText, st.PeakText, st.MaxText = human(st.Used), human(st.RSS), human(st.Peak), human(st.Max)
	return st
}

// human is a size as Redis writes it: 1.50M.
func human(n int64) string {
	const units = "BKMGT"
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%dB", n)
	}
	return fmt.Sprintf("%.2f%c", f, units[i])
}

// residentBytes is the process's resident set; 0 where /proc is absent.
func residentBytes() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	words := strings.Fields(string(b))
	if len(words) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(words[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
