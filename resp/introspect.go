package resp

import "strings"

// COMMAND and its kin: the command table, as drivers and redis-cli ask for it.

func commandAll(s *Session, args [][]byte) {
	rows := s.srv.table.rows
	s.array(len(rows))
	s.each(len(rows), args, func(i int, _ [][]byte) { s.describe(rows[i]) })
}

func commandCount(s *Session, args [][]byte) { s.int(int64(len(s.srv.table.rows))) }

func commandInfo(s *Session, args [][]byte) {
	if len(args) == 2 {
		commandAll(s, args[:1])
		return
	}
	s.array(len(args) - 2)
	s.each(len(args)-2, args, func(i int, args [][]byte) {
		if c := s.srv.table.find(args[2+i]); c != nil {
			s.describe(c)
		} else {
			s.null()
		}
	})
}

// find looks a command up by name, or a subcommand by "client|id".
func (t *table) find(name []byte) *command {
	base, word, isSub := strings.Cut(string(name), "|")
	c := t.lookup([]byte(base))
	if c == nil || !isSub {
		return c
	}
	return c.sub([]byte(word))
}

// describe is one element of COMMAND.
func (s *Session) describe(c *command) {
	s.array(10)
	s.text(c.full)
	s.int(int64(c.arity))
	s.statusSet(c.flagNames())
	s.int(int64(c.first))
	s.int(int64(c.last))
	s.int(int64(c.step))
	s.statusSet(c.categories())
	s.set(0) // tips
	s.keySpecs(c)
	s.array(len(c.subs))
	for _, sub := range c.subs {
		s.describe(sub)
	}
}

func (s *Session) statusSet(words []string) {
	s.set(len(words))
	for _, w := range words {
		s.status(w)
	}
}

// keySpecs says where the keys are and what is done to them, in Redis 7's form.
func (s *Session) keySpecs(c *command) {
	if c.first == 0 {
		s.set(0)
		return
	}
	words, _ := c.touches()
	last := c.last
	if last > 0 {
		last -= c.first
	}
	s.set(1)
	s.dict(3)
	s.text("flags")
	s.statusSet(words)
	s.text("begin_search")
	s.dict(2)
	s.text("type")
	s.text("index")
	s.text("spec")
	s.dict(1)
	s.text("index")
	s.int(int64(c.first))
	s.text("find_keys")
	s.dict(2)
	s.text("type")
	s.text("range")
	s.text("spec")
	s.dict(3)
	s.text("lastkey")
	s.int(int64(last))
	s.text("keystep")
	s.int(int64(c.step))
	s.text("limit")
	s.int(0)
}

// commandDocs is COMMAND DOCS [name ...]; unknown names are left out.
func commandDocs(s *Session, args [][]byte) {
	found := s.srv.table.rows
	if len(args) > 2 {
		found = nil
		for _, name := range args[2:] {
			if c := s.srv.table.find(name); c != nil {
				found = append(found, c)
			}
		}
	}
	s.dict(len(found))
	s.each(len(found), args, func(i int, _ [][]byte) {
		s.text(found[i].full)
		s.docs(found[i])
	})
}

func (s *Session) docs(c *command) {
	n := 3
	if len(c.args) > 0 {
		n++
	}
	if len(c.subs) > 0 {
		n++
	}
	if c.complexity != "" {
		n++
	}
	s.dict(n)
	s.text("summary")
	s.text(c.summary)
	s.text("since")
	s.text(sinceVersion)
	s.text("group")
	s.text(c.group)
	if c.complexity != "" {
		s.text("complexity")
		s.text(c.complexity)
	}
	if len(c.args) > 0 {
		s.text("arguments")
		s.docArgs(c.args)
	}
	if len(c.subs) > 0 {
		s.text("subcommands")
		s.dict(len(c.subs))
		for _, sub := range c.subs {
			s.text(sub.full)
			s.docs(sub)
		}
	}
}

// docArgs are a command's arguments as redis-cli's hints read them.
func (s *Session) docArgs(args []arg) {
	s.array(len(args))
	for _, a := range args {
		var flags []string
		if a.optional {
			flags = append(flags, "optional")
		}
		if a.multiple {
			flags = append(flags, "multiple")
		}
		pairs := [][2]string{{"name", a.name}, {"type", a.kind}}
		if a.sub == nil && a.kind != "pure-token" {
			pairs = append(pairs, [2]string{"display_text", a.name})
		}
		if a.token != "" {
			pairs = append(pairs, [2]string{"token", a.token})
		}
		n := len(pairs)
		if flags != nil {
			n++
		}
		if a.sub != nil {
			n++
		}
		s.dict(n)
		for _, p := range pairs {
			s.text(p[0])
			s.text(p[1])
		}
		if flags != nil {
			s.text("flags")
			s.statusSet(flags)
		}
		if a.sub != nil {
			s.text("arguments")
			s.docArgs(a.sub)
		}
	}
}

// commandList is COMMAND LIST [FILTERBY MODULE|ACLCAT|PATTERN value].
func commandList(s *Session, args [][]byte) {
	keep := func(*command) bool { return true }
	switch {
	case len(args) == 2:
	case len(args) == 5 && equalFold(args[2], "filterby"):
		value := string(args[4])
		switch {
		case equalFold(args[3], "module"):
			keep = func(*command) bool { return false }
		case equalFold(args[3], "aclcat"):
			keep = func(c *command) bool { return contains(c.categories(), "@"+strings.ToLower(value)) }
		case equalFold(args[3], "pattern") && len(value) > maxPattern:
			s.fail(patternTooLong(args[4], maxPattern))
			return
		case equalFold(args[3], "pattern"):
			pattern := compile(strings.ToLower(value))
			keep = func(c *command) bool { return matches(pattern, c.full) }
		default:
			s.fail(errSyntax)
			return
		}
	default:
		s.fail(errSyntax)
		return
	}
	var names []string
	for _, c := range s.srv.table.rows {
		for _, c := range append([]*command{c}, c.subs...) {
			if keep(c) && (c.full == c.name || len(args) == 5) {
				names = append(names, c.full)
			}
		}
	}
	s.array(len(names))
	for _, name := range names {
		s.text(name)
	}
}

// commandGetKeys is COMMAND GETKEYS command [arg ...].
func commandGetKeys(s *Session, args [][]byte) {
	call := args[2:]
	c := s.srv.table.lookup(call[0])
	if c != nil && c.subs != nil && len(call) > 1 {
		c = c.sub(call[1])
	}
	switch {
	case c == nil:
		s.fail(errNoSuchCommand)
	case c.first == 0:
		s.fail(errNoKeyArgs)
	case !c.arityFits(len(call)):
		s.fail(errBadKeyArgs)
	default:
		at := c.keys(call)
		if len(at) == 0 {
			s.fail(errNoKeyArgs)
			return
		}
		s.array(len(at))
		for _, i := range at {
			s.bulk(call[i])
		}
	}
}

// help answers X HELP for a command with subcommands, from the table.
func help(s *Session, args [][]byte) {
	c := s.srv.table.lookup(args[0])
	lines := []string{strings.ToUpper(c.name) + " <subcommand> [<arg> ...]. Subcommands are:"}
	for _, sub := range c.subs {
		lines = append(lines, strings.TrimSpace(strings.ToUpper(sub.name)+" "+usage(sub.args)), "    "+sub.summary)
	}
	s.array(len(lines))
	for _, l := range lines {
		s.status(l)
	}
}

// usage writes arguments as a person reads them: key [COST tokens].
func usage(args []arg) string {
	var words []string
	for _, a := range args {
		var w string
		switch a.kind {
		case "pure-token":
			w = a.token
		case "oneof":
			var of []string
			for _, sub := range a.sub {
				of = append(of, usage([]arg{sub}))
			}
			w = strings.Join(of, " | ")
			switch {
			case a.token != "":
				w = a.token + " <" + w + ">"
			case !a.optional && len(args) > 1:
				w = "<" + w + ">"
			}
		case "block":
			w = strings.TrimSpace(a.token + " " + usage(a.sub))
		default:
			w = strings.TrimSpace(a.token + " " + a.name)
		}
		if a.multiple {
			w += " [" + w + " ...]"
		}
		if a.optional {
			w = "[" + w + "]"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

func contains(list []string, word string) bool {
	for _, w := range list {
		if w == word {
			return true
		}
	}
	return false
}
