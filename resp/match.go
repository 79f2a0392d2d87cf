package resp

// match is Redis's glob: * ? [a-z] [^a] and \ to quote. It is linear in the
// pattern times the text and does not recurse, so no pattern can stall a server.
func match[T string | []byte](pattern string, text T) bool {
	p, t := 0, 0
	star, from := -1, 0 // the last * seen, and the text it may still swallow
	for t < len(text) {
		if p < len(pattern) && pattern[p] == '*' {
			star, from = p, t
			p++
			continue
		}
		if n, ok := matchOne(pattern[p:], text[t]); ok {
			p, t = p+n, t+1
			continue
		}
		if star < 0 {
			return false
		}
		from++
		p, t = star+1, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches one byte with the element at the front of the pattern, and
// says how long that element is.
func matchOne(pattern string, ch byte) (n int, ok bool) {
	if pattern == "" {
		return 0, false
	}
	switch pattern[0] {
	case '?':
		return 1, true
	case '\\':
		if len(pattern) > 1 {
			return 2, pattern[1] == ch
		}
	case '[':
		return matchClass(pattern, ch)
	}
	return 1, pattern[0] == ch
}

// matchClass matches [abc], [a-z] and [^...]; an unclosed one ends with the pattern.
func matchClass(pattern string, ch byte) (n int, ok bool) {
	i := 1
	not := i < len(pattern) && pattern[i] == '^'
	if not {
		i++
	}
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			ok = ok || pattern[i] == ch
		case i+2 < len(pattern) && pattern[i+1] == '-':
			lo, hi := min(pattern[i], pattern[i+2]), max(pattern[i], pattern[i+2])
			ok = ok || lo <= ch && ch <= hi
			i += 2
		default:
			ok = ok || pattern[i] == ch
		}
	}
	return min(i+1, len(pattern)), ok != not
}
