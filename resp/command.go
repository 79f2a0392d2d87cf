package resp

import "slices"

// flag is a property of a command, as COMMAND shows it.
type flag uint32

const (
	flagWrite    flag = 1 << iota // may change a key
	flagRead                      // reads keys, never changes any
	flagDenyOOM                   // may need memory: refused when maxmemory is reached
	flagAdmin                     // for operators
	flagNoAuth                    // allowed before AUTH
	flagLoading                   // allowed while the data is being loaded
	flagStale                     // allowed on a replica that lost its primary
	flagFast                      // constant work per key
	flagLimiter                   // works on limits
	flagDecides                   // debits: its answers are counted as decisions
	flagMovable                   // where the keys are depends on the arguments
	flagAllKeys                   // a call that names no key reaches all of them
	flagWhole                     // locks all keys there are
	flagAtOnce                    // is not queued inside MULTI
	flagNoMulti                   // is refused inside MULTI
	flagSkipSlow                  // the slow log leaves it out
)

// flagWords are Redis's names in COMMAND's order. The flags without one are
// ours alone.
var flagWords = []struct {
	flag flag
	word string
}{
	{flagWrite, "write"}, {flagRead, "readonly"}, {flagDenyOOM, "denyoom"}, {flagAdmin, "admin"},
	{flagLoading, "loading"}, {flagStale, "stale"}, {flagSkipSlow, "skip_slowlog"}, {flagFast, "fast"}, {flagNoAuth, "no_auth"},
	{flagNoMulti, "no_multi"}, {flagMovable, "movablekeys"},
}

// arg is one argument of a command as COMMAND DOCS and commands.md show it.
type arg struct {
	name     string
	kind     string // key, string, integer, pattern, pure-token, oneof, block
	token    string // word before the value
	optional bool
	multiple bool
	sub      []arg // of a oneof or a block
}

// command is a row of the table: everything that is said about a command is
// said here, and COMMAND, arity errors, commands.md and the tests derive from it.
type command struct {
	name       string // lower case; of a subcommand only its own word
	arity      int    // words with the name; negative = at least that many
	flags      flag
	first      int // position of the first key, 0 = none
	last       int // of the last one, -1 = the last argument
	step       int
	keysOf     func(args [][]byte) []int // where the keys are, if that depends on the arguments
	touch      touch                     // what is done to the keys, if the flags do not tell
	notInMulti func(args [][]byte) bool  // which calls are refused inside MULTI; nil = none, but for flagNoMulti
	group      string
	also       []string // ACL categories that neither group nor flags tell, without @; of a subcommand its command's too
	summary    string
	complexity string
	args       []arg
	reply      string // declared reply, see replyKinds in the transcripts' runner
	run        func(s *Session, args [][]byte)
	subs       []*command

	full   string // "client|id"; set by newTable
	index  int    // place in the counters and in users' rights; set by newTable
	access access // that a user needs to the keys; set by newTable
}

// touch is what a command does to the keys it names.
type touch byte

const (
	touchByFlags touch = iota // reads them, or with flagWrite reads and changes them
	touchDelete               // deletes them and tells nothing of what was in them
	touchLook                 // tells whether and what they are, and nothing of what is in them
)

// touches are the words of COMMAND's key specs for what is done to the keys,
// and what a user must be allowed for it, as Redis has it: whoever may do
// anything with a key may know that it is there.
func (c *command) touches() (words []string, need access) {
	switch {
	case c.touch == touchDelete:
		return []string{"RM", "delete"}, accessWrite
	case c.touch == touchLook:
		return []string{"RO"}, 0
	case c.flags&flagWrite != 0:
		return []string{"RW", "access", "update"}, accessAll
	}
	return []string{"RO", "access"}, accessRead
}

// table is the command table with its lookups.
type table struct {
	rows   []*command
	byName map[string]*command
	count  int // commands and subcommands
}

// newTable completes the rows. It is a function, not a package variable,
// because COMMAND's own handler reads the table.
func newTable(rows []*command) *table {
	t := &table{byName: make(map[string]*command, len(rows))}
	slices.SortFunc(rows, func(a, b *command) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	for _, c := range rows {
		c.full = c.name
		t.add(c)
		t.rows = append(t.rows, c)
		t.byName[c.name] = c
		for _, sub := range c.subs {
			sub.full, sub.group = c.name+"|"+sub.name, c.group
			sub.also = append(sub.also, c.also...)
			t.add(sub)
		}
	}
	return t
}

func (t *table) add(c *command) {
	c.index = t.count
	t.count++
	_, c.access = c.touches()
}

// maxNameBytes bounds a command's name: longer ones are unknown.
const maxNameBytes = 32

// lookup finds a command by its name in any letter case, without allocating.
func (t *table) lookup(name []byte) *command {
	var buf [maxNameBytes]byte
	n, ok := lower(buf[:], name)
	if !ok {
		return nil
	}
	return t.byName[string(buf[:n])]
}

// lower copies name to buf in lower case; false if it does not fit.
func lower(buf, name []byte) (int, bool) {
	if len(name) > len(buf) {
		return 0, false
	}
	for i, ch := range name {
		if ch >= 'A' && ch <= 'Z' {
			ch |= 0x20
		}
		buf[i] = ch
	}
	return len(name), true
}

// sub finds a subcommand by its word in any letter case.
func (c *command) sub(word []byte) *command {
	for _, sub := range c.subs {
		if equalFold(word, sub.name) {
			return sub
		}
	}
	return nil
}

// equalFold compares an argument with a lower-case ASCII word.
func equalFold(arg []byte, word string) bool {
	if len(arg) != len(word) {
		return false
	}
	for i, ch := range arg {
		if ch >= 'A' && ch <= 'Z' {
			ch |= 0x20
		}
		if ch != word[i] {
			return false
		}
	}
	return true
}

// arityFits says whether a command may have n words.
func (c *command) arityFits(n int) bool {
	return n == c.arity || c.arity < 0 && n >= -c.arity
}

// keys returns the positions of the keys in args.
func (c *command) keys(args [][]byte) []int {
	if c.keysOf != nil {
		return c.keysOf(args)
	}
	if c.first == 0 {
		return nil
	}
	var at []int
	first, last, step := c.span(len(args))
	for i := first; i <= last; i += step {
		at = append(at, i)
	}
	return at
}

// appendKeys adds the keys in args to a list.
func (c *command) appendKeys(keys, args [][]byte) [][]byte {
	if c.keysOf != nil {
		for _, i := range c.keysOf(args) {
			keys = append(keys, args[i])
		}
		return keys
	}
	if c.first == 0 {
		return keys
	}
	first, last, step := c.span(len(args))
	for i := first; i <= last; i += step {
		keys = append(keys, args[i])
	}
	return keys
}

// fewWords is how many words a command may have that works in a moment.
const fewWords = 64

// lengthy says whether a call of so many words may take long: if it concerns
// many keys, or if it is not about keys and not quick.
func (c *command) lengthy(words int) bool {
	return words > fewWords || c.first == 0 && c.flags&flagFast == 0
}

// span is where the keys are in a call of n words, if the row says where.
func (c *command) span(n int) (first, last, step int) {
	last = c.last
	if last < 0 {
		last += n
	}
	return c.first, min(last, n-1), c.step
}

// flagNames are the flags as COMMAND shows them.
func (c *command) flagNames() []string {
	var names []string
	for _, f := range flagWords {
		if c.flags&f.flag != 0 {
			names = append(names, f.word)
		}
	}
	return names
}
