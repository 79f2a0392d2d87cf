package resp

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxPause is the longest CLIENT PAUSE, ms: a year.
const maxPause = 365 * 24 * 60 * 60 * 1000

// Kinds of a pause.
const (
	pauseNone  int32 = iota
	pauseWrite       // commands that change keys wait
	pauseAll         // all wait, but for CLIENT PAUSE and UNPAUSE
)

// pause is CLIENT PAUSE. A session that must wait leaves the command in its
// input; its connection rests until it is woken.
type pause struct {
	kind atomic.Int32

	mu    sync.Mutex
	until time.Time
	timer *time.Timer
}

// begin starts a pause. One that is under way becomes the longer and the
// stricter of the two, as in Redis.
func (p *pause) begin(srv *Server, ms int64, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	until := time.Now().Add(time.Duration(ms) * time.Millisecond)
	kind := pauseWrite
	if all {
		kind = pauseAll
	}
	if was := p.kind.Load(); was != pauseNone {
		kind = max(kind, was)
		if until.Before(p.until) {
			until = p.until
		}
	}
	p.until = until
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(time.Until(until), func() {
		if !time.Now().Before(p.ends()) { // it was not made longer meanwhile
			p.end(srv)
		}
	})
	p.kind.Store(kind)
}

func (p *pause) ends() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until
}

// end ends a pause: who waits goes on.
func (p *pause) end(srv *Server) {
	p.mu.Lock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	was := p.kind.Swap(pauseNone)
	p.mu.Unlock()
	if was == pauseNone {
		return
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for c := range srv.conns {
		c.wake()
	}
}

// holds says whether a command must wait.
func (p *pause) holds(s *Session, args [][]byte) bool {
	kind := p.kind.Load()
	if kind == pauseNone || len(args) == 0 {
		return false
	}
	c := s.srv.table.lookup(args[0])
	if c != nil && c.subs != nil && len(args) > 1 {
		c = c.sub(args[1])
	}
	switch {
	case kind == pauseAll:
		return c == nil || c.full != "client|pause" && c.full != "client|unpause"
	case c == nil:
		return false
	}
	return c.flags&flagWrite != 0 || c.full == "exec" && s.multi != nil && s.multi.writes
}
