package resp

import "strings"

// CommandDoc is a row of the command table for whoever writes or checks the
// manual.
type CommandDoc struct {
	Name    string // "rl.acquire", "client|id"
	Group   string // limiter, generic, connection, server
	Usage   string // "RL.ACQUIRE key <rate burst | rate:burst> [now] ..."
	Summary string
	Reply   string // decision, decision?, decisions, throttle, integer, ok, status, bulk, bulk?, map, map?, array, none, any; ? = or null
	Cost    string // complexity, may be empty
	Arity   int    // words with the name; negative = at least that many
	Write   bool   // may change a key
	Read    bool   // reads keys, never changes any
	Open    bool   // has subcommands, which follow it
}

// Commands lists the command table in order of names, subcommands after their
// command.
func Commands() []CommandDoc {
	var docs []CommandDoc
	for _, c := range newTable(rows()).rows {
		docs = append(docs, c.doc())
		for _, sub := range c.subs {
			docs = append(docs, sub.doc())
		}
	}
	return docs
}

func (c *command) doc() CommandDoc {
	name := strings.ToUpper(strings.ReplaceAll(c.full, "|", " "))
	return CommandDoc{
		Name: c.full, Group: c.group, Usage: strings.TrimSpace(name + " " + usage(c.args)), Summary: c.summary, Reply: c.reply,
		Cost: c.complexity, Arity: c.arity, Write: c.flags&flagWrite != 0, Read: c.flags&flagRead != 0, Open: c.subs != nil,
	}
}
