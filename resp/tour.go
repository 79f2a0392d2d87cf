package resp

import "github.com/rlserver/rlserver/shard"

// Bounds of a turn of a command that goes through all keys, and of a pattern,
// which bounds what one key can cost in it.
const (
	tourTurnKeys = 1024    // keys and pages looked at in one turn
	tourTurnNs   = 500_000 // a turn ends after this, ns
	tourLookCost = 64      // see cost: done between two looks at the clock
	maxPattern   = 1 << 10 // bytes of a pattern, as long as the longest key
)

// A tour goes through all keys, in turns so that others are served between
// them, and shows those that match a pattern. A key that is there all the time
// is shown, and none twice.
type tour struct {
	pattern *glob
	place   uint64 // of the next page
	last    bool   // there is no next page
	page    shard.Page
	left    []shard.Key // of the page, not looked at yet
	keys    int         // looked at so far
	pages   int         // asked for so far; they may be empty

	cmd  *command // for the slow log: what is done, for whom it takes how long
	args [][]byte
	ns   int64
}

// newTour begins a tour for the command at hand. The slow log is left to the
// tour, that knows how long all turns took.
func (s *Session) newTour(pattern []byte, args [][]byte) tour {
	s.run.args = nil
	return tour{pattern: compile(string(pattern)), cmd: s.cmd, args: cloneArgs(args)}
}

// turn shows some keys. It is done when it has shown the last one, or when
// enough says so between two pages; then t.place is where to go on.
func (t *tour) turn(s *Session, show func(shard.Key), enough func() bool) (done bool) {
	began := s.srv.clock.NowNs()
	defer func() {
		t.ns += s.srv.clock.NowNs() - began
		if done {
			s.srv.slow.add(s, t.cmd, t.args, t.ns)
		}
	}()
	until := t.keys + t.pages + tourTurnKeys
	for cost := 0; ; {
		for len(t.left) > 0 {
			key := t.left[0]
			t.left = t.left[1:]
			if matches(t.pattern, key.Name) {
				show(key)
			}
			t.keys++
			if cost += t.cost(key); cost >= tourLookCost {
				if cost = 0; t.keys+t.pages >= until || s.srv.clock.NowNs()-began >= tourTurnNs {
					return false
				}
			}
		}
		switch {
		case t.last || enough():
			return true
		case t.keys+t.pages >= until:
			return false
		}
		t.place = s.srv.store.Scan(s.now, t.place, &t.page)
		t.left, t.last = t.page.Keys, t.place == 0
		t.pages++
	}
}

// cost is about how long a look at a key takes: a pattern can make it try every
// part of itself at every byte.
func (t *tour) cost(key shard.Key) int { return 1 + len(t.pattern.elems)*len(key.Name)/1024 }
