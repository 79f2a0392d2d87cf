package shard

import (
	"encoding/binary"
	"fmt"
)

// Bounds of what the keyspace holds. A caller checks them before it writes; a
// Put that breaks one panics.
const (
	// MaxKeyBytes is the longest key, in bytes.
	MaxKeyBytes = 1024
	// MaxValueBytes is the longest value, in bytes: what fits one chunk beside
	// the longest key and the record's header.
	MaxValueBytes = 62 << 10
	// MaxDeadline is the largest deadline, in ms since the epoch, that an entry
	// can carry (about 8900 years); larger ones are clamped to it.
	MaxDeadline = 1<<48 - 1
)

// A record is one entry as it lies in a chunk, from its first byte to the end
// of the chunk:
//
//	0      flags
//	1      kind
//	2..7   deadline, ms, little endian
//	8..9   length of the key
//	10..11 length of the value, and of what is behind it
//	12..   key, value; what is held for the first feed, see held.go
type record []byte

const headerBytes = 12

// The flags of a record. The low four bits say which change sets list it as
// changed: feed f, round parity p is bit 2f+p. That bit, and not the list, is
// the truth: a listed record without it has nothing to tell in that round.
const (
	flagDirty = 0x0f
	flagGone  = 0x10 // not in the index any more: deleted, or moved to another slot
	flagTomb  = 0x20 // gone because the key was deleted; a round has to say so
	flagFree  = 0x80 // a slot on its chunk's free list
)

func (r record) flags() byte     { return r[0] }
func (r record) kind() byte      { return r[1] }
func (r record) deadline() int64 { return int64(binary.LittleEndian.Uint64(r) >> 16) }
func (r record) keyLen() int     { return int(binary.LittleEndian.Uint16(r[8:])) }
func (r record) payload() int    { return int(binary.LittleEndian.Uint16(r[10:])) } // value and what is behind it
func (r record) size() int       { return headerBytes + r.keyLen() + r.payload() }

func (r record) valueLen() int {
	n := r.payload()
	return n - r.behind(n)
}

func (r record) key() []byte {
	n := headerBytes + r.keyLen()
	return r[headerBytes:n:n]
}

func (r record) value() []byte {
	from := headerBytes + r.keyLen()
	to := from + r.valueLen()
	return r[from:to:to]
}

// setHead writes kind and deadline and leaves the flags as they are.
func (r record) setHead(kind byte, deadline int64) {
	binary.LittleEndian.PutUint64(r, uint64(r[0])|uint64(kind)<<8|uint64(deadline)<<16)
}

// setValue overwrites the value of a record with nothing behind it. The slot must
// have room for it; value may be the record's own.
func (r record) setValue(value []byte) {
	binary.LittleEndian.PutUint16(r[10:], uint16(len(value)))
	copy(r[headerBytes+r.keyLen():], value)
}

// write fills a fresh slot, with no flags set.
func (r record) write(key []byte, kind byte, value []byte, deadline int64) {
	r[0] = 0
	r.setHead(kind, deadline)
	binary.LittleEndian.PutUint16(r[8:], uint16(len(key)))
	copy(r[headerBytes:], key)
	r.setValue(value)
}

// appendChange appends the record as a change whose bytes are copied to buf, as a
// feed tells it.
func (r record) appendChange(out []Change, buf []byte, feed int) ([]Change, []byte) {
	c := Change{Kind: r.kind(), Deadline: r.deadline()}
	from := len(buf)
	buf = append(buf, r.key()...)
	mid := len(buf)
	if r.flags()&flagTomb == 0 {
		if feed == 0 {
			buf = append(buf, r.told()...)
		} else {
			buf = append(buf, r.value()...)
		}
		c.Value = buf[mid:len(buf):len(buf)]
	} else {
		c.Kind, c.Deadline = 0, 0
	}
	c.Key = buf[from:mid:mid]
	return append(out, c), buf
}

func checkEntry(key []byte, kind byte, value []byte) error {
	switch {
	case len(key) > MaxKeyBytes:
		return fmt.Errorf("key of %d bytes: at most %d are held", len(key), MaxKeyBytes)
	case len(value) > MaxValueBytes:
		return fmt.Errorf("value of %d bytes: at most %d are held", len(value), MaxValueBytes)
	case kind == 0:
		return fmt.Errorf("kind 0 is a tombstone, not an entry")
	}
	return nil
}
