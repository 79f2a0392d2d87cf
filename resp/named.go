package resp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
	"github.com/tidwall/redcon"
)

// Named limits: RL.LIMIT, and @name wherever a limit stands.

// oneLimit reads a limit of one argument: an expression, or @name. A name in it
// aliases the argument, which lives as long as the command at hand.
func (s *Session) oneLimit(arg []byte) (engine.Limit, error) {
	if arg[0] == '@' {
		return s.namedLimit(arg[1:])
	}
	if engine.IsAdaptive(arg) {
		return engine.Limit{}, fmt.Errorf("limit %.64q: an adaptive limit needs a name: RL.LIMIT SET name %.64s, and then @name", arg, arg)
	}
	return engine.ParseExpression(arg)
}

// namedLimit is the limit that a name means now.
func (s *Session) namedLimit(name []byte) (engine.Limit, error) {
	if lim, ok := s.srv.store.Limits().Resolve(name); ok {
		return lim, nil
	}
	return engine.Limit{}, noLimit(name, "10:20")
}

// noLimit says that a name means nothing, and how to change that: with a limit
// like the example.
func noLimit(name []byte, example string) error {
	if err := shard.CheckLimitName(name); err != nil {
		return err
	}
	const shown, groups = 64, 3 // bytes of the name, as in other errors; groups that are told
	if len(name) > shown {
		return fmt.Errorf("there is no limit %q... nor one of its groups: RL.LIMIT SET name %s makes one", name[:shown], example)
	}
	var also []string
	for end := len(name); end >= 0 && len(also) < groups; end-- {
		group := string(name[:end]) + "*"
		if group != string(name) && (end == 0 || name[end-1] == ':') {
			also = append(also, group)
		}
	}
	nor := ""
	if len(also) > 0 {
		nor = " nor " + strings.Join(also, ", ")
	}
	return fmt.Errorf("there is no limit %s%s: RL.LIMIT SET %s %s makes one", name, nor, name, example)
}

// inForce is the limit that a call without one goes by: what the entry's name
// means now, or the limit it carries if it has no name.
func (s *Session) inForce(value []byte) (engine.Limit, error) {
	if name := engine.Name(value); name != nil {
		return s.namedLimit(name)
	}
	return engine.StoredLimit(value)
}

// noneInForce is what a caller is told who asks by the limit that a key carries
// when its name means nothing any more: why is inForce's error.
func (s *Session) noneInForce(key, value []byte, why error) error {
	if engine.Name(value) == nil {
		return why
	}
	return fmt.Errorf("%w; RL.PEEK %.64q 10 20 asks by another, RL.GET tells what is stored", why, key)
}

// entryFor is the state that a call under lim goes on from, nil for none. A
// limit whose algorithm was changed finds the keys of its own name as if they
// were new; any other key of another algorithm is of the wrong type. fault is an
// error line.
func (s *Session) entryFor(tx *shard.Tx, key []byte, lim *engine.Limit) (old []byte, fault string) {
	e, found := tx.Get(key)
	switch {
	case !found || e.Kind == byte(lim.Algorithm):
		old = e.Value
	case lim.Name == "" || string(engine.Name(e.Value)) != lim.Name:
		return nil, errWrongType
	}
	old, err := tx.Drained(key, lim, old)
	if err != nil {
		return nil, "ERR " + err.Error()
	}
	return old, ""
}

// inspect tells what an entry says under the limit in force; under the one it
// carries if there is no other, or if that one cannot say it.
func (s *Session) inspect(tx *shard.Tx, key, value []byte) (engine.Info, error) {
	if lim, err := s.inForce(value); err == nil {
		if left, err := tx.Drained(key, &lim, value); err == nil { // else it cannot be said under that limit
			value = left
		}
	}
	if name := engine.Name(value); name != nil {
		if lim, ok := s.srv.store.Limits().Resolve(name); ok {
			if info, err := engine.InspectUnder(lim, value); err == nil {
				info.Limit.Name = string(name) // not the storage's own bytes
				return info, nil
			}
		}
	}
	return engine.Inspect(value)
}

func namedRows() []*command {
	argName := arg{name: "name", kind: "string"}
	return []*command{
		{name: "rl.limit", arity: -2, group: "limiter",
			summary: "Limits that the server holds by name: written @name wherever a limit stands, and changed for all their keys at once.",
			reply:   "any", run: help,
			subs: []*command{
				{name: "set", arity: -4, flags: flagWrite | flagAdmin | flagLimiter | flagWhole, reply: "ok", run: limitSet,
					summary: "Makes or changes a limit, such as wb:orders:list, or that of a group, such as wb:* or *. adaptive:min..max:burst looks for its rate, see RL.FEEDBACK. Answers when it is on disk.",
					args:    []arg{argName, {name: "limit-expression", kind: "string"}}},
				{name: "get", arity: 3, flags: flagFast | flagLimiter, reply: "bulk?", run: limitGet,
					summary: "The expression of the limit of exactly this name.", args: []arg{argName}},
				{name: "del", arity: 3, flags: flagWrite | flagAdmin | flagLimiter | flagWhole, reply: "integer", run: limitDel,
					summary: "Forgets a limit. Its keys stay as they are; a call that names it is an error, or falls back to a group. Answers when that is on disk.",
					args:    []arg{argName}},
				{name: "list", arity: -2, flags: flagLimiter, reply: "map", run: limitList,
					summary: "Names and expressions, by name.", args: []arg{{name: "pattern", kind: "pattern", token: "MATCH", optional: true}}},
				{name: "help", arity: 2, flags: flagLoading | flagStale, summary: "This list.", reply: "array", run: help},
			}},
	}
}

// limitSet is RL.LIMIT SET name expression. The reply waits at the gate until
// the change is durable.
func limitSet(s *Session, args [][]byte) {
	if len(args) != 4 {
		s.failWith(fmt.Errorf("%d arguments after the name: expected one, the limit as an expression, as in RL.LIMIT SET %.64q 10:20", len(args)-3, args[2]))
		return
	}
	n := shard.NamedLimit{Name: string(args[2])}
	err := n.Parse(args[3])
	if err == nil {
		err = s.setLimit(n)
	}
	if err != nil {
		s.limitFault(args[2], err)
		return
	}
	s.round = max(s.round, s.srv.durability.Save())
	s.ok()
}

// limitDel is RL.LIMIT DEL name.
func limitDel(s *Session, args [][]byte) {
	found, err := s.deleteLimit(args[2])
	switch {
	case err != nil:
		s.limitFault(args[2], err)
	case found:
		s.round = max(s.round, s.srv.durability.Save())
		s.int(1)
	default:
		s.int(0)
	}
}

// limitFault answers an error; one that only the server's options explain is
// explained here.
func (s *Session) limitFault(name []byte, err error) {
	if errors.Is(err, shard.ErrOfFile) {
		err = fmt.Errorf("limit %.64s belongs to the limits-file %.100q: change it there and send the server a SIGHUP", name, s.srv.limitsFile)
	}
	s.failWith(err)
}

// limitGet is RL.LIMIT GET name.
func limitGet(s *Session, args [][]byte) {
	n, ok := s.srv.store.Limits().Get(args[2])
	if !ok {
		s.null()
		return
	}
	s.text(n.Expression())
}

// limitList is RL.LIMIT LIST [MATCH pattern].
func limitList(s *Session, args [][]byte) {
	pattern := compile("*")
	switch {
	case len(args) == 4 && equalFold(args[2], "match"):
		if len(args[3]) > engine.MaxNameBytes {
			s.fail(patternTooLong(args[3], engine.MaxNameBytes))
			return
		}
		pattern = compile(string(args[3]))
	case len(args) != 2:
		s.failWith(fmt.Errorf("unexpected argument %.64q: expected nothing or MATCH pattern", args[2]))
		return
	}
	c := &limitsCall{longCall: s.newLongCall(args), left: s.srv.store.Limits().List(), pattern: pattern}
	s.inTurns(c.step)
}

// limitsCall is an RL.LIMIT LIST under way: the limits as they were when it
// began, in turns.
type limitsCall struct {
	longCall
	left    []*shard.NamedLimit // not looked at yet
	pattern *glob
	found   int
	listed  []byte // those found, as they go out
}

// limitCost is what the line of a limit costs, see stint.
const limitCost = 4

func (c *limitsCall) step(s *Session) (done bool) {
	return c.timed(s, func(t *stint) bool {
		for len(c.left) > 0 {
			n := c.left[0]
			c.left = c.left[1:]
			fits, steps := fit(c.pattern, n.Name)
			cost := lookAt(steps)
			if fits {
				cost += limitCost
				c.found++
				c.listed = redcon.AppendBulkString(c.listed, n.Name)
				c.listed = redcon.AppendBulkString(c.listed, n.Expression())
			}
			if s.looksTooMuch(cost) {
				s.fail(errExecLooks)
				return true
			}
			if t.over(cost) {
				s.touring = cap(c.listed)
				return false
			}
		}
		s.touring = 0
		s.dict(c.found)
		s.out = append(s.out, c.listed...)
		return true
	})
}
