package shard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/rlserver/rlserver/engine"
)

// Bounds of the named limits.
const (
	// MaxLimits is how many there can be.
	MaxLimits = 10_000
	// MaxLimitName is the longest name, in bytes.
	MaxLimitName = engine.MaxNameBytes
)

// An Origin says whom a named limit belongs to. It is the kind byte of its
// Change: a number is never used again for something else.
type Origin byte

const (
	FromCommand Origin = 1 // set by a caller
	FromFile    Origin = 2 // of the limits-file in use, which alone changes it
)

// A NamedLimit is a limit that callers name instead of spelling it out. What a
// Limits returns has the name in Limit too.
type NamedLimit struct {
	Name     string
	Limit    engine.Limit    // of an adaptive one that of the lowest rate
	Adaptive engine.Adaptive // zero: the limit is not adaptive
	Origin   Origin

	search *search // of an adaptive one in a set
}

// Parse reads the expression of a limit of any kind.
func (n *NamedLimit) Parse(expr []byte) (err error) {
	if engine.IsAdaptive(expr) {
		n.Adaptive, err = engine.ParseAdaptive(expr)
		n.Limit = n.Adaptive.Min
		return err
	}
	n.Adaptive = engine.Adaptive{}
	n.Limit, err = engine.ParseExpression(expr)
	return err
}

// Expression is the text that Parse reads back.
func (n *NamedLimit) Expression() string {
	if n.Adaptive != (engine.Adaptive{}) {
		return n.Adaptive.String()
	}
	return n.Limit.String()
}

// inForce is the limit that calls go by now.
func (n *NamedLimit) inForce() engine.Limit {
	if n.search != nil {
		return n.search.rate.Load().Limit
	}
	return n.Limit
}

// Limits are the named limits of a store. They are configuration: Clear leaves
// them as they are, and the clock does not touch them. Readers never wait: a
// change puts a new set in the place of the old one, so it costs a copy of the
// set. Every change is told by the feeds, in the space LimitSpace, before the
// entries of its round.
type Limits struct {
	store *Store
	set   atomic.Pointer[limitSet]

	reports atomic.Uint64 // calls of Feedback

	mu       sync.Mutex // orders changes; guards what follows
	changes  uint64
	pending  [maxFeeds][2]map[string]Change // by feed and round parity
	searches map[string]*search             // by the name of the adaptive limit
}

// A limitSet is all limits at one moment. It never changes.
type limitSet struct {
	byName map[string]*NamedLimit
	// byPrefix has those whose name ends with *, by what stands before that.
	byPrefix map[string]*NamedLimit
	sorted   []*NamedLimit // all, by name
	adaptive bool          // at least one is
}

// ErrOfFile is the refusal of a caller's change to a limit of the limits-file.
var ErrOfFile = errors.New("the limit belongs to the limits-file")

// Limits returns the named limits of the store.
func (s *Store) Limits() *Limits { return &s.limits }

func (l *Limits) init(s *Store) {
	l.store, l.searches = s, map[string]*search{}
	l.set.Store(&limitSet{})
}

// CheckLimitName refuses what is no name: it has 1 to MaxLimitName bytes of
// printable ASCII without blanks, begins neither with @ nor with #, and has a *
// only as its last segment, alone or behind a colon.
func CheckLimitName(name []byte) error {
	if limitNameOK(name) {
		return nil
	}
	return fmt.Errorf("limit name %+.64q: expected 1 to %d printable characters without blanks or a leading @ or #, and * only as the last segment: "+
		"wb:orders:list, wb:* or *", name, MaxLimitName)
}

func limitNameOK(name []byte) bool {
	last := len(name) - 1
	if last < 0 || last >= MaxLimitName || name[0] == '@' || name[0] == '#' {
		return false
	}
	for i, ch := range name {
		if ch < '!' || ch > '~' || ch == '*' && (i != last || i > 0 && name[i-1] != ':') {
			return false
		}
	}
	return true
}

// Len returns how many there are.
func (l *Limits) Len() int { return len(l.set.Load().byName) }

// Get returns the limit of exactly this name.
func (l *Limits) Get(name []byte) (NamedLimit, bool) {
	if n := l.set.Load().byName[string(name)]; n != nil {
		return *n, true
	}
	return NamedLimit{}, false
}

// Resolve returns the limit that a caller means by a name: that of the name, or
// of the longest group it is in: wb:orders:list, then wb:orders:*, wb:*, *. The
// Name in it is the one asked for, so that an entry made under it follows every
// later change; it may alias the bytes of name and is valid as long as they are.
// Resolve does not allocate.
func (l *Limits) Resolve(name []byte) (lim engine.Limit, ok bool) {
	n := l.set.Load().find(name)
	if n == nil {
		return lim, false
	}
	lim = n.inForce()
	if n.Name != string(name) {
		lim.Name = unsafe.String(unsafe.SliceData(name), len(name))
	}
	return lim, true
}

// find returns the limit that a name means, or nil.
func (s *limitSet) find(name []byte) *NamedLimit {
	if n := s.byName[string(name)]; n != nil {
		return n
	}
	if len(s.byPrefix) == 0 || !limitNameOK(name) {
		return nil
	}
	return s.group(name)
}

// resetAfter is the time in ms from clock after which an entry says no more
// than an absent one would: under the limit that its name means now, or under
// the one it carries if it has no name or nobody knows the name any more.
func (l *Limits) resetAfter(value []byte, clock int64) int64 {
	if name := engine.Name(value); name != nil {
		if lim, ok := l.Resolve(name); ok {
			return engine.ResetUnder(lim, value, clock)
		}
	}
	return engine.Reset(value, clock)
}

// group returns the limit of the longest group that a name is in, or nil.
func (s *limitSet) group(name []byte) *NamedLimit {
	for end := len(name); end > 0; end-- {
		if name[end-1] != ':' {
			continue
		}
		if n := s.byPrefix[string(name[:end])]; n != nil {
			return n
		}
	}
	return s.byPrefix[""]
}

// List returns all at this moment, by name. They are never changed, and not to
// be modified.
func (l *Limits) List() []*NamedLimit { return l.set.Load().sorted }

// place is where a name is among the sorted, or would be.
func (s *limitSet) place(name string) (at int, found bool) {
	return slices.BinarySearchFunc(s.sorted, name, func(n *NamedLimit, name string) int { return strings.Compare(n.Name, name) })
}

// Changes returns all as a feed would tell them, by name, and then what the
// adaptive ones have found: for who begins to follow, or writes everything anew.
func (l *Limits) Changes() []Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.List()
	out := make([]Change, 0, len(list))
	for i := range list {
		out = append(out, list[i].change())
	}
	l.lockedSearches(func(r *search) {
		if r.state != nil {
			out = append(out, r.change())
		}
	})
	return out
}

func (n *NamedLimit) change() Change {
	return Change{Space: LimitSpace, Key: []byte(n.Name), Kind: byte(n.Origin), Value: []byte(n.Expression())}
}
