package resp

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/rlserver/rlserver/engine"
)

// CL.THROTTLE as redis-cell has it from 0.3.1 on, over our bucket.

const msPerSecond = 1000

func throttleRows() []*command {
	row := func(name, summary string) *command {
		return &command{name: name, arity: -5, flags: flagWrite | flagDenyOOM | flagFast | flagLimiter | flagDecides,
			first: 1, last: 1, step: 1, group: "limiter", summary: summary, complexity: "O(1)", reply: "throttle", run: clThrottle,
			args: []arg{argKey, {name: "max_burst", kind: "integer"}, {name: "count", kind: "integer"}, {name: "period", kind: "integer"},
				{name: "quantity", kind: "integer", optional: true}}}
	}
	return []*command{
		row("cl.throttle", "redis-cell's command: a bucket of max_burst + 1 tokens that gains count in each period of seconds. Times in the reply are seconds, rounded up. A quantity of 0 changes nothing; a negative one is an error."),
		row("rl.throttle", "The same as CL.THROTTLE."),
	}
}

// parseThrottle reads max_burst count period [quantity]: whole numbers, the
// period in seconds.
func parseThrottle(args [][]byte) (lim engine.Limit, quantity int64, err error) {
	quantity = 1
	if len(args) > 4 {
		return lim, 0, fmt.Errorf("unexpected argument %.64q: expected key max_burst count period [quantity]", args[4])
	}
	burst, err := engine.ParseTokens("max_burst", args[0])
	if err == nil && burst == math.MaxInt64 {
		err = fmt.Errorf("max_burst %s: expected at most %d", args[0], int64(math.MaxInt64-1))
	}
	if err != nil {
		return lim, 0, err
	}
	if err = positive("count", args[1]); err != nil {
		return lim, 0, err
	}
	if err = positive("period", args[2]); err != nil {
		return lim, 0, err
	}
	if len(args) == 4 {
		if quantity, err = engine.ParseTokens("quantity", args[3]); err != nil {
			return lim, 0, err
		}
	}
	lim, err = throttleLimit(burst+1, args[1], args[2])
	return lim, quantity, err
}

// positive says whether b is a whole number above 0.
func positive(name string, b []byte) error {
	if n, err := engine.ParseTokens(name, b); err != nil || n == 0 {
		return fmt.Errorf("%s %.64q: expected a whole number above 0, for example 60", name, b)
	}
	return nil
}

// throttleLimit is a bucket of so many tokens that gains count each period s.
// It goes by the text of a rate, so that the bounds and the lowest terms of a
// limit are known in one place.
func throttleLimit(burst int64, count, period []byte) (engine.Limit, error) {
	var rate, capacity [64]byte
	text := append(append(append(append(rate[:0], count...), '/'), period...), 's')
	lim, err := engine.ParseLimit(text, strconv.AppendInt(capacity[:0], burst, 10))
	if err == nil {
		return lim, nil
	}
	if bad := (*engine.ArgumentError)(nil); errors.As(err, &bad) {
		if bad.Argument == "burst" {
			return lim, fmt.Errorf("max_burst %d: expected, with the one more that it allows, %s", burst-1, bad.Want)
		}
		return lim, fmt.Errorf("period %.64q: expected seconds above 0, at most 11574 days", period)
	}
	return lim, err
}

// clThrottle is CL.THROTTLE key max_burst count period [quantity]. The time is
// always the server's.
func clThrottle(s *Session, args [][]byte) {
	key := args[1]
	if !s.keyFits(key) {
		return
	}
	lim, quantity, err := parseThrottle(args[2:])
	if err != nil {
		s.failWith(err)
		return
	}
	if d, ok := s.take(key, &lim, s.now, engine.Op{Cost: quantity}); ok {
		s.throttled(d)
	}
}

// throttled answers and counts a decision in redis-cell's way: what is 1 for us
// is 0 for it, and the wait of an allowed call is -1.
func (s *Session) throttled(d engine.Decision) {
	limited, retry := int64(0), int64(-1)
	if d.Allowed > 0 {
		s.run.allowed++
	} else {
		s.run.denied++
		limited, retry = 1, seconds(d.RetryAfter)
	}
	s.array(5)
	s.int(limited)
	s.int(d.Limit)
	s.int(d.Remaining)
	s.int(retry)
	s.int(seconds(d.ResetAfter))
}

// seconds rounds ms up; -1, never, stays.
func seconds(ms int64) int64 {
	if ms < 0 {
		return ms
	}
	return ms/msPerSecond + min(ms%msPerSecond, 1)
}
