package resp

// Bounds of what a peer may send. A length is checked at its header, before
// anything is kept for it.
const (
	maxArgs       = 4096     // arguments of one command
	maxArgsNoAuth = 16       // the same before AUTH
	maxBulkNoAuth = 16 << 10 // bytes of one argument before AUTH
	maxCommand    = 1 << 20  // bytes of one command, headers included
	maxInline     = 64 << 10 // bytes of an inline command's line
	maxHeader     = 32       // bytes of a "*3" or "$5" line
	maxLenDigits  = 9        // digits of a length; more cannot be within any bound
	argsKept      = 64       // argument slots a session keeps between commands
)

// limits are the bounds in force for a session: tighter before AUTH.
type limits struct {
	bulk   int // proto-max-bulk-len, bytes of one argument
	authed bool
}

// noBulk is parser.bulk while the header of the next argument is unread.
const noBulk = -1

// parser takes commands off a byte stream. It remembers how far it got in an
// unfinished command, so one that dribbles in byte by byte is scanned once.
// Offsets are from the command's first byte, which the caller keeps at the
// front of what it passes in.
type parser struct {
	pos    int   // scanned so far
	left   int   // arguments still to come; 0 = at the start of a command
	bulk   int   // bytes of the argument that starts at pos, or noBulk
	spans  []int // start and end of each finished argument
	args   [][]byte
	before [][]byte // args of the command before
}

// next returns the arguments of the command at the front of buf and the bytes
// it took; used 0 means it is not complete yet. A command without arguments
// ("*0", an empty line) comes back as used > 0 and no arguments. perr is the
// error line for a frame that cannot be one; the stream is unusable after it.
// The arguments alias buf and are valid until the next call but one.
func (p *parser) next(buf []byte, lim limits) (args [][]byte, used int, perr string) {
	if p.left == 0 {
		if len(buf) == 0 {
			return nil, 0, ""
		}
		if buf[0] != '*' {
			return p.inline(buf)
		}
		n, end, perr := header(buf, 1, errCountTooLong, errArgCount)
		switch {
		case perr != "" || end == 0:
			return nil, 0, perr
		case n > maxArgsNoAuth && !lim.authed:
			return nil, 0, errArgCountAuth
		case n > maxArgs:
			return nil, 0, errArgCount
		case n <= 0:
			return nil, end, ""
		}
		p.pos, p.left, p.bulk, p.spans = end, n, noBulk, p.spans[:0]
	}
	for p.left > 0 {
		if p.bulk == noBulk {
			n, end, perr := bulkHeader(buf, p.pos, lim)
			if perr != "" || end == 0 {
				return nil, 0, perr
			}
			p.pos, p.bulk = end, n
		}
		end := p.pos + p.bulk
		if len(buf) < end+2 {
			return nil, 0, ""
		}
		if buf[end] != '\r' || buf[end+1] != '\n' {
			return nil, 0, errBulkLen
		}
		p.spans = append(p.spans, p.pos, end)
		p.pos, p.left, p.bulk = end+2, p.left-1, noBulk
	}
	p.args, p.before = p.before[:0], p.args
	for i := 0; i < len(p.spans); i += 2 {
		p.args = append(p.args, buf[p.spans[i]:p.spans[i+1]:p.spans[i+1]])
	}
	return p.args, p.pos, ""
}

// reset forgets the command just returned, and lets go of what an unusually
// long one needed.
func (p *parser) reset() {
	p.pos = 0
	if cap(p.args) > argsKept {
		p.args, p.spans = nil, nil
	}
}

// bulkHeader reads the "$5\r\n" at pos: the length, and the offset after the
// line (0 = not complete yet).
func bulkHeader(buf []byte, pos int, lim limits) (n, end int, perr string) {
	if pos >= len(buf) {
		return 0, 0, ""
	}
	if buf[pos] != '$' {
		return 0, 0, "ERR Protocol error: expected '$', got '" + string(buf[pos:pos+1]) + "'"
	}
	n, end, perr = header(buf, pos+1, errBulkTooLong, errBulkLen)
	switch {
	case perr != "" || end == 0:
		return 0, 0, perr
	case n < 0:
		return 0, 0, errBulkLen
	case n > maxBulkNoAuth && !lim.authed:
		return 0, 0, errBulkLenAuth
	case n > lim.bulk:
		return 0, 0, errBulkLen
	case end+n+2 > maxCommand:
		return 0, 0, errCommandTooBig
	}
	return n, end, ""
}

// shortHeader is header for one or two digits, which most are; end 0 says that it is for header.
func shortHeader(buf []byte, from int) (n, end int) {
	if len(buf) < from+4 {
		return 0, 0
	}
	b := buf[from : from+4]
	first, second := b[0]-'0', b[1]-'0'
	switch {
	case first <= 9 && b[1] == '\r' && b[2] == '\n':
		return int(first), from + 3
	case first <= 9 && first != 0 && second <= 9 && b[2] == '\r' && b[3] == '\n':
		return int(first)*10 + int(second), from + 4
	}
	return 0, 0
}

// header reads digits and CRLF at from: the number (-1 for any negative one) and
// the offset after the line, 0 if the line is not complete. Digits are added up
// by hand and counted, so no length a peer can write overflows.
func header(buf []byte, from int, tooLong, bad string) (n, end int, perr string) {
	if n, end := shortHeader(buf, from); end != 0 {
		return n, end, ""
	}
	i, negative := from, false
	if i < len(buf) && buf[i] == '-' {
		i, negative = i+1, true
	}
	first := i
	for ; i < len(buf) && buf[i] != '\r'; i++ {
		switch ch := buf[i]; {
		case i-from >= maxHeader:
			return 0, 0, tooLong
		case ch < '0' || ch > '9', i > first && buf[first] == '0':
			return 0, 0, bad
		case i-first >= maxLenDigits:
			return 0, 0, bad
		default:
			n = n*10 + int(ch-'0')
		}
	}
	switch {
	case i >= len(buf):
		return 0, 0, ""
	case i == first:
		return 0, 0, bad
	case i+1 >= len(buf):
		return 0, 0, ""
	case buf[i+1] != '\n':
		return 0, 0, bad
	}
	if negative {
		n = -1
	}
	return n, i + 2, ""
}
