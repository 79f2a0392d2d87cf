package resp

import "bytes"

// inline reads one line typed by a person: words apart by blanks or tabs, with
// Redis's quoting ("\x41\n" and 'it\'s'), ended by LF or CRLF.
func (p *parser) inline(buf []byte) (args [][]byte, used int, perr string) {
	if buf[0] == tlsRecord { // it may hold no line's end, and its client would wait for an answer
		return nil, 0, errTLSHere
	}
	nl := bytes.IndexByte(buf[min(p.pos, len(buf)):], '\n')
	if nl < 0 {
		if len(buf) >= maxInline {
			return nil, 0, errInlineTooBig
		}
		p.pos = len(buf) // what has no line end yet is not searched again
		return nil, 0, ""
	}
	nl += p.pos
	p.pos = 0
	if nl >= maxInline {
		return nil, 0, errInlineTooBig
	}
	line := bytes.TrimSuffix(buf[:nl], []byte{'\r'})
	p.args, p.before = p.before[:0], p.args
	for {
		line = bytes.TrimLeft(line, " \t\n\v\f\r\x00")
		if len(line) == 0 {
			return p.args, nl + 1, ""
		}
		word, rest, ok := inlineWord(line)
		if !ok {
			return nil, 0, errQuotes
		}
		if p.args = append(p.args, word); len(p.args) > maxArgs {
			return nil, 0, errArgCount
		}
		line = rest
	}
}

// inlineWord takes one word off a line. A word with quotes is rewritten in
// place, which is safe: unquoting never makes it longer.
func inlineWord(line []byte) (word, rest []byte, ok bool) {
	w := line[:0]
	for i := 0; i < len(line); {
		switch ch := line[i]; {
		case isSeparator(ch):
			return w, line[i:], true
		case ch == '"' || ch == '\'':
			var used int
			if w, used, ok = unquote(w, line[i:]); !ok {
				return nil, nil, false
			}
			i += used
			// A closing quote ends the word.
			return w, line[i:], i == len(line) || isBlank(line[i])
		default:
			w = append(w, ch)
			i++
		}
	}
	return w, nil, true
}

// isSeparator says what ends a word; isBlank what is skipped between words,
// and what must follow a closing quote. Redis tells the two apart.
func isSeparator(ch byte) bool {
	return ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r' || ch == 0
}

func isBlank(ch byte) bool { return isSeparator(ch) || ch == '\v' || ch == '\f' }

// unquote appends the text between the quotes at the front of s to w and tells
// how many bytes of s it took.
func unquote(w, s []byte) (out []byte, used int, ok bool) {
	quote := s[0]
	for i := 1; i < len(s); i++ {
		switch ch := s[i]; {
		case ch == quote:
			return w, i + 1, true
		case ch == '\\' && i+1 < len(s) && quote == '\'':
			if s[i+1] == '\'' {
				i++
			}
			w = append(w, s[i])
		case ch == '\\' && i+1 < len(s):
			var taken int
			var b byte
			b, taken = escape(s[i+1:])
			w = append(w, b)
			i += taken
		default:
			w = append(w, ch)
		}
	}
	return nil, 0, false
}

// escape decodes what follows a backslash in double quotes.
func escape(s []byte) (b byte, taken int) {
	if s[0] == 'x' && len(s) >= 3 {
		if hi, lo := hexDigit(s[1]), hexDigit(s[2]); hi >= 0 && lo >= 0 {
			return byte(hi<<4 | lo), 3
		}
	}
	switch s[0] {
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'b':
		return '\b', 1
	case 'a':
		return '\a', 1
	}
	return s[0], 1
}

func hexDigit(ch byte) int {
	switch {
	case ch >= '0' && ch <= '9':
		return int(ch - '0')
	case ch|0x20 >= 'a' && ch|0x20 <= 'f':
		return int(ch|0x20-'a') + 10
	}
	return -1
}
