package main

import (
	"errors"
	"fmt"
	pathpkg "path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Config holds the options in force and serves CONFIG GET and CONFIG SET. It is safe for concurrent use.
type Config struct {
	values   atomic.Pointer[Values] // what it points to never changes
	mu       sync.Mutex             // orders Set and guards appliers
	appliers []applier
}

// An applier puts the options it is named for in force.
type applier struct {
	names []string
	apply func(Values) error
}

func newConfig(v Values) *Config {
	c := &Config{}
	c.values.Store(&v)
	return c
}

// Values returns the options in force. The slices in it are shared: read only.
func (c *Config) Values() Values { return *c.values.Load() }

// adjust changes options at the start, before anybody asks for them.
func (c *Config) adjust(change func(*Values)) {
	v := c.Values()
	change(&v)
	c.values.Store(&v)
}

// OnSet registers what makes the named live options take effect. Set calls apply with the values to be, before they
// are in force; an error refuses the whole CONFIG SET, and then apply is called again with the values that stay. A
// live option that nobody registered for cannot be set, so that CONFIG SET never promises what does not happen.
// apply must not call Set or OnSet. A name that is no live option is a fault of the program.
func (c *Config) OnSet(apply func(Values) error, names ...string) {
	for _, name := range names {
		if o := lookup(name); o == nil || !o.live {
			panic("OnSet: " + name + " is no live option")
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.appliers = append(c.appliers, applier{names, apply})
}

// Get returns name and value of the options whose name matches a glob pattern in any letter case: first the options in
// table order, then the fixed facts. A secret that is set shows as a mask.
func (c *Config) Get(pattern string) [][2]string {
	pattern = strings.ToLower(pattern)
	matches := func(name string) bool { ok, err := pathpkg.Match(pattern, name); return ok && err == nil }
	v := c.values.Load()
	var found [][2]string
	for i := range options {
		if o := &options[i]; matches(o.name) {
			found = append(found, [2]string{o.name, o.shown(v)})
		}
	}
	for _, f := range facts {
		if matches(f.name) {
			found = append(found, [2]string{f.name, f.value})
		}
	}
	return found
}

// Set changes options given as name and value, all or none. The error is Redis's text without its code (ERR).
func (c *Config) Set(pairs [][2]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	named, err := c.settable(pairs)
	if err != nil {
		return err
	}
	old := c.values.Load()
	v := *old
	for i, o := range named {
		if err := o.kind.parse(&v, pairs[i][1]); err != nil {
			return setFailed(o.name, err)
		}
	}
	if err := c.apply(named, *old, v); err != nil {
		return err
	}
	c.values.Store(&v)
	return nil
}

var (
	errImmutable = errors.New("can't set immutable config")
	errDuplicate = errors.New("duplicate parameter")
)

func setFailed(name string, why error) error {
	return fmt.Errorf("CONFIG SET failed (possibly related to argument '%s') - %w", name, why)
}

// settable finds the options of the pairs; the first that may not be set is the error.
func (c *Config) settable(pairs [][2]string) ([]*option, error) {
	var named []*option
	for _, p := range pairs {
		o := lookup(p[0])
		switch {
		case o == nil && lookupFact(p[0]) != nil:
			return nil, setFailed(lookupFact(p[0]).name, errImmutable)
		case o == nil:
			return nil, fmt.Errorf("Unknown option or number of arguments for CONFIG SET - '%s'", clip(p[0]))
		case !o.live || !slices.ContainsFunc(c.appliers, func(a applier) bool { return slices.Contains(a.names, o.name) }):
			return nil, setFailed(o.name, errImmutable)
		case slices.Contains(named, o):
			return nil, setFailed(o.name, errDuplicate)
		}
		named = append(named, o)
	}
	return named, nil
}

// apply calls who is concerned, each once. When one refuses, those called before it get the old values again.
func (c *Config) apply(named []*option, old, v Values) error {
	var done []applier
	for _, a := range c.appliers {
		i := slices.IndexFunc(named, func(o *option) bool { return slices.Contains(a.names, o.name) })
		if i < 0 {
			continue
		}
		done = append(done, a)
		if err := a.apply(v); err != nil {
			for _, d := range done {
				_ = d.apply(old) // those values were in force a moment ago
			}
			return setFailed(named[i].name, err)
		}
	}
	return nil
}
