package resp

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// budgetWarnEvery is how often the log tells of clients closed for their
// memory, at most.
const budgetWarnEvery = 10 * time.Second

// budget is what the buffers of all clients take together: what has come and is
// not executed, what was answered and is not taken, and what sessions keep.
type budget struct {
	used atomic.Int64 // bytes
	room atomic.Int64 // what is left for it of all memory, bytes; 0 = nobody bounds that

	over   atomic.Bool // somebody found it exceeded since clients were looked at
	mu     sync.Mutex  // held by who closes clients
	warned time.Time
}

// holds notes how much a connection's buffers take now, in bytes; its session's
// own come in addition. Above the bound of all the largest are closed.
func (l *life) holds(n int64) {
	n += l.s.keeps()
	grown := n - l.s.held.Load()
	if grown == 0 {
		return
	}
	if grown < 0 { // in this order: what relieve takes for held is in used as well, or it would close too many
		l.srv.budget.used.Add(grown)
		l.s.held.Store(n)
		return
	}
	l.s.held.Store(n)
	used := l.srv.budget.used.Add(grown)
	if most := l.srv.mostHeld(); most > 0 && used > most {
		l.srv.relieve(most)
	}
}

// mostHeld is how much all may hold, bytes; 0 = any.
func (srv *Server) mostHeld() int64 {
	most, room := srv.settings.Load().MaxClientMemory, srv.budget.room.Load()
	if most == 0 || room > 0 && room < most {
		return room
	}
	return most
}

// LeaveClients says what is left of all memory for the buffers of clients, in bytes, beside their own bound; 0 = any.
// Above it the largest are closed, now and when they grow.
func (srv *Server) LeaveClients(room int64) {
	srv.budget.room.Store(room)
	if most := srv.mostHeld(); most > 0 && srv.budget.used.Load() > most {
		srv.relieve(most)
	}
}

// relieve sees to it that the bound is kept: whoever is at it already looks again.
func (srv *Server) relieve(most int64) {
	b := &srv.budget
	b.over.Store(true)
	for b.over.Load() && b.mu.TryLock() {
		b.over.Store(false)
		srv.closeLargest(most)
		b.mu.Unlock()
	}
}

// closeLargest closes the largest clients until the others keep the bound, but
// none that said CLIENT NO-EVICT. budget.mu is held.
func (srv *Server) closeLargest(most int64) {
	b := &srv.budget
	type holder struct {
		carrier carrier
		s       *Session
		held    int64
	}
	var largest []holder
	over := b.used.Load() - most
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for c := range srv.conns {
		switch h := (holder{c, c.session(), c.session().held.Load()}); {
		case h.s.killed.Load():
			over -= h.held // it is on its way out
		case h.held > 0 && !h.s.shown.Load().noEvict:
			largest = append(largest, h)
		}
	}
	slices.SortFunc(largest, func(a, b holder) int { return cmp.Compare(b.held, a.held) })
	closed := 0
	for _, h := range largest {
		if over <= 0 {
			break
		}
		over -= h.held
		h.s.killed.Store(true)
		h.carrier.cut()
		closed++
	}
	if closed == 0 {
		return
	}
	srv.counters.evicted.Add(uint64(closed))
	if now := time.Now(); now.Sub(b.warned) >= budgetWarnEvery {
		b.warned = now
		srv.log.Warn("clients are closed: the buffers of all take more than maxmemory-clients, or than maxmemory leaves", "allowed", most, "closed", closed, "largest", largest[0].held, "client", largest[0].s.addr)
	}
}
