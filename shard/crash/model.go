package crash

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/rlserver/rlserver/engine"
)

// A key is a key with what callers say of it and what it may be by now.
type key struct {
	name     []byte
	lim      engine.Limit // what callers say, or the name means
	named    string       // the limit's name, "" if callers spell it out
	constant bool         // its limit never changes

	// states are those of servers that heard what this one answered in the lives
	// before, and events what happened in this one.
	states [][]byte
	events []*event

	memory []byte // what was there when the power went, nil if it did not

	twice, lost int64 // tokens, in this life
	credit      int64 // lost in all and not yet admitted twice
}

// An event is what a call did to one key.
type event struct {
	what     string
	given    bool   // somebody's word, that counts when it is given: a refund, a reset
	due      uint64 // the round that its answer waits for
	round    uint64 // that it is in
	took     int64  // tokens admitted
	answered bool

	// do is the same call on another state, nil for none. It is not ok if it would
	// not be admitted.
	do func(old []byte) (next []byte, ok bool)
	// part is how much of what it took would be admitted on another state.
	part func(old []byte) (next []byte, tokens int64)
}

// maxStates bounds what is tried: far more than a crash leaves in doubt.
const maxStates = 500

// settle looks back on a life: which states may there be, if what was answered
// happened and of the rest perhaps some?
func (k *key) settle(exact bool) error {
	var next [][]byte
	for _, from := range k.states {
		if !exact {
			next = k.answers(next, from)
		}
		next = k.moments(next, from)
	}
	if len(next) == 0 {
		return fmt.Errorf("key %s: tokens were admitted twice\n%s", k.name, k.story())
	}
	if len(next) > maxStates {
		return fmt.Errorf("key %s: %d states are possible", k.name, len(next))
	}
	k.states, k.events = next, nil
	return nil
}

// answers adds the state of a server that heard only what was answered, and
// what was given.
func (k *key) answers(to [][]byte, state []byte) [][]byte {
	for _, e := range k.events {
		if !e.answered && !e.given {
			continue
		}
		next, ok := e.do(state)
		if !ok {
			return to
		}
		state = next
	}
	return added(to, state)
}

// moments adds the states that a server had that heard everything, from the last
// answer on.
func (k *key) moments(to [][]byte, state []byte) [][]byte {
	last := -1
	for i, e := range k.events {
		if e.answered && !e.given {
			last = i
		}
	}
	if last < 0 {
		to = added(to, state)
	}
	for i, e := range k.events {
		next, ok := e.do(state)
		switch {
		case ok:
			state = next
		case e.answered:
			return to
		}
		if i >= last {
			to = added(to, state)
		}
	}
	return to
}

func added(to [][]byte, state []byte) [][]byte {
	if slices.ContainsFunc(to, func(s []byte) bool { return bytes.Equal(s, state) }) {
		return to
	}
	return append(to, state)
}

// tolerate is settle where tokens may be admitted twice: it counts them, and
// those that a disk lost.
func (k *key) tolerate(durable uint64) {
	state := k.states[0]
	for _, e := range k.events {
		if e.part == nil {
			state, _ = e.do(state)
			continue
		}
		next, tokens := e.part(state)
		state = next
		k.twice += e.took - tokens
		if e.round > durable {
			k.lost += e.took
		}
	}
	k.states, k.events = [][]byte{state}, nil
}

// story tells a life.
func (k *key) story() string {
	var b strings.Builder
	for _, s := range k.states {
		fmt.Fprintf(&b, "it may be %x\n", s)
	}
	for _, e := range k.events {
		how := "not answered"
		if e.answered {
			how = "answered"
		}
		fmt.Fprintf(&b, "%s; in round %d, due %d, %s\n", e.what, e.round, e.due, how)
	}
	return b.String()
}
