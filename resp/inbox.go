package resp

// Sizes of an input buffer, in bytes.
const (
	firstRead  = 1 << 10                // what a new client's has
	steadyRead = 16 << 10               // what a client that fills it gets, and may keep when idle
	inMax      = maxCommand + maxHeader // what an unfinished command can need: the parser takes no longer one
)

// inbox is the input of a connection that is not executed yet.
type inbox struct {
	buf    []byte
	filled bool // the last read left no room
}

// room is free space to read into, behind what is there. It grows for a command
// that does not fit, and for a client whose reads fill it.
func (b *inbox) room() []byte {
	size := cap(b.buf)
	switch {
	case len(b.buf) == size:
		size = max(firstRead, min(4*size, inMax))
	case b.filled && size < steadyRead:
		size *= 4
	}
	if size > cap(b.buf) {
		b.buf = append(make([]byte, 0, size), b.buf...)
	}
	return b.buf[len(b.buf):cap(b.buf)]
}

// got notes n bytes read into room.
func (b *inbox) got(n int) {
	b.buf = b.buf[:len(b.buf)+n]
	b.filled = len(b.buf) == cap(b.buf)
}

// drop takes executed bytes off the front.
func (b *inbox) drop(taken int) {
	if taken == 0 {
		return
	}
	b.buf = b.buf[:copy(b.buf, b.buf[taken:])]
	if len(b.buf) == 0 && cap(b.buf) > steadyRead {
		b.buf = nil
	}
}

// keep makes rest all that is left of the input; rest may be a part of the
// inbox itself. What is empty takes no memory.
func (b *inbox) keep(rest []byte) {
	switch {
	case len(rest) == 0:
		b.buf = nil
	case cap(b.buf) > 0 && &rest[0] == &b.buf[:1][0]:
		b.buf = b.buf[:len(rest)] // nothing was taken: a long command is not copied at each read
	default:
		b.buf = append(b.buf[:0], rest...)
	}
}
