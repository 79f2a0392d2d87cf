//go:build linux

package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

const (
	keyHole   = "%key" // in an argument: the key's number, keyDigits wide
	nowHole   = "%now" // in an argument: Unix milliseconds, nowDigits wide
	keyDigits = 11     // with a prefix of five bytes a key has 16
	nowDigits = 13     // milliseconds of the years 2001 to 2286
)

// A frame is one command, encoded once as a RESP array. A hole is a run of digits overwritten for each call,
// so that sending costs the generator a copy and no encoding. A hole's offset is 0 when there is none.
type frame struct {
	data     []byte
	key, now int
}

// newFrame encodes args. Each hole may occur once.
func newFrame(args ...string) frame {
	var f frame
	f.data = fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		keyAt, nowAt := strings.Index(arg, keyHole), strings.Index(arg, nowHole)
		arg = strings.Replace(arg, keyHole, strings.Repeat("0", keyDigits), 1)
		arg = strings.Replace(arg, nowHole, strings.Repeat("0", nowDigits), 1)
		f.data = fmt.Appendf(f.data, "$%d\r\n", len(arg))
		if keyAt >= 0 {
			f.key = len(f.data) + keyAt
		}
		if nowAt >= 0 {
			f.now = len(f.data) + nowAt
		}
		f.data = append(append(f.data, arg...), "\r\n"...)
	}
	return f
}

// appendTo appends the command for a key's number (0 <= key < 10^11) and a time in Unix milliseconds.
func (f *frame) appendTo(dst []byte, key int, now int64) []byte {
	start := len(dst)
	dst = append(dst, f.data...)
	if f.key > 0 {
		putDigits(dst[start+f.key:start+f.key+keyDigits], int64(key))
	}
	if f.now > 0 {
		putDigits(dst[start+f.now:start+f.now+nowDigits], now)
	}
	return dst
}

// putDigits fills hole with n in decimal, zeros in front.
func putDigits(hole []byte, n int64) {
	for i := len(hole) - 1; i >= 0; i-- {
		hole[i] = byte('0' + n%10)
		n /= 10
	}
}

// replies counts the complete replies of a RESP2 stream. A reply that is an array and starts with an integer is a
// decision: allowed unless that integer is 0.
type replies struct {
	total, allowed, denied int64
	err                    error // the first error reply or the first byte that is not RESP

	need     int  // elements the reply being read still lacks; 0 between replies
	decision bool // the next element is the first of an array
}

// scan consumes the whole elements at the start of b and returns their length in bytes. What is left is the beginning
// of an element: the caller offers it again with more behind it.
func (r *replies) scan(b []byte) int {
	used := 0
	for {
		size := r.element(b[used:])
		if size == 0 {
			return used
		}
		used += size
		if r.need == 0 {
			r.total++
		}
	}
}

// element consumes one element: a line, a line with its bulk, or an array's header. It returns 0 if b lacks its end.
func (r *replies) element(b []byte) int {
	end := bytes.IndexByte(b, '\n')
	if end < 1 {
		return 0
	}
	size, n := end+1, 0
	if b[0] == '$' || b[0] == '*' {
		var err error
		if n, err = strconv.Atoi(string(b[1 : end-1])); err != nil {
			r.fail("the server's reply is not RESP: %.60q", b[:end])
		}
	}
	if b[0] == '$' && n >= 0 {
		size += n + len("\r\n")
		if size > len(b) {
			return 0
		}
	}
	top := r.need == 0
	if top {
		r.need = 1
	}
	r.need--
	first := r.decision
	r.decision = false
	switch b[0] {
	case '*':
		r.need += max(n, 0)
		r.decision = top && n > 0
	case ':':
		if first && b[1] == '0' {
			r.denied++
		} else if first {
			r.allowed++
		}
	case '-':
		r.fail("the server answered %.120s", b[1:end-1])
	case '+', '$':
	default:
		r.fail("the server's reply is not RESP: %.60q", b[:end])
	}
	return size
}

func (r *replies) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}
