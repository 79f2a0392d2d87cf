package main

import (
	"errors"
	"strconv"
	"strings"
)

var errQuotes = errors.New(`unbalanced quotes: a quoted value is one word, "like this" or 'like this'`)

// blank holds the bytes that separate words.
const blank = " \t\r\n\v\f"

// splitWords splits a line of a config file as Redis does: words between blanks; "..." with the escapes \n \r \t \b \a
// \xHH, where a backslash before anything else stands for that; '...' with only \'. A closing quote ends its word.
func splitWords(line string) (words []string, err error) {
	for {
		line = strings.TrimLeft(line, blank)
		if line == "" {
			return words, nil
		}
		word, rest, err := firstWord(line)
		if err != nil {
			return nil, err
		}
		words, line = append(words, word), rest
	}
}

func firstWord(line string) (word, rest string, err error) {
	var b strings.Builder
	for line != "" && !strings.ContainsRune(blank, rune(line[0])) {
		quote := line[0]
		if quote != '"' && quote != '\'' {
			b.WriteByte(quote)
			line = line[1:]
			continue
		}
		text, after, closed := quoted(line[1:], quote)
		if !closed || after != "" && !strings.ContainsRune(blank, rune(after[0])) {
			return "", "", errQuotes
		}
		b.WriteString(text)
		line = after
	}
	return b.String(), line, nil
}

// quoted reads up to the closing quote.
func quoted(in string, quote byte) (text, after string, closed bool) {
	var b strings.Builder
	for in != "" {
		c := in[0]
		switch {
		case c == quote:
			return b.String(), in[1:], true
		case c == '\\' && quote == '"' && len(in) > 1:
			c, in = unescape(in[1:])
			b.WriteByte(c)
			continue
		case c == '\\' && strings.HasPrefix(in, `\'`):
			c, in = '\'', in[1:]
		}
		b.WriteByte(c)
		in = in[1:]
	}
	return "", "", false
}

// unescape reads what follows a backslash between double quotes; in is not empty.
func unescape(in string) (c byte, after string) {
	if in[0] == 'x' && len(in) >= 3 {
		if n, err := strconv.ParseUint(in[1:3], 16, 8); err == nil {
			return byte(n), in[3:]
		}
	}
	if i := strings.IndexByte("nrtba", in[0]); i >= 0 {
		return "\n\r\t\b\a"[i], in[1:]
	}
	return in[0], in[1:]
}
