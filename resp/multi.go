package resp

import (
	"fmt"
	"strings"
	"unsafe"
)

// MULTI and DISCARD: a transaction is a queue of commands that EXEC runs
// together, see exec.go.

// Bounds of a transaction. EXEC does not let others in between, so they are
// also bounds of how long it holds them up.
const (
	maxQueued      = 4096    // commands
	maxQueuedWords = 16384   // words of all of them: one may name thousands of keys
	maxQueuedBytes = 1 << 20 // what they keep, arguments and their slices
)

func multiRows() []*command {
	row := func(name, summary string, flags flag, reply string, run func(*Session, [][]byte)) *command {
		return &command{name: name, arity: 1, flags: flagLoading | flagStale | flags, group: "transactions",
			summary: summary, reply: reply, run: run}
	}
	return []*command{
		row("multi", "Starts a transaction: the commands that follow are queued until EXEC.", flagFast|flagAtOnce, "ok", multi),
		row("exec", "Runs the queued commands as one: nobody else's command comes between those that work on keys or limits, and a crash keeps all they changed or nothing. "+
			"What an error or a denial in one of them means for the others is the caller's business: nothing is taken back. "+
			"Null if a watched key has changed.", flagAtOnce|flagSkipSlow, "array?", execMulti),
		row("discard", "Forgets the transaction and ends all watches.", flagFast|flagAtOnce, "ok", discard),
		{name: "watch", arity: -2, flags: flagRead | flagLoading | flagStale | flagFast | flagAtOnce, first: 1, last: -1, step: 1, touch: touchLook,
			group:      "transactions",
			summary:    "The next EXEC does nothing if one of these keys has changed by then: written, with the same value too, deleted, or dropped by the clock.",
			complexity: "O(N) with N keys", reply: "ok", run: watch, args: []arg{argKeys}},
		row("unwatch", "Ends all watches.", flagFast, "ok", unwatch),
	}
}

// transaction is what MULTI began.
type transaction struct {
	queue   []queuedCall
	words   int  // of the commands in the queue
	bytes   int  // that the queue keeps
	whole   bool // a command in it concerns all keys
	writes  bool // a command in it may change keys
	spoiled bool // a command was refused: EXEC will run none
	taken   bool // the command at hand was queued
}

// queuedCall is a command with its arguments, copied from the input.
type queuedCall struct {
	cmd  *command
	args [][]byte
}

// judge spoils the transaction when the command at hand was refused, whoever
// refused it: it was neither run nor queued. EXEC itself then ends it, and says
// so.
func (s *Session) judge() {
	m := s.multi
	refused := s.run.args == nil && !m.taken
	if m.taken = false; !refused {
		return
	}
	m.spoiled = true
	m.queue, m.words, m.bytes = nil, 0, 0
	if s.cmd != nil && s.cmd.name == "exec" && s.act == actionNone {
		reason := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(string(s.out[s.mark:]), "\r\n"), "-"), "ERR ")
		s.out = appendError(s.out[:s.mark], "EXECABORT Transaction discarded because of: "+reason)
		s.endMulti()
	}
}

// enqueue puts a command off until EXEC.
func (s *Session) enqueue(c *command, args [][]byte) {
	m := s.multi
	size := int(unsafe.Sizeof(queuedCall{}))
	for _, a := range args {
		size += len(a) + int(unsafe.Sizeof(a))
	}
	switch {
	case c.flags&flagNoMulti != 0:
		s.fail(errNoMulti)
		return
	case c.notInMulti != nil && c.notInMulti(args):
		s.fail(errNoResetMatch)
		return
	case len(m.queue) >= maxQueued:
		s.fail(fmt.Sprintf("ERR the transaction has %d commands: expected at most that many", maxQueued))
		return
	case m.words+len(args) > maxQueuedWords:
		s.fail(fmt.Sprintf("ERR the transaction has more than %d words: expected fewer or shorter commands", maxQueuedWords))
		return
	case m.bytes+size > maxQueuedBytes:
		s.fail(fmt.Sprintf("ERR the transaction takes more than %d bytes: expected fewer or shorter commands", maxQueuedBytes))
		return
	}
	m.taken = true
	if !m.spoiled {
		m.words += len(args)
		m.bytes += size
		m.whole = m.whole || c.flags&flagWhole != 0
		m.writes = m.writes || c.flags&flagWrite != 0
		m.queue = append(m.queue, queuedCall{c, cloneArgs(args)})
	}
	s.putOff()
	s.out = append(s.out, "+QUEUED\r\n"...)
}

// multi is MULTI.
func multi(s *Session, args [][]byte) {
	if s.multi != nil {
		s.fail(errNested)
		return
	}
	s.multi = &transaction{}
	s.ok()
}

// discard is DISCARD.
func discard(s *Session, args [][]byte) {
	if s.multi == nil {
		s.fail(errNoDiscard)
		return
	}
	s.endMulti()
	s.ok()
}

// endMulti forgets the transaction and ends all watches.
func (s *Session) endMulti() {
	s.multi = nil
	s.endWatches()
}
