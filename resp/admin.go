package resp

import (
	"fmt"
	"strings"
)

// configGet is CONFIG GET pattern [pattern ...].
func configGet(s *Session, args [][]byte) {
	for _, pattern := range args[2:] {
		if len(pattern) > maxPattern {
			s.fail(patternTooLong(pattern, maxPattern))
			return
		}
	}
	c := &configCall{longCall: s.newLongCall(args), seen: map[string]bool{}}
	c.left = c.args[2:]
	s.inTurns(c.step)
}

// configCall is a CONFIG GET under way: there may be many patterns, and each may
// take long.
type configCall struct {
	longCall
	left  [][]byte // patterns
	seen  map[string]bool
	pairs [][2]string
}

func (c *configCall) step(s *Session) (done bool) {
	return c.timed(s, func(t *stint) bool {
		for len(c.left) > 0 {
			pattern := strings.ToLower(string(c.left[0]))
			c.left = c.left[1:]
			for _, p := range s.srv.options.Get(pattern) {
				if !c.seen[p[0]] {
					c.seen[p[0]] = true
					c.pairs = append(c.pairs, p)
				}
			}
			if t.over(1 + len(pattern)) {
				return false
			}
		}
		s.dict(len(c.pairs))
		for _, p := range c.pairs {
			s.text(p[0])
			s.text(p[1])
		}
		return true
	})
}

// configSet is CONFIG SET option value [option value ...]: all or nothing.
func configSet(s *Session, args [][]byte) {
	words := args[2:]
	if len(words)%2 != 0 {
		s.fail(errSyntax)
		return
	}
	var pairs [][2]string
	for ; len(words) > 0; words = words[2:] {
		pairs = append(pairs, [2]string{strings.ToLower(string(words[0])), string(words[1])})
	}
	if err := s.srv.options.Set(pairs); err != nil {
		s.failWith(err)
		return
	}
	s.conf = s.srv.settings.Load()
	s.ok()
}

func configResetStat(s *Session, args [][]byte) {
	s.srv.resetStats()
	s.ok()
}

// save is SAVE: the reply waits at the gate until the round is durable.
func save(s *Session, args [][]byte) {
	s.round = max(s.round, s.srv.durability.Save())
	s.ok()
}

func lastSave(s *Session, args [][]byte) { s.int(s.srv.durability.LastSave()) }

// shutdown is SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE]. As in Redis there is no
// reply: the connection ends when the server does.
func shutdown(s *Session, args [][]byte) {
	var save, noSave bool
	for _, word := range args[1:] {
		switch {
		case equalFold(word, "nosave"):
			noSave = true
		case equalFold(word, "save"):
			save = true
		case equalFold(word, "now"), equalFold(word, "force"):
		default:
			s.fail(errSyntax)
			return
		}
	}
	if save && noSave {
		s.fail(errSyntax)
		return
	}
	s.srv.log.Warn("shutdown asked by a client", "client", s.addr, "save", !noSave)
	s.srv.shutdown(!noSave)
	s.act = actionClose
}

// info is INFO [section ...].
func info(s *Session, args [][]byte) {
	want := map[string]bool{}
	for _, a := range args[1:] {
		want[strings.ToLower(string(a))] = true
	}
	all := len(want) == 0 || want["all"] || want["default"] || want["everything"]
	var b strings.Builder
	for _, section := range s.srv.infoSections() {
		if !all && !want[strings.ToLower(section.name)] {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		fmt.Fprintf(&b, "# %s\r\n", section.name)
		for _, f := range section.fields {
			fmt.Fprintf(&b, "%s:%s\r\n", f[0], f[1])
		}
	}
	s.verbatim(b.String())
}
