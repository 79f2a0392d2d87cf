package engine

// Parts of an entry's first byte.
const (
	flagBlocked    = 1 << 0 // blocked_until is present
	flagMask       = 0x0f
	algorithmShift = 4
)

// maxBlocked is the latest end of a penalty, in Unix ms.
const maxBlocked = MaxNow + MaxPenalty

// entry is what the bytes of an entry say.
type entry struct {
	limit   Limit
	state   state
	ts      int64 // Unix ms
	blocked int64 // Unix ms, later than ts; 0 = no penalty
}

// appendEntry appends the bytes of e. A penalty that is over at ts is left out: no later call can fall before it.
func appendEntry(dst []byte, e *entry) []byte {
	first := byte(e.limit.Algorithm) << algorithmShift
	if e.blocked > e.ts {
		first |= flagBlocked
	}
	dst = append(dst, first)
	dst = appendUvarint(dst, uint64(e.ts))
	if e.blocked > e.ts {
		dst = appendUvarint(dst, uint64(e.blocked))
	}
	return algorithms[e.limit.Algorithm].appendEntry(dst, e.limit, e.state)
}

// readEntry reads bytes that appendEntry made. It refuses whatever else it can tell apart without dividing.
func readEntry(b []byte) (e entry, err error) {
	if len(b) == 0 {
		return e, ErrMalformed
	}
	a := Algorithm(b[0] >> algorithmShift)
	r := a.row()
	flags := b[0] & flagMask
	if r == nil || flags&^flagBlocked != 0 {
		return e, ErrMalformed
	}
	v, at := uvarint(b, 1)
	if at == 0 || v > uint64(MaxNow) {
		return e, ErrMalformed
	}
	e.ts = int64(v)
	if flags&flagBlocked != 0 {
		v, at = uvarint(b, at)
		if at == 0 || v > uint64(maxBlocked) || v <= uint64(e.ts) {
			return e, ErrMalformed
		}
		e.blocked = int64(v)
	}
	var ok bool
	if e.limit, e.state, ok = r.readEntry(b[at:]); !ok {
		return e, ErrMalformed
	}
	e.limit.Algorithm = a
	return e, nil
}

// appendUvarint appends v, 7 bits a byte, low bits first.
func appendUvarint(dst []byte, v uint64) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// uvarint reads the uvarint at b[at:] and returns where it ends, 0 if it is cut off, not in its shortest form or more than 64 bits.
func uvarint(b []byte, at int) (v uint64, end int) {
	for shift := uint(0); at < len(b) && shift < 64; shift += 7 {
		c := b[at]
		at++
		if c < 0x80 {
			if c == 0 && shift > 0 || shift == 63 && c > 1 {
				return 0, 0
			}
			return v | uint64(c)<<shift, at
		}
		v |= uint64(c&0x7f) << shift
	}
	return 0, 0
}

// zigzag folds small numbers of either sign onto small unsigned ones; unzigzag is its inverse.
func zigzag(n int64) uint64   { return uint64(n)<<1 ^ uint64(n>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }
