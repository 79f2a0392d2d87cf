package main

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// The Go heap. The collector by its own rule lets the heap grow to twice of
// what is live before it collects, which for a keyspace would be twice its
// memory. Ours is cheap to collect, since chunks and segments have no pointers,
// so it does so far more often; and after the heap has grown or shrunk, in a
// calm moment, what is free goes back to the system. Who sets GOGC or GOMEMLIMIT
// decides that himself.
//
// Measured on 2 busy cores: a million keys of 16 bytes, saved, take 77 bytes
// each (bench), and 66 to 71 when it has been calm for two seconds; by Go's own
// rule 106 and no less. The collections while they come take 36 ms of CPU
// instead of 14, of 3.5 s. With 300 MB live a collection takes 28 ms, and there
// are as many as 9 MB of garbage. An RL.ACQUIRE over 100,000 keys, 32 in a
// pipeline, costs 1.11 us of CPU instead of 1.07.

const (
	// slackShare and slackLeast are how much garbage there may be before a
	// collection: a share of what is live, at least so many bytes.
	slackShare = 1.0 / 32
	slackLeast = 8 << 20
	// gcPercentMost is Go's own rule, that a small heap follows, and
	// gcPercentStep the change that is worth the short stop it takes.
	gcPercentMost = 100
	gcPercentStep = 0.1

	// heapEvery is how often the heap is looked at. It is calm when at so many
	// looks one after the other no more than calmBytes were allocated since the
	// one before.
	heapEvery = 100 * time.Millisecond
	calmTurns = 3
	calmBytes = 256 << 10
	// spareShare and spareLeast are what the heap must take beyond the keyspace
	// and clients' buffers, and beyond what it took when memory was last given
	// back, to do so again: a share of it, at least so many bytes; spareEvery is
	// how often at most.
	spareShare = 1.0 / 32
	spareLeast = 2 << 20
	spareEvery = 2 * time.Second
	// besideMuch is how much the heap may take beyond the keyspace and clients'
	// buffers, after memory was given back, without being asked again: what held
	// it then may be gone lookAgain later.
	besideMuch = 32 << 20
	lookAgain  = time.Minute

	// limitShare and limitRuntime are the headroom of Go's memory limit over
	// maxmemory: for garbage, and for what the runtime itself takes, bytes.
	limitShare   = 1.0 / 16
	limitRuntime = 8 << 20
	// outsideShare and outsideLeast are what Go's memory limit leaves of the
	// limit of a container for memory that is not Go's: the program, memtables.
	outsideShare = 1.0 / 10
	outsideLeast = 32 << 20
)

// gcPercent is Go's GOGC for a heap of which so many bytes are live.
func gcPercent(live int64) int {
	slack := max(slackShare*float64(live), slackLeast)
	return min(int(math.Ceil(100*slack/float64(max(live, 1)))), gcPercentMost)
}

// goMemoryLimit is Go's GOMEMLIMIT, bytes: that which maxmemory needs, or the
// limit of the container allows, but never so little that the collector would
// run without end over what is live.
func goMemoryLimit(maxmemory, container, live int64) int64 {
	limit := int64(math.MaxInt64)
	switch {
	case maxmemory > 0:
		limit = maxmemory + int64(limitShare*float64(maxmemory)) + limitRuntime
	case container > 0:
		limit = max(container-max(int64(outsideShare*float64(container)), outsideLeast), container/2)
	}
	return max(limit, live+int64(limitShare*float64(live))+limitRuntime)
}

// A heap keeps the Go heap of this process small.
type heap struct {
	keeps     atomic.Pointer[func() int64] // what the keyspace and clients' buffers take, bytes, when there is a node
	config    *Config
	container int64 // memory limit of the container; 0 = none or unknown
	percent   bool  // GOGC is ours to set
	limit     bool  // GOMEMLIMIT is ours to set

	percentNow int
	limitNow   int64
	allocated  int64 // bytes, at the last turn
	calm       int   // turns in which hardly anything was
	beside     int64 // bytes that the heap took beside what it keeps, after memory was last given back
	givenAt    time.Time
	samples    [5]metrics.Sample
}

// The places in heap.samples.
const (
	liveBytes = iota
	allocatedBytes
	objectBytes
	unusedBytes
	freeBytes
)

func newHeap(config *Config) *heap {
	h := &heap{
		config: config, container: containerLimit(os.ReadFile),
		percent: os.Getenv("GOGC") == "", limit: os.Getenv("GOMEMLIMIT") == "",
		percentNow: gcPercentMost, limitNow: math.MaxInt64,
	}
	for i, name := range []string{"/gc/heap/live", "/gc/heap/allocs", "/memory/classes/heap/objects", "/memory/classes/heap/unused", "/memory/classes/heap/free"} {
		h.samples[i].Name = name + ":bytes"
	}
	return h
}

func (h *heap) sample(i int) int64 { return int64(h.samples[i].Value.Uint64()) }

// watch turns until stop is closed.
func (h *heap) watch(stop <-chan struct{}) {
	tick := time.NewTicker(heapEvery)
	defer tick.Stop()
	for {
		h.turn()
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}

// turn looks once and sets what has to change.
func (h *heap) turn() {
	metrics.Read(h.samples[:])
	used := int64(0)
	if keeps := h.keeps.Load(); keeps != nil {
		used = (*keeps)()
	}
	live := max(h.sample(liveBytes), used)
	if p := gcPercent(live); h.percent && math.Abs(float64(p-h.percentNow)) > gcPercentStep*float64(h.percentNow) {
		h.percentNow = p
		debug.SetGCPercent(p)
	}
	if l := goMemoryLimit(h.config.Values().MaxMemory, h.container, live); h.limit && math.Abs(float64(l-h.limitNow)) > gcPercentStep*limitShare*float64(l) {
		h.limitNow = l
		debug.SetMemoryLimit(l)
	}
	if h.giveBackDue(h.sample(allocatedBytes), h.taken(), used, time.Now()) {
		debug.FreeOSMemory()
		metrics.Read(h.samples[:])
		h.beside = h.taken() - used
	}
}

// taken is the memory of the heap, used or not, that is resident.
func (h *heap) taken() int64 {
	return h.sample(objectBytes) + h.sample(unusedBytes) + h.sample(freeBytes)
}

// giveBackDue says whether memory is to be given back now: so many bytes were
// allocated since the start, the heap takes so many, the keyspace and clients'
// buffers use so many.
func (h *heap) giveBackDue(allocated, taken, used int64, now time.Time) bool {
	if h.calm++; allocated-h.allocated > calmBytes {
		h.calm = 0
	}
	h.allocated = allocated
	if h.beside > besideMuch && now.Sub(h.givenAt) >= lookAgain {
		h.beside = 0
	}
	spare := taken - used - h.beside
	if h.calm < calmTurns || spare < max(int64(spareShare*float64(used)), spareLeast) || now.Sub(h.givenAt) < spareEvery {
		return false
	}
	h.givenAt = now
	return true
}

// logStart says what was decided, and warns of a container that is too small.
func (h *heap) logStart(log *slog.Logger) {
	max := h.config.Values().MaxMemory
	switch need := goMemoryLimit(max, 0, 0) + outsideLeast; {
	case h.container == 0:
	case max == 0:
		log.Warn("maxmemory is 0: a flood of new keys ends with the container's memory and the process is killed; a maxmemory refuses them instead",
			"container_bytes", h.container, "suggested_maxmemory", suggestedMax(h.container))
	case need > h.container:
		log.Warn("maxmemory is close to the container's memory: the process may be killed before new keys are refused",
			"container_bytes", h.container, "maxmemory", max, "suggested_maxmemory", suggestedMax(h.container))
	}
}

// suggestedMax is the largest maxmemory that a container has room for.
func suggestedMax(container int64) int64 {
	return max(0, int64(float64(container-outsideLeast-limitRuntime)/(1+limitShare)))
}
