package resp

import (
	"bytes"
	"fmt"
	"sync"
)

// SLOWLOG: the last commands that took longer than slowlog-log-slower-than. The
// time is that of a command's account (see begin and lap), so that nothing is
// measured for it; of a command that works in turns it is that of all turns.

// Bounds of an entry, as Redis has them.
const (
	slowArgs     = 32  // arguments kept, the last of them says how many more there were
	slowArgBytes = 128 // of one argument
	slowShown    = 10  // entries that SLOWLOG GET tells without a count
)

// slowLog keeps the newest entries. It is safe for concurrent use.
type slowLog struct {
	mu   sync.Mutex
	next int64       // number of the next entry
	list []slowEntry // oldest first
}

// slowEntry is a command that took long.
type slowEntry struct {
	id, at, us int64 // Unix s when it began, and how long it took
	args       []string
	addr, name string // of the client
}

// add keeps a command that took ns if that is long. Commands that were refused
// have no arguments here.
func (l *slowLog) add(s *Session, c *command, args [][]byte, ns int64) {
	if ns < int64(s.conf.SlowerThan) || len(args) == 0 || c.flags&flagSkipSlow != 0 {
		return
	}
	e := slowEntry{at: s.now / msPerSecond, us: ns / 1000, args: slowWords(c, args), addr: s.addr, name: s.name}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.id = l.next
	l.next++
	l.list = append(l.list, e)
	l.cut(s.conf.SlowLogLen)
}

// trim keeps only the newest entries.
func (l *slowLog) trim(most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut(most)
}

func (l *slowLog) cut(most int) {
	if over := len(l.list) - most; over > 0 {
		clear(l.list[:over])
		l.list = l.list[over:]
	}
}

// slowWords are a command's arguments as the log keeps them: not too many, none
// too long, and without secrets.
func slowWords(c *command, args [][]byte) (words []string) {
	secret := secretsOf(c, args)
	for i, a := range args {
		switch {
		case i == slowArgs-1 && len(args) > slowArgs:
			return append(words, fmt.Sprintf("... (%d more arguments)", len(args)-i))
		case secret(i):
			words = append(words, "(redacted)")
		case len(a) > slowArgBytes:
			words = append(words, fmt.Sprintf("%s... (%d more bytes)", a[:slowArgBytes], len(a)-slowArgBytes))
		default:
			words = append(words, string(a))
		}
	}
	return words
}

// secretsOf says which arguments of a command are not to be shown: passwords,
// and names that may be one by mistake.
func secretsOf(c *command, args [][]byte) func(i int) bool {
	switch c.full {
	case "auth":
		return func(i int) bool { return i > 0 }
	case "hello":
		return func(i int) bool {
			return i > 1 && !equalFold(args[i], "auth") && !equalFold(args[i], "setname") && !equalFold(args[i-1], "setname")
		}
	case "config|set":
		return func(i int) bool {
			return i > 2 && i%2 == 1 && (bytes.Contains(bytes.ToLower(args[i-1]), []byte("pass")) || bytes.HasSuffix(bytes.ToLower(args[i-1]), []byte("auth")))
		}
	case "acl|setuser":
		return func(i int) bool { return i > 2 } // a password may have lost its sign
	}
	return func(int) bool { return false }
}

func slowLogRows() []*command {
	return []*command{
		{name: "slowlog", arity: -2, group: "server", summary: "The last commands that took longer than slowlog-log-slower-than.", reply: "any", run: help,
			subs: []*command{
				{name: "get", arity: -2, flags: flagAdmin | flagLoading | flagStale, complexity: "O(N) with N entries", reply: "array", run: slowLogGet,
					summary: "The newest entries, 10 or so many (-1: all): number, Unix time, microseconds, arguments, client address, client name.",
					args:    []arg{{name: "count", kind: "integer", optional: true}}},
				{name: "len", arity: 2, flags: flagAdmin | flagLoading | flagStale, complexity: "O(1)", reply: "integer", run: slowLogLen,
					summary: "How many entries there are."},
				{name: "reset", arity: 2, flags: flagAdmin | flagLoading | flagStale, complexity: "O(N) with N entries", reply: "ok", run: slowLogReset,
					summary: "Forgets all entries."},
				{name: "help", arity: 2, flags: flagLoading | flagStale, summary: "This list.", reply: "array", run: help},
			}},
	}
}

// slowLogGet is SLOWLOG GET [count].
func slowLogGet(s *Session, args [][]byte) {
	count := int64(slowShown)
	switch len(args) {
	case 2:
	case 3:
		var ok bool
		if count, ok = parseInt(args[2]); !ok || count < -1 {
			s.fail(errSlowCount)
			return
		}
	default:
		s.fail("ERR wrong number of arguments for 'slowlog|get' command")
		return
	}
	list := s.srv.slow.newest(count)
	s.array(len(list))
	s.each(len(list), args, func(i int, _ [][]byte) {
		e := &list[len(list)-1-i]
		s.array(6)
		s.int(e.id)
		s.int(e.at)
		s.int(e.us)
		s.array(len(e.args))
		for _, a := range e.args {
			s.text(a)
		}
		s.text(e.addr)
		s.text(e.name)
	})
}

// newest is the last count entries, oldest first; all of them for -1.
func (l *slowLog) newest(count int64) []slowEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := int64(len(l.list))
	if count >= 0 && count < n {
		n = count
	}
	return append([]slowEntry(nil), l.list[int64(len(l.list))-n:]...)
}

// slowLogLen is SLOWLOG LEN.
func slowLogLen(s *Session, args [][]byte) {
	l := &s.srv.slow
	l.mu.Lock()
	defer l.mu.Unlock()
	s.int(int64(len(l.list)))
}

// slowLogReset is SLOWLOG RESET. Numbers go on.
func slowLogReset(s *Session, args [][]byte) {
	s.srv.slow.mu.Lock()
	s.srv.slow.list = nil
	s.srv.slow.mu.Unlock()
	s.ok()
}
