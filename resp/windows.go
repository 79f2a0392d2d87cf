package resp

import (
	"bytes"
	"fmt"

	"github.com/rlserver/rlserver/engine"
)

// The windows by name: RL.FIXED, RL.SLIDING and RL.LOG. They are RL.ACQUIRE with
// fixed:N/window and its kin, for people at redis-cli.

func windowRows() []*command {
	row := func(a engine.Algorithm, summary, complexity string, more ...arg) *command {
		return &command{name: "rl." + a.String(), arity: -4, flags: flagWrite | flagDenyOOM | flagFast | flagLimiter | flagDecides,
			first: 1, last: 1, step: 1, group: "limiter", summary: summary, complexity: complexity, reply: "decision", run: windowAcquire(a),
			args: append([]arg{argKey, {name: "limit", kind: "integer"}, {name: "window", kind: "string"}, argNow, argCost}, more...)}
	}
	return []*command{
		row(engine.Fixed, "At most limit in a window that the first call opens, or with ALIGN in each of those that follow one another since 1970. "+
			"Around the end of a window twice the limit can pass within one window's time.", "O(1)", arg{name: "align", kind: "pure-token", token: "ALIGN", optional: true}),
		row(engine.Sliding, "At most limit in about any window: the calls of the window before count by the share of it that the last window's time still covers.", "O(1)"),
		row(engine.Log, "At most limit, which is at most 4096, in any window exactly: every call allowed is remembered with its time.", "O(N) with N calls remembered"),
	}
}

// windowArgs are the fields of a window's command after the key.
type windowArgs struct {
	lim   engine.Limit
	now   int64
	given bool
	cost  int64
}

var fixedOptions = optionSet{func(a []byte) bool { return isCost(a) || equalFold(a, "align") }, "COST n or ALIGN"}

// parseWindow reads limit window [now] [COST n] [ALIGN].
func parseWindow(algorithm engine.Algorithm, args [][]byte) (w windowArgs, err error) {
	if w.lim, err = engine.ParseWindow(algorithm, args[0], args[1]); err != nil {
		return w, err
	}
	options := costOption
	if algorithm == engine.Fixed {
		options = fixedOptions
	}
	if w.now, w.given, args, err = nowArg(args[2:], options); err != nil {
		return w, err
	}
	w.cost = 1
	cost := false
	for len(args) > 0 {
		switch word := args[0]; {
		case isCost(word) && !cost:
			if len(args) < 2 {
				return w, fmt.Errorf("COST needs a value: expected how much the call counts, as in COST 5")
			}
			if w.cost, err = engine.ParseCost(args[1]); err != nil {
				return w, err
			}
			cost, args = true, args[2:]
		case equalFold(word, "align") && algorithm == engine.Fixed && !w.lim.Aligned:
			w.lim.Aligned, args = true, args[1:]
		case options.has(word):
			return w, fmt.Errorf("%s is given twice", bytes.ToUpper(word))
		default:
			return w, fmt.Errorf("unknown option %.64q: expected %s", word, options.words)
		}
	}
	return w, nil
}

// windowAcquire is RL.FIXED key limit window [now] [COST n] [ALIGN], RL.SLIDING
// and RL.LOG without ALIGN.
func windowAcquire(algorithm engine.Algorithm) func(*Session, [][]byte) {
	return func(s *Session, args [][]byte) {
		if !s.keyFits(args[1]) {
			return
		}
		w, err := parseWindow(algorithm, args[2:])
		if err != nil {
			s.failWith(err)
			return
		}
		if d, ok := s.take(args[1], &w.lim, s.callerNow(w.now, w.given), engine.Op{Cost: w.cost}); ok {
			s.decide(d)
		}
	}
}
