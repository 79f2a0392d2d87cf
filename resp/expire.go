package resp

import (
	"fmt"
	"math"
)

// EXPIRE and its kin. How long a limiter's key is kept follows from its state,
// so nobody sets it: they read their arguments as Redis does, and answer 0, as
// for a key that is not there.

func expireRows() []*command {
	row := func(name, summary, unit string, scale int64, at bool) *command {
		return &command{name: name, arity: -3, flags: flagRead | flagFast, first: 1, last: 1, step: 1, group: "generic",
			summary: summary, complexity: "O(1)", reply: "integer", run: expire(name, scale, at),
			args: []arg{argKey, {name: unit, kind: "integer"}, {name: "condition", kind: "oneof", optional: true, sub: []arg{
				{name: "nx", kind: "pure-token", token: "NX"}, {name: "xx", kind: "pure-token", token: "XX"},
				{name: "gt", kind: "pure-token", token: "GT"}, {name: "lt", kind: "pure-token", token: "LT"}}}}}
	}
	read := func(name, summary string, run func(*Session, [][]byte)) *command {
		return &command{name: name, arity: 2, flags: flagRead | flagFast, first: 1, last: 1, step: 1, group: "generic",
			summary: summary, complexity: "O(1)", reply: "integer", run: run, args: []arg{argKey}}
	}
	return []*command{
		row("expire", "For drivers that send it: 0, since a limiter's key lives as long as its state says something.", "seconds", msPerSecond, false),
		row("pexpire", "The same as EXPIRE in ms.", "milliseconds", 1, false),
		row("expireat", "The same as EXPIRE with a Unix time.", "unix-time-seconds", msPerSecond, true),
		row("pexpireat", "The same as EXPIRE with a Unix time in ms.", "unix-time-milliseconds", 1, true),
		read("persist", "For drivers that send it: 0, since a limiter's key always has its time.", persist),
		read("expiretime", "The Unix second at which the server looks whether the key can be dropped; -2 if it is absent.", expireTime),
		read("pexpiretime", "The same as EXPIRETIME in ms.", pexpireTime),
	}
}

// expire is EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT key time [NX|XX|GT|LT].
// scale is the ms of the unit; at says that the time counts from 1970.
func expire(name string, scale int64, at bool) func(*Session, [][]byte) {
	return func(s *Session, args [][]byte) {
		if fault := expireConditions(args[3:]); fault != "" {
			s.fail(fault)
			return
		}
		when, ok := parseInt(args[2])
		if !ok {
			s.fail(errNotInteger)
			return
		}
		base := s.now
		if at {
			base = 0
		}
		if when > math.MaxInt64/scale || when < math.MinInt64/scale || when*scale > math.MaxInt64-base {
			s.fail("ERR invalid expire time in '" + name + "' command")
			return
		}
		s.int(0)
	}
}

// expireConditions reads the words after the time. fault is an error line.
func expireConditions(words [][]byte) (fault string) {
	var nx, xx, gt, lt bool
	for _, w := range words {
		switch {
		case equalFold(w, "nx"):
			nx = true
		case equalFold(w, "xx"):
			xx = true
		case equalFold(w, "gt"):
			gt = true
		case equalFold(w, "lt"):
			lt = true
		default:
			return fmt.Sprintf("ERR Unsupported option %.128s", w)
		}
	}
	switch {
	case nx && (xx || gt || lt):
		return errExpireNX
	case gt && lt:
		return errExpireGTLT
	}
	return ""
}

// persist is PERSIST key.
func persist(s *Session, args [][]byte) { s.int(0) }

// expireTime is EXPIRETIME key, in seconds rounded as Redis does.
func expireTime(s *Session, args [][]byte) {
	if ms, found := s.remaining(args[1]); found {
		s.int((s.now + ms + 500) / 1000)
	}
}

// pexpireTime is PEXPIRETIME key.
func pexpireTime(s *Session, args [][]byte) {
	if ms, found := s.remaining(args[1]); found {
		s.int(s.now + ms)
	}
}
