package crash

import (
	"bytes"

	"math/rand/v2"

	"github.com/rlserver/rlserver/shard"
)

// Memory is a disk that is none: rounds become durable one by one, each as a
// whole, after some time in which the store goes on. Now and then one fails;
// then everything is written anew, entry by entry while they change.
type Memory struct {
	on       map[string]shard.Change // by space and key
	store    *shard.Store
	feed     *shard.Feed
	durable  uint64
	round    *shard.Round   // being written
	changes  []shard.Change // of it, so far
	cleared  bool
	failing  int         // writes until a new generation is begun
	walk     *shard.Walk // of the generation being written
	anew     map[string]shard.Change
	Failures int // how many rounds failed so far
}

// Start implements Disk.
func (m *Memory) Start(c shard.Config, clock, maxTS, drain int64) (*shard.Store, error) {
	on := m.on
	if on == nil {
		on = map[string]shard.Change{}
	}
	*m = Memory{on: on, store: shard.New(c), Failures: m.Failures}
	m.feed = m.store.NewFeed()
	var limits []shard.Change
	loader := m.store.Loader(clock, maxTS)
	for _, c := range on {
		if c.Space == shard.LimitSpace {
			limits = append(limits, c)
		}
	}
	if err := m.store.Limits().Load(limits); err != nil {
		return nil, err
	}
	m.store.Limits().Rebase(maxTS)
	if drain != 0 {
		m.store.Drain(drain)
	}
	for _, c := range on {
		if c.Space == shard.KeySpace {
			if err := loader.Add(c); err != nil {
				return nil, err
			}
		}
	}
	return m.store, loader.Flush()
}

// Ask implements Disk: rounds are always written soon.
func (m *Memory) Ask(uint64) {}

// Durable implements Disk.
func (m *Memory) Durable() uint64 { return m.durable }

// Write implements Disk.
func (m *Memory) Write(rng *rand.Rand) error {
	switch {
	case m.failing > 1:
		m.failing--
	case m.failing == 1:
		m.failing = 0
		m.cut()
		for m.round.Next(1000) != nil {
		}
		m.round, m.walk, m.anew = nil, m.store.Walk(), map[string]shard.Change{}
		apply(m.anew, m.store.Limits().Changes())
	case m.walk != nil:
		batch, more := m.walk.Next()
		if apply(m.anew, batch); !more {
			m.walk = nil
			m.cut()
		}
	case m.round == nil:
		m.cut()
	default:
		m.write(rng)
	}
	return nil
}

func (m *Memory) cut() {
	m.round = m.feed.Cut()
	m.changes, m.cleared = nil, m.round.Cleared
}

// write writes a part of a round. After the last it is durable, or has failed
// and may be on disk all the same.
func (m *Memory) write(rng *rand.Rand) {
	batch := m.round.Next(1 + rng.IntN(8))
	for _, c := range batch {
		c.Key, c.Value = bytes.Clone(c.Key), bytes.Clone(c.Value)
		m.changes = append(m.changes, c)
	}
	if batch != nil {
		return
	}
	number := m.round.Number
	m.round = nil
	switch {
	case m.anew != nil:
		m.commit(m.anew)
		m.on, m.anew = m.anew, nil
	case rng.IntN(20) == 0:
		m.Failures++
		m.failing = 1 + rng.IntN(20)
		if rng.IntN(2) == 0 {
			m.commit(m.on)
		}
		return
	default:
		m.commit(m.on)
	}
	m.durable = number
}

// commit adds a round to what is on a disk.
func (m *Memory) commit(on map[string]shard.Change) {
	if m.cleared {
		for k, c := range on {
			if c.Space == shard.KeySpace {
				delete(on, k)
			}
		}
	}
	apply(on, m.changes)
}

func apply(on map[string]shard.Change, changes []shard.Change) {
	for _, c := range changes {
		k := string(append([]byte{c.Space}, c.Key...))
		if c.Kind == 0 {
			delete(on, k)
			continue
		}
		c.Key, c.Value = bytes.Clone(c.Key), bytes.Clone(c.Value)
		on[k] = c
	}
}

// Lose implements Disk.
func (m *Memory) Lose(*rand.Rand) error { return nil }

// Stop implements Disk.
func (m *Memory) Stop() error {
	m.store.Settle()
	rng := rand.New(rand.NewPCG(0, 0))
	for end := m.feed.Round(); m.durable < end; {
		if err := m.Write(rng); err != nil {
			return err
		}
	}
	return nil
}
