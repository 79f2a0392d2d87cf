package resp

import "github.com/rlserver/rlserver/engine"

// OBJECT, MEMORY USAGE and TOUCH: what operators' tools ask about keys.

func objectRows() []*command {
	look := func(name, summary, reply string, run func(*Session, [][]byte)) *command {
		return &command{name: name, arity: 3, flags: flagRead, first: 2, last: 2, step: 1, touch: touchLook, summary: summary, complexity: "O(1)",
			reply: reply, run: run, args: []arg{argKey}}
	}
	about := func() *command {
		return &command{name: "help", arity: 2, flags: flagLoading | flagStale, summary: "This list.", reply: "array", run: help}
	}
	return []*command{
		{name: "object", arity: -2, group: "generic", summary: "How a key is kept.", reply: "any", run: help,
			subs: []*command{
				look("encoding", "How the value is encoded: a bucket as a small hash is, listpack; a window raw, as the value of a module. Null if the key is absent.", "bulk?", objectEncoding),
				look("refcount", "1. Null if the key is absent.", "integer?", objectRefCount),
				look("idletime", "Seconds since the key was last written. Null if it is absent.", "integer?", objectIdleTime),
				look("freq", "An error, as in Redis without an LFU policy: how often a key is used is not tracked here.", "integer?", objectFreq),
				about(),
			}},
		{name: "memory", arity: -2, group: "server", summary: "What keys take.", reply: "any", run: help,
			subs: []*command{
				{name: "usage", arity: -3, flags: flagRead, first: 2, last: 2, step: 1, touch: touchLook, complexity: "O(1)", reply: "integer?", run: memoryUsage,
					summary: "Bytes that a key takes with its value and its share of the index. Null if it is absent.",
					args:    []arg{argKey, {name: "count", kind: "integer", token: "SAMPLES", optional: true}}},
				about(),
			}},
		{name: "touch", arity: -2, flags: flagRead | flagFast, first: 1, last: -1, step: 1, touch: touchLook, group: "generic",
			summary: "How many of the keys exist: the same as EXISTS.", complexity: "O(N) with N keys", reply: "integer", run: exists, args: []arg{argKeys}},
	}
}

// objectEncoding is OBJECT ENCODING key.
func objectEncoding(s *Session, args [][]byte) {
	tx := s.lock(args[2])
	defer s.unlock(&tx)
	switch e, found := tx.Get(args[2]); {
	case !found:
		s.null()
	case e.Kind == byte(engine.Bucket):
		s.text("listpack")
	default:
		s.text("raw")
	}
}

// objectRefCount is OBJECT REFCOUNT key.
func objectRefCount(s *Session, args [][]byte) {
	tx := s.lock(args[2])
	defer s.unlock(&tx)
	if _, found := tx.Get(args[2]); !found {
		s.null()
		return
	}
	s.int(1)
}

// objectIdleTime is OBJECT IDLETIME key. Reads leave no trace here, so it goes
// by the time that the state carries; a caller's clock may be ahead.
func objectIdleTime(s *Session, args [][]byte) {
	tx := s.lock(args[2])
	defer s.unlock(&tx)
	e, found := tx.Get(args[2])
	if !found {
		s.null()
		return
	}
	info, err := engine.Inspect(e.Value)
	if err != nil {
		s.failWith(err)
		return
	}
	s.int(max(s.now-info.TS, 0) / msPerSecond)
}

// objectFreq is OBJECT FREQ key.
func objectFreq(s *Session, args [][]byte) {
	tx := s.lock(args[2])
	defer s.unlock(&tx)
	if _, found := tx.Get(args[2]); !found {
		s.null()
		return
	}
	s.fail(errNoFreq)
}

// memoryUsage is MEMORY USAGE key [SAMPLES count]; there is nothing to sample.
func memoryUsage(s *Session, args [][]byte) {
	for words := args[3:]; len(words) > 0; words = words[2:] {
		if !equalFold(words[0], "samples") || len(words) < 2 {
			s.fail(errSyntax)
			return
		}
		if n, ok := parseInt(words[1]); !ok {
			s.fail(errNotInteger)
			return
		} else if n < 0 {
			s.fail(errSyntax)
			return
		}
	}
	tx := s.lock(args[2])
	defer s.unlock(&tx)
	n, found := tx.Bytes(args[2])
	if !found {
		s.null()
		return
	}
	s.int(int64(n))
}
