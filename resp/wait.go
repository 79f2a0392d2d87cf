package resp

import "time"

// A client that waits rests, and looks again after waitFirst, then each time after
// twice as long, up to waitMost.
const (
	waitFirst = time.Millisecond
	waitMost  = 16 * time.Millisecond
)

// A waitCall is a WAIT under way.
type waitCall struct {
	replicas int64
	round    uint64    // of the second feed, that they are to have
	frame    uint64    // that it is in
	shipped  bool      // frame is known
	until    time.Time // zero = for as long as it takes
	pause    time.Duration
}

func waitRow() *command {
	return &command{name: "wait", arity: 3, flags: flagStale, group: "server", also: []string{"blocking", "connection"},
		summary: "Waits until so many replicas have what this connection has changed, for timeout ms at most, 0 = for as long as it takes; answers how many have it.",
		reply:   "integer", run: wait, args: []arg{{name: "numreplicas", kind: "integer"}, {name: "timeout", kind: "integer"}}}
}

// wait is WAIT numreplicas timeout. Inside EXEC it does not wait.
func wait(s *Session, args [][]byte) {
	n, ok := parseInt(args[1])
	if !ok {
		s.fail(errNotInteger)
		return
	}
	ms, ok := parseInt(args[2])
	switch {
	case !ok:
		s.fail(errPauseTime)
		return
	case ms < 0:
		s.fail(errPauseNegative)
		return
	case ms > maxPause:
		s.fail(errPauseLong)
		return
	case s.srv.repl == nil:
		s.int(0)
		return
	case !s.srv.repl.Role().Leads:
		s.fail(errWaitReplica)
		return
	}
	w := &waitCall{replicas: n, round: s.wrote, pause: waitFirst}
	if ms > 0 {
		w.until = time.Now().Add(time.Duration(ms) * time.Millisecond)
	}
	if s.exec != nil || s.atOnce || s.carrier == nil {
		s.int(w.have(s))
		return
	}
	s.inTurns(w.step)
}

// have is how many replicas are known to have it.
func (w *waitCall) have(s *Session) int64 {
	if !w.shipped {
		w.frame, w.shipped = s.srv.repl.Shipped(w.round)
	}
	if !w.shipped {
		return 0
	}
	return int64(s.srv.repl.Having(w.frame))
}

// step answers, or has the connection rest for a while.
func (w *waitCall) step(s *Session) (done bool) {
	have := w.have(s)
	if have >= w.replicas || !w.until.IsZero() && !time.Now().Before(w.until) {
		s.int(have)
		return true
	}
	again := w.pause
	if !w.until.IsZero() {
		again = min(again, time.Until(w.until))
	}
	w.pause = min(2*w.pause, waitMost)
	s.paused = true
	time.AfterFunc(again, s.carrier.wake)
	return false
}
