package shard

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/bits"
)

// A table is the index of one shard with the records it points to: an
// extendible hash table. The top bits of a key's hash choose an entry of the
// directory, that names a segment; only a full segment splits, alone, so
// growing never copies the whole table. The shard's lock guards it.
type table struct {
	seed     maphash.Seed
	dir      []*segment // 1<<depth entries; nil while the table has never held a key
	depth    uint8
	byDepth  [maxDepth + 1]int32 // segments of each depth
	segments int
	keys     int
	arena    arena
}

const (
	bucketSlots    = 12
	segmentBuckets = 15
	segmentSlots   = bucketSlots * segmentBuckets
	segmentBytes   = 1024
	// splitAt is the fill at which a segment splits: fuller ones make the
	// search for an absent key pass many buckets.
	splitAt = segmentSlots * 14 / 15
	// mergeAt is the fill of two sister segments together below which they
	// become one; far enough from splitAt that neither follows the other at once.
	mergeAt = splitAt / 2
	// maxDepth is how many of the hash's bits a directory can use: those that
	// do not choose the shard, the bucket or the tag.
	maxDepth = 24
)

// A segment is 1024 bytes without pointers: one cache line of head and 15 of
// buckets.
type segment struct {
	buckets [segmentBuckets]bucket
	// due is no later than the earliest deadline in the segment, ms.
	due   int64
	count uint16
	depth uint8 // how many top bits of the hash the segment's keys share
	_     [64 - 11]byte
}

// A bucket is one cache line: 12 tags of one byte, 0 for an empty slot, the
// number of entries that belong here or before but found their place only in a
// later bucket, and the 12 refs.
type bucket struct {
	tags [16]byte // [12:14] is the overflow count, [14:] unused
	refs [bucketSlots]ref
}

func (b *bucket) overflow() uint16 { return binary.LittleEndian.Uint16(b.tags[bucketSlots:]) }
func (b *bucket) passed(d uint16) {
	binary.LittleEndian.PutUint16(b.tags[bucketSlots:], b.overflow()+d)
}

// A hash is used up like this: the low bits (at most 10) choose the shard, 8
// bits from 16 the tag, 16 bits from 24 the bucket, the top bits the segment.
func tagOf(h uint64) byte { return max(byte(h>>16), 1) }
func homeOf(h uint64) int { return int((h >> 24 & 0xffff) * segmentBuckets >> 16) }

// A spot is where a key lies in the index; the zero spot is nowhere.
type spot struct {
	seg *segment
	ref ref
	n   uint32 // bucket * bucketSlots + slot in it
}

func spotAt(seg *segment, r ref, bucket, slot int) spot {
	return spot{seg, r, uint32(bucket*bucketSlots + slot)}
}

func (at spot) hit() bool   { return at.seg != nil }
func (at spot) bucket() int { return int(at.n / bucketSlots) }
func (at spot) slot() int   { return int(at.n % bucketSlots) }

const (
	everyByte = 0x0101010101010101
	highBits  = 0x8080808080808080
)

// equalBytes marks, in the high bit of each byte, the bytes of w that are equal
// to those of x, and no others: an empty slot's ref leads nowhere.
func equalBytes(w, x uint64) uint64 {
	d := w ^ x
	return ^((d &^ highBits) + ^uint64(highBits) | d) & highBits
}

func (t *table) hash(key []byte) uint64 { return maphash.Bytes(t.seed, key) }

func (t *table) segmentOf(h uint64) *segment { return t.dir[h>>(64-t.depth)] }

// find looks a key up.
func (t *table) find(h uint64, key []byte) spot {
	if t.dir == nil {
		return spot{}
	}
	seg := t.segmentOf(h)
	tags := uint64(tagOf(h)) * everyByte
	b := homeOf(h)
	for range segmentBuckets {
		bk := &seg.buckets[b]
		low := binary.LittleEndian.Uint64(bk.tags[:])
		for m := equalBytes(low, tags); m != 0; m &= m - 1 {
			i := bits.TrailingZeros64(m) / 8
			if t.holds(bk.refs[i], key) {
				return spotAt(seg, bk.refs[i], b, i)
			}
		}
		high := binary.LittleEndian.Uint64(bk.tags[8:])
		for m := equalBytes(high, tags) & (highBits >> 32); m != 0; m &= m - 1 {
			i := 8 + bits.TrailingZeros64(m)/8
			if t.holds(bk.refs[i], key) {
				return spotAt(seg, bk.refs[i], b, i)
			}
		}
		if uint16(high>>32) == 0 {
			break
		}
		if b++; b == segmentBuckets {
			b = 0
		}
	}
	return spot{}
}

func (t *table) holds(r ref, key []byte) bool {
	rec := t.arena.at(r)
	return rec.keyLen() == len(key) && string(rec[headerBytes:headerBytes+len(key)]) == string(key)
}

// insert adds a key that the table does not hold.
func (t *table) insert(h uint64, r ref, deadline int64) spot {
	if t.dir == nil {
		t.dir = []*segment{{due: math.MaxInt64}}
		t.segments, t.byDepth[0] = 1, 1
	}
	seg := t.segmentOf(h)
	for seg.count >= splitAt {
		t.split(seg, h)
		seg = t.segmentOf(h)
	}
	t.keys++
	return seg.add(h, r, deadline)
}

// expect makes the segments for about n keys, in a table that has none yet: as
// many as fill to less than splitAt on average. Those above it split still, as
// they would have in a table that grew, so the index is not much larger.
func (t *table) expect(n int) {
	if t.dir != nil || n <= 0 {
		return
	}
	for t.depth < maxDepth && n>>t.depth >= splitAt {
		t.depth++
	}
	t.dir = make([]*segment, 1<<t.depth)
	for i := range t.dir {
		t.dir[i] = &segment{due: math.MaxInt64, depth: t.depth}
	}
	t.segments, t.byDepth[t.depth] = len(t.dir), int32(len(t.dir))
}

// add puts a key into a segment that has room.
func (s *segment) add(h uint64, r ref, deadline int64) spot {
	tag, b := tagOf(h), homeOf(h)
	s.count++
	s.due = min(s.due, deadline)
	for {
		bk := &s.buckets[b]
		for i := range bucketSlots {
			if bk.tags[i] == 0 {
				bk.tags[i], bk.refs[i] = tag, r
				return spotAt(s, r, b, i)
			}
		}
		bk.passed(1)
		if b++; b == segmentBuckets {
			b = 0
		}
	}
}

// remove takes the key at a spot out of the index; its record stays.
func (t *table) remove(h uint64, at spot) {
	bk, i := &at.seg.buckets[at.bucket()], at.slot()
	if bk.tags[i] != tagOf(h) || bk.refs[i] != at.ref {
		panic("shard: removed a key from where it is not")
	}
	bk.tags[i], bk.refs[i] = 0, 0
	for b := homeOf(h); b != at.bucket(); {
		at.seg.buckets[b].passed(^uint16(0))
		if b++; b == segmentBuckets {
			b = 0
		}
	}
	at.seg.count--
	if at.seg.count == 0 {
		at.seg.due = math.MaxInt64
	}
	t.keys--
}

// split divides a full segment, the one of hash h, in two.
func (t *table) split(seg *segment, h uint64) {
	if seg.depth == t.depth {
		t.double()
	}
	old := *seg
	depth := old.depth + 1
	*seg = segment{due: math.MaxInt64, depth: depth}
	sister := &segment{due: math.MaxInt64, depth: depth}
	t.segments++
	t.byDepth[depth-1]--
	t.byDepth[depth] += 2
	from, n := t.span(h, depth-1)
	for i := from + n/2; i < from+n; i++ {
		t.dir[i] = sister
	}
	t.refill(&old)
}

// merge makes one of the segment of hash h and its sister, if both have few
// keys, and says whether it did.
func (t *table) merge(seg *segment, h uint64) bool {
	if seg.depth == 0 || seg.count > mergeAt {
		return false
	}
	sister := t.segmentOf(h ^ 1<<(64-seg.depth))
	if sister.depth != seg.depth || seg.count+sister.count > mergeAt {
		return false
	}
	old, other := *seg, *sister
	depth := old.depth - 1
	*seg = segment{due: math.MaxInt64, depth: depth}
	from, n := t.span(h, depth)
	for i := from; i < from+n; i++ {
		t.dir[i] = seg
	}
	t.segments--
	t.byDepth[depth+1] -= 2
	t.byDepth[depth]++
	t.refill(&old)
	t.refill(&other)
	if t.byDepth[t.depth] == 0 {
		t.halve()
	}
	return true
}

// halve takes one bit from the directory, that no segment needs.
func (t *table) halve() {
	dir := make([]*segment, len(t.dir)/2)
	for i := range dir {
		dir[i] = t.dir[2*i]
	}
	t.dir = dir
	t.depth--
}

// double gives the directory one more bit.
func (t *table) double() {
	if t.depth == maxDepth {
		panic("shard: the hash does not tell the keys of a segment apart")
	}
	dir := make([]*segment, 2*len(t.dir))
	for i, seg := range t.dir {
		dir[2*i], dir[2*i+1] = seg, seg
	}
	t.dir = dir
	t.depth++
}

// span is the part of the directory, first entry and number of entries, that
// names the segment of hash h if that has the depth.
func (t *table) span(h uint64, depth uint8) (from, n int) {
	n = 1 << (t.depth - depth)
	return int(h>>(64-t.depth)) &^ (n - 1), n
}

// refill adds the keys of a former segment to the segments that are now theirs.
func (t *table) refill(old *segment) {
	for b := range old.buckets {
		bk := &old.buckets[b]
		for i := range bucketSlots {
			if bk.tags[i] == 0 {
				continue
			}
			rec := t.arena.at(bk.refs[i])
			h := t.hash(rec.key())
			t.segmentOf(h).add(h, bk.refs[i], rec.deadline())
		}
	}
}
