package resp

import "github.com/rlserver/rlserver/shard"

const (
	tourTurnKeys = 1024     // keys and pages that a tour looks at in one turn
	maxExecLooks = 32 << 10 // cost of what one EXEC looks at in tours: nobody else is served meanwhile
	maxPattern   = 1 << 10  // bytes of a pattern, as long as the longest key
)

// A tour goes through all keys, in turns, and shows those that match a pattern.
// A key that is there all the time is shown, and none twice.
type tour struct {
	longCall
	pattern *glob
	place   uint64 // of the next page
	last    bool   // there is no next page
	page    shard.Page
	left    []shard.Key // of the page, not looked at yet
	keys    int         // looked at so far
	pages   int         // asked for so far; they may be empty
	tooMuch bool        // it ended because EXEC may not look at more
}

// newTour begins a tour for the command at hand.
func (s *Session) newTour(pattern []byte, args [][]byte) tour {
	return tour{longCall: s.newLongCall(args), pattern: compile(string(pattern))}
}

// turn shows some keys. It is done when it has shown the last one, or when
// enough says so between two pages; then t.place is where to go on. Inside EXEC
// it may also be that there are too many.
func (t *tour) turn(s *Session, show func(shard.Key), enough func() bool) (done bool) {
	return t.timed(s, func(turn *stint) bool {
		until := t.keys + t.pages + tourTurnKeys
		for {
			for len(t.left) > 0 {
				key := t.left[0]
				t.left = t.left[1:]
				fits, steps := fit(t.pattern, key.Name)
				if fits {
					show(key)
				}
				t.keys++
				cost := lookAt(steps)
				if t.tooMuch = s.looksTooMuch(cost); t.tooMuch {
					return true
				}
				if turn.over(cost) {
					return false
				}
			}
			switch {
			case t.last || enough():
				return true
			case t.keys+t.pages >= until:
				return false
			}
			t.place = s.scan(t.place, &t.page)
			t.left, t.last = t.page.Keys, t.place == 0
			t.pages++
			if t.tooMuch = s.looksTooMuch(1); t.tooMuch {
				return true
			}
		}
	})
}

// lookAt is the cost of a look at a key or a name that took a pattern so many
// steps: a pattern may try every part of itself at every byte.
func lookAt(steps int) int { return 1 + steps/16 }

// looksTooMuch counts what is looked at under the locks of EXEC, and says that
// it is enough. Commands by themselves work in turns and have no bound.
func (s *Session) looksTooMuch(cost int) bool {
	if s.tx == nil {
		return false
	}
	s.looked += cost
	return s.looked > maxExecLooks
}
