package shard

import (
	"encoding/binary"
	"math/bits"
	"sort"
)

// A ref names a slot: the chunk's number in the high bits, the slot's place in
// the chunk, in units of slotUnit bytes, in the low ones.
type ref uint32

const (
	slotUnit      = 4
	maxChunkBytes = 64 << 10
	minChunkBytes = 1 << 10
	placeBits     = 14 // maxChunkBytes / slotUnit places
	maxChunks     = 1 << (32 - placeBits)
	minSlotBytes  = 24
	fineSlotBytes = 128 // up to here every multiple of slotUnit is a class
	none          = -1  // no chunk
	noSlot        = 0xffff
)

// slotSizes are the sizes of slots, ascending: steps of slotUnit first, then of
// about an eighth.
var slotSizes = func() []int {
	var sizes []int
	for n := minSlotBytes; n < maxChunkBytes; {
		sizes = append(sizes, n)
		step := slotUnit
		if n >= fineSlotBytes {
			step = (n/8 + slotUnit - 1) &^ (slotUnit - 1)
		}
		n += step
	}
	return append(sizes, maxChunkBytes)
}()

// classOf returns the smallest class whose slots hold n bytes.
func classOf(n int) uint8 {
	if n <= fineSlotBytes {
		return uint8((max(n, minSlotBytes) - minSlotBytes + slotUnit - 1) / slotUnit)
	}
	return uint8(sort.SearchInts(slotSizes, n))
}

// An arena hands out slots of memory by size. Slots of one size share chunks;
// chunks hold no pointers, so the garbage collector sees one pointer for each
// 64 KiB of records. A chunk whose last slot is freed goes back to the runtime.
// The shard's lock guards it.
type arena struct {
	bufs    [][]byte    // by chunk number; nil when the number is not in use
	meta    []chunkMeta // by chunk number
	unused  []uint32    // chunk numbers to use again
	classes []classMeta // by class; made with the first slot
	held    int         // bytes of all chunks
	live    int         // bytes of all slots handed out
	slots   int         // slots handed out
	compact compaction
}

type chunkMeta struct {
	prev, next int32  // the class's list of chunks with room
	slots      uint16 // slots in the chunk
	used       uint16 // slots handed out
	fresh      uint16 // slots never handed out begin with this one
	free       uint16 // place of the first slot on the free list, or noSlot
	class      uint8
	listed     bool // on the list of chunks with room
	victim     bool // being emptied: hands out no slot
}

type classMeta struct {
	room int32 // first chunk with room, or none
	held int   // bytes of the class's chunks
}

func (a *arena) at(r ref) record {
	return record(a.bufs[r>>placeBits][(r&(1<<placeBits-1))*slotUnit:])
}

// slotBytes is the size of the slot that r names.
func (a *arena) slotBytes(r ref) int {
	return slotSizes[a.meta[r>>placeBits].class]
}

// alloc hands out a slot of at least n bytes. Its content is arbitrary.
func (a *arena) alloc(n int) ref {
	if a.classes == nil {
		a.classes = make([]classMeta, len(slotSizes))
		for i := range a.classes {
			a.classes[i].room = none
		}
	}
	class := classOf(n)
	ci := a.classes[class].room
	if ci == none {
		ci = a.grow(class)
	}
	m := &a.meta[ci]
	place := m.free
	if place != noSlot {
		slot := a.bufs[ci][int(place)*slotUnit:]
		if slot[0] != flagFree {
			panic("shard: a slot on the free list is in use")
		}
		m.free = binary.LittleEndian.Uint16(slot[8:])
	} else {
		place = uint16(int(m.fresh) * slotSizes[class] / slotUnit)
		m.fresh++
	}
	m.used++
	if m.used == m.slots {
		a.unlist(ci)
	}
	a.live += slotSizes[class]
	a.slots++
	return ref(ci)<<placeBits | ref(place)
}

// free takes a slot back.
func (a *arena) free(r ref) {
	ci := int32(r >> placeBits)
	m, slot := &a.meta[ci], a.at(r)
	if slot[0]&flagFree != 0 {
		panic("shard: slot freed twice")
	}
	slot[0] = flagFree
	binary.LittleEndian.PutUint16(slot[8:], m.free)
	m.free = uint16(r & (1<<placeBits - 1))
	m.used--
	a.live -= slotSizes[m.class]
	a.slots--
	if !m.listed && !m.victim {
		a.list(ci)
	}
	if m.used > 0 {
		return
	}
	m.fresh, m.free = 0, noSlot
	// One empty chunk stays, so that an entry that comes and goes costs no
	// chunk each time; trim takes it.
	if m.victim || m.prev != none || m.next != none {
		a.release(ci)
	}
}

// trim gives the empty chunks back.
func (a *arena) trim() {
	for c := range a.classes {
		if ci := a.classes[c].room; ci != none && a.meta[ci].used == 0 {
			a.release(ci)
		}
	}
}

// grow adds a chunk to the class: small at first, then in step with what the
// class holds, so that few entries waste little and many do not copy anything.
func (a *arena) grow(class uint8) int32 {
	size := slotSizes[class]
	target := min(max(a.classes[class].held/4, minChunkBytes), maxChunkBytes)
	target = 1 << bits.Len(uint(target-1))
	slots := max(target/size, 1)
	var ci uint32
	if n := len(a.unused); n > 0 {
		ci, a.unused = a.unused[n-1], a.unused[:n-1]
	} else {
		ci = uint32(len(a.bufs))
		if ci == maxChunks {
			panic("shard: more than 2^32 slots in one shard")
		}
		a.bufs = append(a.bufs, nil)
		a.meta = append(a.meta, chunkMeta{})
	}
	// Whole power-of-two sizes are what the runtime's allocator has without waste.
	n := max(target, slots*size)
	a.bufs[ci] = make([]byte, n)
	a.meta[ci] = chunkMeta{prev: none, next: none, slots: uint16(slots), free: noSlot, class: class}
	a.held += n
	a.classes[class].held += n
	a.list(int32(ci))
	return int32(ci)
}

// release gives an empty chunk back to the runtime.
func (a *arena) release(ci int32) {
	m := &a.meta[ci]
	if m.used != 0 {
		panic("shard: a chunk in use released")
	}
	if m.listed {
		a.unlist(ci)
	}
	a.held -= len(a.bufs[ci])
	a.classes[m.class].held -= len(a.bufs[ci])
	a.bufs[ci] = nil
	*m = chunkMeta{}
	a.unused = append(a.unused, uint32(ci))
}

// list makes a chunk the first of those with room. An empty one is alone on
// the list or goes.
func (a *arena) list(ci int32) {
	m, c := &a.meta[ci], &a.classes[a.meta[ci].class]
	if c.room != none && a.meta[c.room].used == 0 {
		a.release(c.room)
	}
	m.prev, m.next, m.listed = none, c.room, true
	if c.room != none {
		a.meta[c.room].prev = ci
	}
	c.room = ci
}

func (a *arena) unlist(ci int32) {
	m := &a.meta[ci]
	if m.prev != none {
		a.meta[m.prev].next = m.next
	} else {
		a.classes[m.class].room = m.next
	}
	if m.next != none {
		a.meta[m.next].prev = m.prev
	}
	m.prev, m.next, m.listed = none, none, false
}
