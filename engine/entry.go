package engine

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Parts of an entry's first byte.
const (
	flagBlocked    = 1 << 0 // blocked_until is present
	flagNamed      = 1 << 1 // the limit's name is present
	flagAligned    = 1 << 2 // fixed: aligned windows
	flagAhead      = 1 << 3 // certain_from is present
	flagMask       = 0x0f
	algorithmShift = 4
)

// maxBlocked is the latest end of a penalty, in Unix ms.
const maxBlocked = MaxNow + MaxPenalty

// entry is what the bytes of an entry say.
type entry struct {
	limit   Limit  // Name is not set by reading
	name    []byte // the name as it was read, aliasing those bytes; nil where limit is a call's
	state   state
	ts      int64 // Unix ms
	certain int64 // Unix ms, later than ts, from which on the state is no more ahead; 0 = it is not
	blocked int64 // Unix ms, later than ts; 0 = no penalty
}

// EntryRoom is the free capacity, in bytes, with which a dst is never reallocated for an entry without a name, unless it is a sliding log's.
const EntryRoom = 64

// headRoom is what everything before the state but the name takes at most: a byte and six uvarints, with what the last putUvarint may
// write beyond.
const headRoom = 64

// appendEntry appends the bytes of e. A penalty that is over at ts is left out: no later call can fall before it.
func appendEntry(dst []byte, e *entry) []byte {
	head := roomFor(&dst)
	head[0] = byte(e.limit.Algorithm) << algorithmShift
	if e.limit.Aligned {
		head[0] |= flagAligned
	}
	n := putUvarint(head, 1, uint64(e.ts))
	if e.certain > e.ts {
		head[0] |= flagAhead
		n = putUvarint(head, n, uint64(e.certain%MaxNow))
	}
	if e.blocked > e.ts {
		head[0] |= flagBlocked
		n = putUvarint(head, n, uint64(e.blocked))
	}
	if len(e.limit.Name)+len(e.name) > 0 {
		head[0] |= flagNamed
		dst = appendName(dst[:len(dst)+n], e)
		head, n = roomFor(&dst), 0
	}
	if e.limit.Window > 0 {
		n = putUvarint(head, n, uint64(e.limit.Window))
	} else {
		n = putUvarint(head, n, uint64(e.limit.P))
		n = putUvarint(head, n, uint64(e.limit.Q))
	}
	n = putUvarint(head, n, uint64(e.limit.Capacity))
	return e.appendState(dst[:len(dst)+n])
}

// roomFor makes room for an entry behind dst and returns where its head goes.
func roomFor(dst *[]byte) *[headRoom]byte {
	b := *dst
	if cap(b)-len(b) < EntryRoom {
		b = slices.Grow(b, EntryRoom)
		*dst = b
	}
	return (*[headRoom]byte)(b[len(b) : len(b)+headRoom])
}

// appendName appends the name of the call's limit, or else the one that was read.
func appendName(dst []byte, e *entry) []byte {
	if len(e.limit.Name) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(e.limit.Name)))
		return append(dst, e.limit.Name...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(e.name)))
	return append(dst, e.name...)
}

// read sets e, which must be zero but for the log's room, to what bytes that appendEntry made say. It refuses whatever else it can tell apart
// cheaply; e is then undefined.
func (e *entry) read(b []byte) error {
	if len(b) == 0 {
		return ErrMalformed
	}
	a, flags := Algorithm(b[0]>>algorithmShift), b[0]&flagMask
	ts, at := uvarint(b, 1)
	if flags&flagAhead != 0 {
		if at = e.readCertain(b, at, ts); a == Log {
			return ErrMalformed
		}
	}
	var blocked uint64
	if flags&flagBlocked != 0 {
		if blocked, at = uvarint(b, at); blocked <= ts || blocked > uint64(maxBlocked) {
			return ErrMalformed
		}
	}
	if flags&flagNamed != 0 {
		if e.name, at = readName(b, at); at < 0 {
			return ErrMalformed
		}
	}
	var p, q, window uint64
	if a == Bucket {
		p, at = uvarint(b, at)
		q, at = uvarint(b, at)
	} else {
		window, at = uvarint(b, at)
	}
	capacity, at := uvarint(b, at)
	e.ts, e.blocked = int64(ts), int64(blocked)
	e.limit.Algorithm, e.limit.Aligned = a, flags&flagAligned != 0
	e.limit.P, e.limit.Q, e.limit.Window, e.limit.Capacity = int64(p), int64(q), int64(window), int64(capacity)
	// A number above the largest int64 turned negative there and is refused with the limit.
	if at < 0 || ts > uint64(MaxNow) || !e.readState(b[at:]) {
		return ErrMalformed
	}
	return nil
}

// readCertain reads certain_from at b[at:] and returns where it ends, -1 if it is none.
func (e *entry) readCertain(b []byte, at int, ts uint64) (end int) {
	certain, end := uvarint(b, at)
	if certain == 0 {
		certain = uint64(MaxNow)
	} else if certain >= uint64(MaxNow) {
		return -1
	}
	if certain <= ts {
		return -1
	}
	e.certain = int64(certain)
	return end
}

// readName reads a name at b[at:] and returns where it ends, -1 if it is empty, too long or cut off.
func readName(b []byte, at int) (name []byte, end int) {
	n, at := uvarint(b, at)
	if at < 0 || n == 0 || n > MaxNameBytes || n > uint64(len(b)-at) {
		return nil, -1
	}
	end = at + int(n)
	return b[at:end:end], end
}

// Masks of the two halves, four quarters and eight bytes among which the 56 low bits of a number are spread, 7 to a byte.
const (
	low28, high28 = 0x000000000fffffff, 0x00fffffff0000000
	low14, high14 = 0x00003fff00003fff, 0x0fffc0000fffc000
	low7, high7   = 0x007f007f007f007f, 0x3f803f803f803f80
	more          = 0x8080808080808080 // the bits that say another byte follows
)

// putUvarint writes v at buf[at:], 7 bits a byte, low bits first, and returns where it ends. Up to 56 bits are written as one word, which
// BenchmarkAcquire measures against a loop; what the word holds beyond the end is overwritten later or cut off.
func putUvarint(buf *[headRoom]byte, at int, v uint64) (end int) {
	if v < 0x80 {
		buf[at] = byte(v)
		return at + 1
	}
	return putLong(buf, at, v)
}

// putLong is putUvarint for two bytes and more, apart so that putUvarint is inlined.
func putLong(buf *[headRoom]byte, at int, v uint64) (end int) {
	for v >= 1<<56 {
		buf[at] = byte(v) | 0x80
		v >>= 7
		at++
	}
	w := v&low28 | v&high28<<4
	w = w&low14 | w&high14<<2
	w = w&low7 | w&high7<<1
	n := (bits.Len64(v) + 6) / 7
	w |= more & (1<<(8*(n-1)) - 1)
	binary.LittleEndian.PutUint64(buf[at:], w)
	return at + n
}

// uvarint reads the uvarint at b[at:] and returns where it ends: -1 if it is cut off, not in its shortest form or more than 64 bits, or if
// at was -1 already. Up to 56 bits are read as one word where the bytes reach that far.
func uvarint(b []byte, at int) (v uint64, end int) {
	if uint(at) >= uint(len(b)) {
		return 0, -1
	}
	if c := b[at]; c < 0x80 {
		return uint64(c), at + 1
	}
	if at+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[at:])
		if ends := ^w & more; ends != 0 {
			size := bits.TrailingZeros64(ends) + 1 // in bits
			w &= 1<<size - 1
			if w>>(size-8) == 0 {
				return 0, -1
			}
			w = w&low7 | w>>1&(low7<<7)
			w = w&low14 | w>>2&high14
			w = w&low28 | w>>4&high28
			return w, at + size/8
		}
	}
	for shift := uint(0); at < len(b) && shift < 64; shift += 7 {
		c := b[at]
		at++
		if c < 0x80 {
			if c == 0 && shift > 0 || shift == 63 && c > 1 {
				return 0, -1
			}
			return v | uint64(c)<<shift, at
		}
		v |= uint64(c&0x7f) << shift
	}
	return 0, -1
}

// zigzag folds small numbers of either sign onto small unsigned ones; unzigzag is its inverse.
func zigzag(n int64) uint64   { return uint64(n)<<1 ^ uint64(n>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }
