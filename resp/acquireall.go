package resp

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

// RL.ACQUIREALL: several keys, each under a limit of its own, take their costs
// all together or not at all.

const (
	maxLegs       = 64       // keys of one call
	wordsPerLeg   = 3        // key, limit, cost
	keptLegStates = 16 << 10 // bytes of new states a legs keeps room for between calls
)

func acquireAllRows() []*command {
	return []*command{
		// The last three words are a cost and what belongs to it, or the NOW
		// after them: counted from the end, the keys are the same in both forms.
		{name: "rl.acquireall", arity: -2, flags: flagWrite | flagDenyOOM | flagLimiter | flagDecides, first: 1, last: -3, step: 3, group: "limiter",
			summary: "Takes tokens from all of 1 to 64 keys, each under its own limit, or from none. " +
				"The reply: allowed, retry_after (the longest wait), binding (the index of the key that causes it, -1 if allowed), and each key's decision.",
			complexity: "O(N) with N keys", reply: "decisions", run: rlAcquireAll,
			args: []arg{
				{name: "leg", kind: "block", multiple: true, sub: []arg{argKey, {name: "limit", kind: "string"}, {name: "cost", kind: "integer"}}},
				{name: "now", kind: "string", token: "NOW", optional: true}}},
	}
}

// leg is one key of a call with its limit and cost.
type leg struct {
	key      []byte
	lim      engine.Limit // a name in it aliases the client's input
	cost     int64
	old      []byte // as stored; valid until the first write
	d        engine.Decision
	from, to int // where its new state stands in legs.states; equal = it has none
}

// legs is a call under way. They are used again and again, so that a call
// allocates nothing for its keys.
type legs struct {
	list   []leg
	keys   [][]byte // of the list, in its order
	states []byte   // the new states one after another
	now    int64
	given  bool
}

var legsPool = sync.Pool{New: func() any { return new(legs) }}

// release forgets the call, so that nothing of a client's input or of the
// storage is kept, and gives the room back.
func (c *legs) release() {
	clear(c.list)
	clear(c.keys)
	c.list, c.keys, c.states = c.list[:0], c.keys[:0], c.states[:0]
	if cap(c.states) > keptLegStates {
		c.states = nil
	}
	legsPool.Put(c)
}

// rlAcquireAll is RL.ACQUIREALL key limit cost [key limit cost ...] [NOW now].
func rlAcquireAll(s *Session, args [][]byte) {
	c := legsPool.Get().(*legs)
	defer c.release()
	if err := c.parse(s, args[1:]); err != nil {
		s.failWith(err)
		return
	}
	now := s.callerNow(c.now, c.given)
	tx := s.lock(c.keys...)
	defer s.unlock(&tx)
	if fault := c.decide(s, &tx, now); fault != "" {
		s.fail(fault)
		return
	}
	retry, binding := c.binding()
	if binding < 0 && !c.haveRoom(&tx) {
		s.outOfMemory()
		return
	}
	if err := c.wantDisk(s, &tx); binding < 0 && err != nil {
		s.misconf(err)
		return
	}
	if binding < 0 {
		c.write(&tx)
	} else if fault := c.lookAgain(s, now); fault != "" {
		s.fail(fault)
		return
	}
	c.answer(s, retry, binding)
}

// parse reads the words after the command's name.
func (c *legs) parse(s *Session, args [][]byte) (err error) {
	if n := len(args); n%wordsPerLeg == 2 && equalFold(args[n-2], "now") {
		if c.now, c.given, _, err = nowArg(args[n-1:], noOption); err != nil {
			return err
		}
		args = args[:n-2]
	} else {
		c.now, c.given = 0, false
	}
	n := len(args) / wordsPerLeg
	switch {
	case len(args)%wordsPerLeg != 0:
		count := "1 word"
		if len(args) != 1 {
			count = fmt.Sprint(len(args), " words")
		}
		return fmt.Errorf("%s after the command: expected key limit cost for each key and perhaps NOW now, as in a 10:20 1 b fixed:100/1m 1", count)
	case n > maxLegs:
		return fmt.Errorf("%d keys: expected at most %d", n, maxLegs)
	}
	for i := range n {
		if err := c.add(s, args[i*wordsPerLeg:]); err != nil {
			return fmt.Errorf("key %d: %w", i, err)
		}
	}
	return nil
}

// add reads one leg at the front of args.
func (c *legs) add(s *Session, args [][]byte) (err error) {
	l := leg{key: args[0]}
	if len(l.key) > shard.MaxKeyBytes {
		return fmt.Errorf("the key is %d bytes long: expected at most %d", len(l.key), shard.MaxKeyBytes)
	}
	for _, other := range c.keys {
		if bytes.Equal(other, l.key) {
			return fmt.Errorf("%.64q is given twice, and a key has one state: use two keys, one for each limit", l.key)
		}
	}
	if !oneArgument(args[1]) {
		return fmt.Errorf("limit %.64q: expected one argument, as in 10:20, fixed:100/1m or @name", args[1])
	}
	if l.lim, err = s.oneLimit(args[1]); err != nil {
		return err
	}
	if l.cost, err = engine.ParseTokens("cost", args[2]); err != nil {
		return err
	}
	c.list, c.keys = append(c.list, l), append(c.keys, l.key)
	return nil
}

// decide asks each leg by itself and writes nothing. fault is an error line.
func (c *legs) decide(s *Session, tx *shard.Tx, now int64) (fault string) {
	for i := range c.list {
		l := &c.list[i]
		if l.old, fault = s.entryFor(tx, l.key, &l.lim); fault != "" {
			return fault
		}
		state, d, err := s.acquire(c.states, &l.lim, l.old, now, engine.Op{Cost: l.cost})
		if err != nil {
			return legFault(i, err)
		}
		l.d, l.from, l.to = d, len(c.states), len(c.states)
		if state != nil {
			l.to, c.states = len(state), state
		}
	}
	return ""
}

func legFault(i int, err error) string { return fmt.Sprintf("ERR key %d: %v", i, err) }

// binding says which leg holds the call up and for how long: one that can never
// pass before any other, else the one that waits longest, of several the first.
func (c *legs) binding() (retry int64, index int) {
	index = -1
	for i := range c.list {
		switch d := &c.list[i].d; {
		case d.Allowed != 0:
		case d.RetryAfter < 0:
			return d.RetryAfter, i
		case index < 0 || d.RetryAfter > retry:
			retry, index = d.RetryAfter, i
		}
	}
	return retry, index
}

// write stores what was decided. Nothing can fail any more.
func (c *legs) write(tx *shard.Tx) {
	for i := range c.list {
		if l := &c.list[i]; l.to > l.from {
			tx.Put(l.key, byte(l.lim.Algorithm), c.states[l.from:l.to], l.d.ResetAfter)
		}
	}
}

// lookAgain takes back the debits of a call that another leg denied: each leg
// is told what is there.
func (c *legs) lookAgain(s *Session, now int64) (fault string) {
	for i := range c.list {
		l := &c.list[i]
		if l.to == l.from {
			continue
		}
		var err error
		if l.d, err = s.peek(&l.lim, l.old, now, l.cost); err != nil {
			return legFault(i, err)
		}
	}
	return ""
}

// answer counts the call as one decision.
func (c *legs) answer(s *Session, retry int64, binding int) {
	allowed := int64(0)
	if binding < 0 {
		allowed = 1
		s.run.allowed++
	} else {
		s.run.denied++
	}
	s.array(4)
	s.int(allowed)
	s.int(retry)
	s.int(int64(binding))
	s.array(len(c.list))
	for i := range c.list {
		s.decision(c.list[i].d)
	}
}
