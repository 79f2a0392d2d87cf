package resp

import "github.com/rlserver/rlserver/shard"

// fetchAhead looks for the keys of the commands that wait in in, has their memory
// fetched, and returns how many commands it looked at. It is a guess from the bytes alone,
// which the parser will look at again: what is not in plain order is left alone.
func (s *Session) fetchAhead(in []byte) int {
	var keys [shard.MaxFetch][]byte
	n := 0
	for n < len(keys) {
		key, used := keyOf(in)
		if used == 0 {
			break
		}
		keys[n], in = key, in[used:]
		n++
	}
	if n > 1 {
		s.srv.store.Fetch(keys[:n])
	}
	return n
}

// maxAhead is the longest command, in words, that keyOf looks at.
const maxAhead = 16

// keyOf returns the first argument of the command at the front of in and the bytes
// of the command; 0 if it is not complete, has no argument, or is none.
func keyOf(in []byte) (key []byte, used int) {
	if len(in) == 0 || in[0] != '*' {
		return nil, 0
	}
	words, at, perr := header(in, 1, "", "")
	if at == 0 || perr != "" || words < 2 || words > maxAhead {
		return nil, 0
	}
	for i := range words {
		if at >= len(in) || in[at] != '$' {
			return nil, 0
		}
		n, end, _ := header(in, at+1, "", "")
		if end == 0 || n < 0 || len(in) < end+n+2 {
			return nil, 0
		}
		if i == 1 {
			key = in[end : end+n]
		}
		at = end + n + 2
	}
	return key, at
}
