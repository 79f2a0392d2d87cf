package resp

import "time"

// turnsWithin is what a command that works in turns may still take once its
// client sends no more, or the server stops.
const turnsWithin = 2 * time.Second

// presence is what the kernel knows of the other end of a connection.
type presence byte

const (
	present  presence = iota
	finished          // it sends no more; whether it still reads cannot be told
	vanished          // it neither sends nor reads
)

// abandons says whether a long command under way is not worth its next turns.
// until is when a stopping server ended reading; zero = it does not stop.
func (l *life) abandons(peer presence, until, now time.Time) bool {
	switch {
	case l.s.turn == nil:
		return false
	case peer == vanished:
		return true
	case peer == finished && time.Duration(l.srv.clock.NowNs()-l.s.ns) >= l.srv.within.turns: // since it began
		return true
	}
	return !until.IsZero() && now.Sub(until) >= l.srv.within.turns
}
