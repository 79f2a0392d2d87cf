package shard

import (
	"fmt"

	"github.com/rlserver/rlserver/engine"
)

// Follow says whether the store follows a peer, that tells which entries are
// gone (Apply): then the sweep drops none by the clock and leaves deadlines as
// they are. It holds from the next Sweep on.
func (s *Store) Follow(on bool) { s.follows.Store(on) }

// A Wipe says what goes before changes are applied.
type Wipe byte

const (
	WipeNothing Wipe = iota
	WipeKeys         // every entry, as Clear does
	WipeAll          // the named limits too
)

// Apply makes the store what a peer told: the changes of one round of its feed,
// in their order, deadlines and all, in one step for all who look. The feeds
// hear of it as of any change. It takes all locks for as long as the changes
// take.
//
// An error says what is wrong with a change; nothing is changed then.
func (s *Store) Apply(wipe Wipe, changes []Change) error {
	var limits []Change
	for i := range changes {
		if err := changes[i].check(); err != nil {
			return err
		}
		if changes[i].Space == LimitSpace {
			limits = append(limits, changes[i])
		}
	}
	t := s.LockAll(0)
	defer t.Unlock()
	if len(limits) > 0 || wipe == WipeAll {
		if err := s.limits.apply(&t, wipe == WipeAll, limits); err != nil {
			return err
		}
	}
	if wipe != WipeNothing {
		t.Clear()
	}
	s.limits.applyFound(limits)
	for rest := changes; len(rest) > 0; {
		n := min(MaxFetch, len(rest))
		s.fetchChanged(rest[:n])
		for i := range rest[:n] {
			if rest[i].Space == KeySpace {
				t.apply(&rest[i])
			}
		}
		rest = rest[n:]
	}
	for i := range s.shards {
		s.shards[i].account()
	}
	return nil
}

// apply puts one entry, or takes it away. A tombstone of a key that is not there
// changes nothing.
func (t *Tx) apply(c *Change) {
	t.seek(c.Key)
	sh := t.shard
	switch {
	case c.Kind == 0 && !t.at.hit():
		return
	case c.Kind == 0:
		sh.remove(&t.w, t.hash, t.at)
		t.at = spot{}
	case t.at.hit() && t.store.promise == Ahead:
		sh.overwriteHeld(&t.w, &t.at, c.Kind, c.Value, &holding{told: true}, c.Deadline) // nothing is held
	case t.at.hit():
		sh.overwrite(&t.w, &t.at, c.Kind, c.Value, c.Deadline)
	default:
		t.at = sh.insert(&t.w, t.hash, c.Key, c.Kind, c.Value, c.Deadline)
	}
	sh.changes++
	t.changed = true
	if sh.watched != nil {
		sh.touch(c.Key)
	}
}

// check refuses a change that no store of ours tells.
func (c *Change) check() error {
	switch c.Space {
	case KeySpace:
		if c.Kind == 0 {
			return nil
		}
		if err := checkEntry(c.Key, c.Kind, c.Value); err != nil {
			return err
		}
		if c.Deadline < 0 || c.Deadline > MaxDeadline {
			return fmt.Errorf("entry of key %.64q: deadline %d is out of range", c.Key, c.Deadline)
		}
		var room [64]byte
		if _, err := engine.Rebase(room[:0], c.Value, engine.MaxNow); err != nil {
			return fmt.Errorf("entry of key %.64q: %w", c.Key, err)
		}
		return nil
	case LimitSpace:
		if len(c.Key) > 0 && c.Key[0] == searchMark {
			return checkSearch(*c)
		}
		_, err := c.named()
		return err
	}
	return fmt.Errorf("change of key %.64q: space %d is unknown", c.Key, c.Space)
}

// named reads a named limit, or the name that a tombstone is about.
func (c *Change) named() (n NamedLimit, err error) {
	n = NamedLimit{Name: string(c.Key), Origin: Origin(c.Kind)}
	if err = CheckLimitName(c.Key); err != nil || c.Kind == 0 {
		return n, err
	}
	if err = n.Parse(c.Value); err == nil && n.Origin > FromFile {
		err = fmt.Errorf("origin %d is unknown", c.Kind)
	}
	if err != nil {
		return n, fmt.Errorf("named limit %+.64q: %w", c.Key, err)
	}
	return n, nil
}

// apply is Store.Apply's part here: what is configured. The changes were checked.
func (l *Limits) apply(in *Tx, wipe bool, changes []Change) error {
	_, err := l.update(in, func(c *limitsChange) error {
		if wipe {
			for name := range c.set.byName {
				c.remove(name)
			}
		}
		for i := range changes {
			ch := &changes[i]
			switch {
			case ch.Key[0] == searchMark:
			case ch.Kind == 0:
				c.remove(string(ch.Key))
			default:
				n, err := ch.named()
				if err != nil {
					return err
				}
				c.put(n)
			}
		}
		return nil
	})
	return err
}

// applyFound takes what adaptive limits have found, after a Clear forgot it.
func (l *Limits) applyFound(changes []Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ch := range changes {
		if ch.Key[0] != searchMark {
			continue
		}
		if r := l.searches[string(ch.Key[1:])]; r != nil {
			l.loadSearch(ch)
			r.mu.Lock()
			r.told = [maxFeeds]bool{}
			r.mu.Unlock()
		}
	}
}
