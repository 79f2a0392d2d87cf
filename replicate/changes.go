package replicate

import (
	"encoding/binary"
	"fmt"

	"github.com/rlserver/rlserver/shard"
)

// A changesHead is what a frame of changes says beside them.
type changesHead struct {
	term, number uint64
	clock        int64 // of the primary at the cut, ms
	wipe         bool
	more         bool
	later        bool
}

// appendChange appends one change, its deadline as a distance from clock.
func appendChange(dst []byte, clock int64, c *shard.Change) []byte {
	dst = append(dst, c.Space, c.Kind)
	dst = append(binary.AppendUvarint(dst, uint64(len(c.Key))), c.Key...)
	if c.Kind == 0 {
		return dst
	}
	dst = append(binary.AppendUvarint(dst, uint64(len(c.Value))), c.Value...)
	if c.Space == shard.KeySpace {
		dst = binary.AppendVarint(dst, c.Deadline-clock)
	}
	return dst
}

func (r *reader) change(clock int64) (c shard.Change) {
	c.Space, c.Kind = r.byte(), r.byte()
	c.Key = r.bytes(shard.MaxKeyBytes)
	if c.Kind == 0 {
		return c
	}
	c.Value = r.bytes(shard.MaxValueBytes)
	if c.Space == shard.KeySpace {
		c.Deadline = r.signed() + clock
		if c.Deadline < 0 || c.Deadline > shard.MaxDeadline {
			r.bad = true
		}
	}
	return c
}

func (r *reader) changes(clock int64, to []shard.Change) []shard.Change {
	for len(r.b) > 0 && !r.bad {
		to = append(to, r.change(clock))
	}
	return to
}

// appendRound appends a round of the feed as one frame, in parts: all of it is
// drained. last says where a new part begins, once the round has told all.
func appendRound(dst []byte, h changesHead, r *shard.Round) (out []byte, changes int) {
	h.wipe, h.more = r.Cleared, true
	last := len(dst)
	for {
		told := r.Next(maxPartChanges)
		if told == nil {
			break
		}
		last = len(dst)
		dst = appendPart(dst, h, told)
		changes += len(told)
		h.wipe = false
	}
	if changes == 0 {
		if !r.Cleared {
			return dst, 0
		}
		dst = appendPart(dst, h, nil)
	}
	dst[last+5] &^= flagMore
	return closeFrame(dst, last), changes
}

// maxPartChanges bounds a part beside the bytes of its drain: what is said of
// each change beyond its bytes (17 at most), and named limits, whose bytes a drain
// does not count, stay below MaxBodyBytes.
const maxPartChanges = 8 << 10

func appendPart(dst []byte, h changesHead, changes []shard.Change) []byte {
	var flags byte
	if h.more {
		flags |= flagMore
	}
	if h.wipe {
		flags |= flagWipe
	}
	if h.later {
		flags |= flagLater
	}
	dst, at := openFrame(dst, typeChanges, flags)
	dst = binary.AppendUvarint(dst, h.term)
	dst = binary.AppendUvarint(dst, h.number)
	dst = binary.AppendUvarint(dst, uint64(max(h.clock, 0)))
	for i := range changes {
		dst = appendChange(dst, h.clock, &changes[i])
	}
	return closeFrame(dst, at)
}

// readChangesHead reads the head alone, of a part that is kept for later.
func readChangesHead(f *frame) (h changesHead, r reader, err error) {
	r = reader{b: f.body}
	h.term, h.number, h.clock = r.num(), r.num(), r.ms()
	h.wipe, h.more, h.later = f.flags&flagWipe != 0, f.flags&flagMore != 0, f.flags&flagLater != 0
	if r.bad {
		err = errFrame
	}
	return h, r, err
}

// readRound reads all parts of one frame, that lie end to end.
func readRound(raw []byte, to []shard.Change) (h changesHead, changes []shard.Change, err error) {
	changes = to
	wipe, more := false, true
	for first := true; len(raw) > 0; first = false {
		f, need, err := nextFrame(raw)
		if err != nil || need > 0 || f.kind != typeChanges || !more {
			return h, nil, errFrame
		}
		part, r, err := readChangesHead(&f)
		if err != nil || !first && part.number != h.number {
			return h, nil, errFrame
		}
		changes = r.changes(part.clock, changes)
		if r.end() != nil {
			return h, nil, fmt.Errorf("%w: change %d of frame %d", errFrame, len(changes), part.number)
		}
		wipe, more, h = wipe || part.wipe, part.more, part
		raw = raw[len(f.raw):]
	}
	if more {
		return h, nil, errFrame
	}
	h.wipe = wipe
	return h, changes, nil
}

// chunkBytes is where a chunk of a full sync ends and the next one begins.
const chunkBytes = 256 << 10

// appendChunks appends entries of a full sync, as one frame or several.
func appendChunks(dst []byte, clock int64, changes []shard.Change) []byte {
	for len(changes) > 0 {
		var at int
		dst, at = openFrame(dst, typeChunk, 0)
		dst = binary.AppendUvarint(dst, uint64(max(clock, 0)))
		for len(changes) > 0 && len(dst)-at < chunkBytes {
			dst = appendChange(dst, clock, &changes[0])
			changes = changes[1:]
		}
		dst = closeFrame(dst, at)
	}
	return dst
}

func readChunk(f *frame, to []shard.Change) (clock int64, changes []shard.Change, err error) {
	r := reader{b: f.body}
	clock = r.ms()
	changes = r.changes(clock, to)
	return clock, changes, r.end()
}
