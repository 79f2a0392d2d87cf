package resp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/rlserver/rlserver/shard"
	"github.com/tidwall/redcon"
)

// SCAN, KEYS and RANDOMKEY.

const (
	scanCount     = 10        // keys that a SCAN without COUNT looks at
	scanPages     = 100       // pages that it looks at for each of COUNT, most of them empty
	scanReplySize = 256 << 10 // bytes of a SCAN's reply after which it goes no further, whatever COUNT says
	keysReplySize = 16 << 20  // bytes of a KEYS' reply; more is an error
)

func scanRows() []*command {
	pattern := arg{name: "pattern", kind: "pattern"}
	return []*command{
		{name: "scan", arity: -2, flags: flagRead | flagAllKeys | flagWhole, touch: touchLook, group: "generic",
			summary: "Some keys, and the cursor for the next ones; begin with 0 and go on until it is 0 again. A key that is there from the beginning to the end is told, and none twice. " +
				"COUNT is about how many keys are looked at; MATCH and TYPE choose among those.",
			complexity: "O(COUNT)", reply: "array", run: scan,
			args: []arg{{name: "cursor", kind: "integer"}, {name: "pattern", kind: "pattern", token: "MATCH", optional: true},
				{name: "count", kind: "integer", token: "COUNT", optional: true}, {name: "type", kind: "string", token: "TYPE", optional: true}}},
		{name: "keys", arity: 2, flags: flagRead | flagAllKeys | flagWhole, touch: touchLook, group: "generic", also: []string{"dangerous"},
			summary:    "All keys that match a pattern: * any text, ? one character, [a-c], and \\ before a character meant as itself. Others are served meanwhile. SCAN is for many.",
			complexity: "O(N) with N keys in all", reply: "array", run: keys, args: []arg{pattern}},
		{name: "randomkey", arity: 1, flags: flagRead | flagAllKeys | flagWhole, touch: touchLook, group: "generic",
			summary: "Any key, each about as likely; null if there is none.", complexity: "O(1)", reply: "bulk?", run: randomKey},
	}
}

// scanCall is a SCAN under way.
type scanCall struct {
	tour
	typ    []byte // nil = any
	count  int    // how much is to be looked at
	found  int
	listed []byte // those found, as they go out
}

// parseScan reads cursor [MATCH pattern] [COUNT n] [TYPE type]. fault is an
// error line.
func (s *Session) parseScan(args [][]byte) (c *scanCall, fault string) {
	place, ok := parseCursor(args[1])
	if !ok {
		return nil, errCursor
	}
	pattern, count := []byte("*"), int64(scanCount)
	var typ []byte
	for words := args[2:]; len(words) > 0; words = words[2:] {
		switch {
		case len(words) < 2:
			return nil, errSyntax
		case equalFold(words[0], "match"):
			pattern = words[1]
		case equalFold(words[0], "type"):
			typ = bytes.ToLower(words[1])
		case !equalFold(words[0], "count"):
			return nil, errSyntax
		default:
			if count, ok = parseInt(words[1]); !ok {
				return nil, errNotInteger
			}
			if count < 1 {
				return nil, errSyntax
			}
		}
	}
	if len(pattern) > maxPattern {
		return nil, patternTooLong(pattern, maxPattern)
	}
	c = &scanCall{tour: s.newTour(pattern, args), typ: typ, count: int(min(count, 1<<30))}
	c.place = place
	return c, ""
}

// parseCursor reads a cursor in the forms that Redis takes, which are those of
// C's strtoul.
func parseCursor(b []byte) (place uint64, ok bool) {
	if len(b) == 0 {
		return 0, true
	}
	if b[0] == '+' {
		b = b[1:]
	}
	if len(b) > 0 && b[0] == '-' {
		_, err := strconv.ParseInt(string(b), 10, 64)
		return 1<<64 - 1, err == nil // there is no such place
	}
	place, err := strconv.ParseUint(string(b), 10, 64)
	return place, err == nil
}

func patternTooLong(pattern []byte, most int) string {
	return fmt.Sprintf("ERR the pattern is %d bytes long: expected at most %d", len(pattern), most)
}

// scan is SCAN cursor [MATCH pattern] [COUNT n] [TYPE type].
func scan(s *Session, args [][]byte) {
	c, fault := s.parseScan(args)
	if fault != "" {
		s.fail(fault)
		return
	}
	s.inTurns(c.step)
}

// step does a turn and answers after the last one.
func (c *scanCall) step(s *Session) (done bool) {
	done = c.turn(s, func(key shard.Key) {
		if c.typ == nil || typeName(key.Kind) == string(c.typ) {
			c.found++
			c.listed = redcon.AppendBulk(c.listed, key.Name)
		}
	}, func() bool {
		return c.keys >= c.count || c.pages/scanPages >= c.count || len(c.listed) >= scanReplySize
	})
	if s.touring = cap(c.listed); done {
		s.touring = 0
	}
	switch {
	case !done:
	case c.tooMuch:
		s.fail(errExecLooks)
	default:
		s.array(2)
		s.text(strconv.FormatUint(c.place, 10))
		s.array(c.found)
		s.out = append(s.out, c.listed...)
	}
	return done
}

// keysCall is a KEYS under way.
type keysCall struct {
	tour
	found  int
	listed []byte
}

// keys is KEYS pattern.
func keys(s *Session, args [][]byte) {
	if len(args[1]) > maxPattern {
		s.fail(patternTooLong(args[1], maxPattern))
		return
	}
	c := &keysCall{tour: s.newTour(args[1], args)}
	s.inTurns(c.step)
}

func (c *keysCall) step(s *Session) (done bool) {
	tooBig := func() bool { return len(c.listed) > keysReplySize }
	done = c.turn(s, func(key shard.Key) {
		c.found++
		c.listed = redcon.AppendBulk(c.listed, key.Name)
	}, tooBig)
	if s.touring = cap(c.listed); done {
		s.touring = 0
	}
	switch {
	case !done:
	case c.tooMuch:
		s.fail(errExecLooks)
	case tooBig():
		s.fail(fmt.Sprintf("ERR the keys that match take more than %d bytes: SCAN tells them in parts", keysReplySize))
	default:
		s.array(c.found)
		s.out = append(s.out, c.listed...)
	}
	return done
}

// randomKeyCall is a RANDOMKEY under way: from any place to the end, and if that
// has no key, from the beginning.
type randomKeyCall struct {
	tour
	again bool
	found int
	key   []byte
}

// randomKey is RANDOMKEY.
func randomKey(s *Session, args [][]byte) {
	c := &randomKeyCall{tour: s.newTour([]byte("*"), args)}
	c.place = s.randomPlace(rand.Uint64())
	s.inTurns(c.step)
}

func (c *randomKeyCall) step(s *Session) (done bool) {
	done = c.turn(s, func(key shard.Key) {
		if c.found++; rand.IntN(c.found) == 0 { // so each of the page is as likely
			c.key = append(c.key[:0], key.Name...)
		}
	}, func() bool { return c.found > 0 })
	switch {
	case !done:
	case c.tooMuch:
		s.fail(errExecLooks)
	case c.found > 0:
		s.bulk(c.key)
	case c.again:
		s.null()
	default:
		c.again, c.last, c.place = true, false, 0
		return false
	}
	return done
}
