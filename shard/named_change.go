package shard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlserver/rlserver/engine"
)

// Set is a caller's: it makes or changes the limit of a name and returns the
// round of the first feed that this lands in. The error is that of
// CheckLimitName, ErrOfFile, or says that there are too many.
func (l *Limits) Set(name []byte, lim engine.Limit) (round uint64, err error) {
	return l.SetNamed(NamedLimit{Name: string(name), Limit: lim})
}

// SetNamed is Set for a limit of any kind; its Origin is not looked at. What an
// adaptive limit has found is kept when only its expression changes.
func (l *Limits) SetNamed(n NamedLimit) (round uint64, err error) { return l.setNamed(nil, n) }

func (l *Limits) setNamed(in *Tx, n NamedLimit) (round uint64, err error) {
	if err := CheckLimitName([]byte(n.Name)); err != nil {
		return 0, err
	}
	n.Origin = FromCommand
	return l.update(in, func(c *limitsChange) error {
		if old := c.set.byName[n.Name]; old != nil && old.Origin == FromFile {
			return ErrOfFile
		}
		c.put(n)
		return nil
	})
}

// Delete is a caller's: it forgets the limit of a name and says whether there
// was one. The error is ErrOfFile.
func (l *Limits) Delete(name []byte) (round uint64, found bool, err error) {
	return l.delete(nil, name)
}

func (l *Limits) delete(in *Tx, name []byte) (round uint64, found bool, err error) {
	if _, ok := l.Get(name); !ok {
		return 0, false, nil
	}
	round, err = l.update(in, func(c *limitsChange) error {
		old := c.set.byName[string(name)]
		found = old != nil
		if found && old.Origin == FromFile {
			return ErrOfFile
		}
		c.remove(string(name))
		return nil
	})
	return round, found, err
}

// A FileChange says what a limits-file changed.
type FileChange struct {
	Set     int    // limits that are new, or not as they were
	Removed int    // limits of the file's that are not in it any more
	Taken   int    // of Set: those that a caller had set before
	Round   uint64 // the round of the first feed that this lands in
}

// SetFile makes the limits given those of the limits-file, in one step: those
// it had before and are not among them are gone, and a caller's of the same
// name becomes the file's. The error says that there are too many, or which
// name is none; nothing is changed then.
func (l *Limits) SetFile(list []NamedLimit) (fc FileChange, err error) {
	fc.Round, err = l.update(nil, func(c *limitsChange) error {
		in := make(map[string]bool, len(list))
		for _, n := range list {
			if err := CheckLimitName([]byte(n.Name)); err != nil {
				return err
			}
			in[n.Name] = true
			old := c.set.byName[n.Name]
			n.Origin = FromFile
			if old != nil && old.Limit == n.named().Limit && old.Adaptive == n.Adaptive && old.Origin == FromFile {
				continue
			}
			fc.Set++
			if old != nil && old.Origin != FromFile {
				fc.Taken++
			}
			c.put(n)
		}
		for name, old := range c.set.byName {
			if old.Origin == FromFile && !in[name] {
				c.remove(name)
				fc.Removed++
			}
		}
		return nil
	})
	if err != nil {
		return FileChange{}, err
	}
	return fc, nil
}

// Release gives the limits of a file that is not in use any more to the
// callers, and returns how many there are.
func (l *Limits) Release() (released int) {
	l.update(nil, func(c *limitsChange) error {
		for _, old := range c.set.byName {
			if old.Origin == FromFile {
				n := *old
				n.Origin = FromCommand
				c.put(n)
				released++
			}
		}
		return nil
	})
	return released
}

// Load takes limits from disk or from a peer, and what adaptive ones have found,
// tombstones among them, in one step. It is for the time before commands are
// served: the feeds do not hear of it. An error says what is wrong; nothing is
// changed then.
func (l *Limits) Load(changes []Change) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.begin()
	var found []Change
	for _, ch := range changes {
		if len(ch.Key) > 0 && ch.Key[0] == searchMark {
			if err := checkSearch(ch); err != nil {
				return err
			}
			found = append(found, ch)
			continue
		}
		if ch.Kind == 0 {
			c.remove(string(ch.Key))
			continue
		}
		n, err := parseNamed(ch)
		if err != nil {
			return err
		}
		c.put(n)
	}
	if err := c.check(); err != nil {
		return err
	}
	l.settle(c, [maxFeeds]uint64{})
	l.set.Store(c.set)
	for _, ch := range found {
		l.loadSearch(ch)
	}
	return nil
}

// A limitsChange is a change under way: a set of its own, and what to tell.
type limitsChange struct {
	set  *limitSet
	told []Change
}

func (l *Limits) begin() *limitsChange {
	old := l.set.Load()
	c := &limitsChange{set: &limitSet{byName: maps.Clone(old.byName), byPrefix: maps.Clone(old.byPrefix), sorted: slices.Clone(old.sorted)}}
	if c.set.byName == nil {
		c.set.byName, c.set.byPrefix = map[string]*NamedLimit{}, map[string]*NamedLimit{}
	}
	return c
}

// named returns n with the name in its limit, as entries made under it have it.
func (n NamedLimit) named() *NamedLimit {
	n.Limit.Name = n.Name
	return &n
}

func (c *limitsChange) put(n NamedLimit) {
	p := n.named()
	p.search = nil // settle knows it
	c.set.byName[n.Name] = p
	if at, found := c.set.place(n.Name); found {
		c.set.sorted[at] = p
	} else {
		c.set.sorted = slices.Insert(c.set.sorted, at, p)
	}
	if prefix, ok := strings.CutSuffix(n.Name, "*"); ok {
		c.set.byPrefix[prefix] = p
	}
	c.told = append(c.told, p.change())
}

func (c *limitsChange) remove(name string) {
	if c.set.byName[name] == nil {
		return
	}
	delete(c.set.byName, name)
	if at, found := c.set.place(name); found {
		c.set.sorted = slices.Delete(c.set.sorted, at, at+1)
	}
	if prefix, ok := strings.CutSuffix(name, "*"); ok {
		delete(c.set.byPrefix, prefix)
	}
	c.told = append(c.told, Change{Space: LimitSpace, Key: []byte(name)})
}

func (c *limitsChange) check() error {
	if n := len(c.set.byName); n > MaxLimits {
		return fmt.Errorf("%d named limits: at most %d are held", n, MaxLimits)
	}
	return nil
}

// update makes a change, tells the feeds, and puts it in force. The feeds' open
// rounds are read under the lock that Cut passes through, and before the new
// set can be seen: so an entry that was made under it is in the same round or
// in a later one. Of a Tx that holds all locks it is the rounds that count: Cut
// cannot have passed them.
func (l *Limits) update(in *Tx, change func(*limitsChange) error) (round uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.begin()
	if err := change(c); err != nil {
		return 0, err
	}
	if err := c.check(); err != nil {
		return 0, err
	}
	w := l.store.writer()
	if in != nil {
		w = in.w
	}
	l.settle(c, w.rounds)
	for n, f := range l.store.feeds {
		if f == nil || f.off || len(c.told) == 0 {
			continue
		}
		to := &l.pending[n][w.rounds[n]&1]
		if *to == nil {
			*to = map[string]Change{}
		}
		for _, ch := range c.told {
			(*to)[string(ch.Key)] = ch
		}
	}
	l.changes += uint64(len(c.told))
	l.set.Store(c.set)
	return w.rounds[0], nil
}

// take returns what changed in a closed round of a feed, by name, and then what
// adaptive limits have found since the feed was told of it. Having had the lock,
// it knows that nobody adds to that round any more.
func (l *Limits) take(feed int, round uint64) []Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := &l.pending[feed][round&1]
	out := slices.SortedFunc(maps.Values(*from), func(a, b Change) int { return strings.Compare(string(a.Key), string(b.Key)) })
	*from = nil
	return l.takeSearches(out, feed, round)
}

// figures returns how many there are, how many changes there were, and how many
// of them the open round of a feed holds.
func (l *Limits) figures(feed *Feed) (limits int, changes uint64, pending int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if feed != nil {
		pending = len(l.pending[feed.n][feed.round.Load()&1]) + l.untold(feed.n)
	}
	return l.Len(), l.changes + l.reports.Load(), pending
}
