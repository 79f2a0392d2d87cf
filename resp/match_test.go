package resp

import (
	"strings"
	"testing"
)

// redisMatch is stringmatchlen of Redis 7.0, step by step.
func redisMatch(p, s string) bool {
	for p != "" && s != "" {
		switch p[0] {
		case '*':
			p = strings.TrimLeft(p, "*")
			for ; s != ""; s = s[1:] {
				if p == "" || redisMatch(p, s) {
					return true
				}
			}
			return p == ""
		case '?':
			p, s = p[1:], s[1:]
		case '[':
			var ok bool
			if p, ok = redisClass(p[1:], s[0]); !ok {
				return false
			}
			s = s[1:]
		default:
			if p[0] == '\\' && len(p) >= 2 {
				p = p[1:]
			}
			if p[0] != s[0] {
				return false
			}
			p, s = p[1:], s[1:]
		}
		if s == "" {
			p = strings.TrimLeft(p, "*")
		}
	}
	return p == "" && s == ""
}

// redisClass goes on behind a bracket and returns what follows the class.
func redisClass(p string, ch byte) (rest string, ok bool) {
	not := p != "" && p[0] == '^'
	if not {
		p = p[1:]
	}
	for p != "" && p[0] != ']' {
		switch {
		case len(p) >= 2 && p[0] == '\\':
			p = p[1:]
			ok = ok || p[0] == ch
		case len(p) >= 3 && p[1] == '-':
			ok = ok || min(p[0], p[2]) <= ch && ch <= max(p[0], p[2])
			p = p[2:]
		default:
			ok = ok || p[0] == ch
		}
		p = p[1:]
	}
	if p != "" {
		p = p[1:]
	}
	return p, ok != not
}

// wordsOver are all texts of up to n of the letters.
func wordsOver(letters string, n int) []string {
	all := []string{""}
	for from := 0; n > 0; n-- {
		to := len(all)
		for _, w := range all[from:to] {
			for _, ch := range letters {
				all = append(all, w+string(ch))
			}
		}
		from = to
	}
	return all
}

// TestMatchIsRedis: every short pattern on every short text is what Redis says.
func TestMatchIsRedis(t *testing.T) {
	texts := append(wordsOver("abc", 3), "-", "^", "]", "\\", "a]", "b-")
	for _, pattern := range wordsOver(`ac*?[]^-\`, 5) {
		g := compile(pattern)
		for _, text := range texts {
			if got, want := matches(g, text), text == "" && strings.Trim(pattern, "*") == "" || redisMatch(pattern, text); got != want {
				t.Fatalf("%q on %q: %v, Redis says %v", pattern, text, got, want)
			}
		}
	}
}

// TestMatchSteps: the steps tell a pattern that takes long from one that does not.
func TestMatchSteps(t *testing.T) {
	const long = 1000
	text := strings.Repeat("a", long)
	for _, c := range []struct {
		pattern     string
		least, most int
	}{
		{"*", 0, 1}, {"b*", 0, 1}, {"a*", 1, 2}, {text, long, long}, {"*b", long, 2 * long},
		{"*" + text[:long/2] + "b", long * long / 4, long * long / 3},
		{strings.Repeat("*a", 300) + "b", long, 3 * long},
	} {
		if _, steps := fit(compile(c.pattern), text); steps < c.least || steps > c.most {
			t.Errorf("%.10s, %d bytes: %d steps, want %d to %d", c.pattern, len(c.pattern), steps, c.least, c.most)
		}
	}
}

// TestMatchSets: brackets are compiled once, whatever stands in them, and a
// pattern of many of them keeps each set apart.
func TestMatchSets(t *testing.T) {
	g := compile("*[" + strings.Repeat("b", maxPattern))
	if len(g.elems) != 2 || len(g.sets) != 1 {
		t.Errorf("%d elements and %d sets, want 2 and 1", len(g.elems), len(g.sets))
	}
	var pattern, fits strings.Builder
	for ch := '!'; ch <= '~'; ch++ {
		if ch == ']' || ch == '\\' || ch == '^' {
			continue
		}
		pattern.WriteString("[" + string(ch) + "\xff]")
		fits.WriteRune(ch)
	}
	for i, ch := range fits.String() {
		other := strings.Replace(fits.String(), string(ch), "\xfe", 1)
		if g := compile(pattern.String()); !matches(g, fits.String()) || matches(g, other) {
			t.Fatalf("set %d does not tell %q from others", i, ch)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	key := []byte(strings.Repeat("a", 1000) + "1")
	for _, bm := range []struct{ name, pattern string }{
		{"prefix", strings.Repeat("a", 999) + "*"},
		{"one class", "*[" + strings.Repeat("b", 1000)},
		{"classes", strings.Repeat("*[ac]", 200) + "b"},
		{"stars", strings.Repeat("*a", 500) + "b"},
		{"long tail", "*" + strings.Repeat("a", 500) + "b"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			g := compile(bm.pattern)
			for b.Loop() {
				matches(g, key)
			}
		})
	}
}
