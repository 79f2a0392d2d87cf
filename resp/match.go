package resp

import "slices"

// glob is Redis's pattern, compiled: * ? [a-z] [^a] and \ to quote. Matching is
// linear in the pattern times the text and does not recurse, so no pattern can
// stall a server.
type glob struct {
	elems []globElem
	sets  []byteSet // of the elements in brackets
}

// globElem is one element of a pattern, which a byte of the text matches; a
// star matches any number of them.
type globElem struct {
	kind globKind
	ch   byte   // of a globByte
	set  uint16 // of a globSet: its place in glob.sets
}

type globKind byte

const (
	globByte globKind = iota
	globAny
	globSet
	globStar
)

// byteSet has a bit for each byte.
type byteSet [4]uint64

func (s *byteSet) add(ch byte)      { s[ch>>6] |= 1 << (ch & 63) }
func (s *byteSet) has(ch byte) bool { return s[ch>>6]>>(ch&63)&1 != 0 }

// compile reads a pattern; there is none that is wrong. Brackets are read once
// and not for each byte of each text, and stars side by side are one.
func compile(pattern string) *glob {
	g := &glob{elems: make([]globElem, 0, len(pattern))}
	for i := 0; i < len(pattern); i++ {
		e := globElem{kind: globByte, ch: pattern[i]}
		switch {
		case e.ch == '*':
			if n := len(g.elems); n > 0 && g.elems[n-1].kind == globStar {
				continue
			}
			e.kind = globStar
		case e.ch == '?':
			e.kind = globAny
		case e.ch == '\\' && i+1 < len(pattern):
			i++
			e.ch = pattern[i]
		case e.ch == '[':
			set, n := compileSet(pattern[i:])
			e.kind, e.set = globSet, uint16(len(g.sets))
			if same := slices.Index(g.sets, set); same >= 0 {
				e.set = uint16(same)
			} else {
				g.sets = append(g.sets, set)
			}
			i += n - 1
		}
		g.elems = append(g.elems, e)
	}
	return g
}

// compileSet reads [abc], [a-z] or [^...] at the front of a pattern, n bytes of
// it; one that is not closed ends with the pattern.
func compileSet(pattern string) (set byteSet, n int) {
	i := 1
	not := i < len(pattern) && pattern[i] == '^'
	if not {
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			set.add(pattern[i])
		case i+2 < len(pattern) && pattern[i+1] == '-':
			lo, hi := min(pattern[i], pattern[i+2]), max(pattern[i], pattern[i+2])
			for ch := int(lo); ch <= int(hi); ch++ {
				set.add(byte(ch))
			}
			i += 2
		default:
			set.add(pattern[i])
		}
	}
	if not {
		for w := range set {
			set[w] = ^set[w]
		}
	}
	return set, min(i+1, len(pattern))
}

// matches says whether a text fits a pattern.
func matches[T string | []byte](g *glob, text T) bool {
	ok, _ := fit(g, text)
	return ok
}

// fit says whether a text fits a pattern, and in about how many steps that was
// found.
func fit[T string | []byte](g *glob, text T) (ok bool, steps int) {
	p, t := 0, 0
	star, from := -1, 0 // the last * seen, and the text it may still swallow
	for t < len(text) {
		if p < len(g.elems) {
			e := g.elems[p]
			if e.kind == globStar {
				if p++; p == len(g.elems) {
					return true, steps + t - from
				}
				steps += t - from
				star, from = p, t
				continue
			}
			ch := text[t]
			if e.kind == globByte && e.ch == ch || e.kind == globAny || e.kind == globSet && g.sets[e.set].has(ch) {
				p, t = p+1, t+1
				continue
			}
		}
		if star < 0 {
			return false, steps + t - from
		}
		steps += t - from + 1
		from++
		p, t = star, from
	}
	if p < len(g.elems) && g.elems[p].kind == globStar {
		p++
	}
	return p == len(g.elems), steps + t - from
}
