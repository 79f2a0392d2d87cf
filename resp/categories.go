package resp

import (
	"slices"
	"strings"
)

// category is one of the ACL's: a set of commands.
type category struct {
	name string
	has  func(*command) bool
}

// categories are Redis's, in its order, and ours, derived from what the rows of
// the command table say. Some of Redis's have no command here: rules that name
// them are true all the same.
var categories = []category{
	{"keyspace", func(c *command) bool { return c.group == "generic" && c.subs == nil || c.isAlso("keyspace") }},
	{"read", has(flagRead)},
	{"write", has(flagWrite)},
	{"set", never},
	{"sortedset", never},
	{"list", never},
	{"hash", func(c *command) bool { return c.group == "hash" }},
	{"string", never},
	{"bitmap", never},
	{"hyperloglog", never},
	{"geo", never},
	{"stream", never},
	{"pubsub", func(c *command) bool { return c.group == "pubsub" && c.subs == nil }},
	{"admin", has(flagAdmin)},
	{"fast", has(flagFast)},
	{"slow", func(c *command) bool { return c.flags&flagFast == 0 }},
	{"blocking", func(c *command) bool { return c.isAlso("blocking") }},
	{"dangerous", func(c *command) bool { return c.flags&flagAdmin != 0 || c.isAlso("dangerous") }},
	// What a client says of its own connection. Redis has what is done to others
	// in here too, CLIENT KILL and its like; those are for operators alone.
	{"connection", func(c *command) bool {
		return c.group == "connection" && c.subs == nil && c.flags&flagAdmin == 0 || c.isAlso("connection")
	}},
	{"transaction", func(c *command) bool { return c.group == "transactions" }},
	{"scripting", never},
	// What an application needs that asks for decisions. Limits of others are
	// for operators: who changes a named one is @admin, and not in here.
	{"limiter", func(c *command) bool { return c.flags&flagLimiter != 0 && c.flags&flagAdmin == 0 }},
}

func has(f flag) func(*command) bool { return func(c *command) bool { return c.flags&f != 0 } }

func never(*command) bool { return false }

// isAlso says whether a row names a category that its group and flags do not tell.
func (c *command) isAlso(category string) bool { return slices.Contains(c.also, category) }

// categories are the ACL categories of a command, as COMMAND shows them.
func (c *command) categories() (names []string) {
	for _, cat := range categories {
		if cat.has(c) {
			names = append(names, "@"+cat.name)
		}
	}
	return names
}

// members are the commands and subcommands of a category, in order of names;
// nil if there is no such category.
func (t *table) members(name string) (found []*command, known bool) {
	i := slices.IndexFunc(categories, func(c category) bool { return c.name == name })
	if i < 0 {
		return nil, false
	}
	for _, c := range t.rows {
		for _, c := range append([]*command{c}, c.subs...) {
			if categories[i].has(c) {
				found = append(found, c)
			}
		}
	}
	return found, true
}

// named are the commands that a rule is about: those of @category, a
// subcommand, or a command with its subcommands.
func (t *table) named(what string) (found []*command, known bool) {
	if cat, ok := strings.CutPrefix(what, "@"); ok {
		return t.members(cat)
	}
	c := t.find([]byte(what))
	if c == nil {
		return nil, false
	}
	return append([]*command{c}, c.subs...), true
}
