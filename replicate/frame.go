package replicate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/rlserver/rlserver/shard"
)

// The wire. After one line each way (RL.SYNC and its answer) a connection
// carries frames, in both directions:
//
//	0..3   length of the body, little endian, at most MaxBodyBytes
//	4      type
//	5      flags
//	6..7   version of the format, 1
//	8..11  CRC32C of bytes 0 to 7 and the body
//	12..   body
//
// Numbers in a body are unsigned varints but where it is said; a string is its
// length and its bytes. A change is: space, kind (a byte each), key and value
// (strings, the value left out in a tombstone), and for an entry the deadline
// less the frame's clock, ms, signed varint.

// A frameType says what a frame's body is.
type frameType byte

const (
	// typeChanges: term, number, clock (ms), changes: what one round of the
	// primary's feed told, or with flagMore a part of it.
	typeChanges frameType = 1
	// typeChunk: clock (ms), changes: entries and named limits of a full sync.
	typeChunk frameType = 2
	// typeWhole: number: with the frame of this number a full sync is complete.
	typeWhole frameType = 3
	// typeBeat: term, clock (ms), stamp, number last cut, term and beginning of the
	// lead that the content is of, then the nodes: how many, and of each id and address.
	typeBeat frameType = 4
	// typeAck: number applied last, stamp of the beat heard last. It answers each frame of
	// changes at once, but those with flagLater in ackEvery.
	typeAck frameType = 5
	// typePull: term, id and address of who is being promoted: the asked node obeys
	// no lower term from now on, sends what it has and then typePulled.
	typePull frameType = 6
	// typePulled: term, number of the last frame there is, term of its lead, history.
	// With flagFenced it comes from who led until now, with flagSure besides from who
	// might have decided up to now; with flagStale from who knows a term as high as the
	// asker's, with flagLed from who leads or has a primary; with flagOther the history
	// is another or goes not back far enough, and with flagWhole the asker may send
	// typeFull, with flagAll it is of who led and was stopped cleanly.
	typePulled frameType = 7
	// typeFull: the asker wants all that there is: chunks and typeWhole.
	typeFull frameType = 8
)

const (
	flagMore   = 1 // typeChanges: another part follows
	flagWipe   = 2 // typeChanges: every entry goes before the changes
	flagLater  = 4 // typeChanges: nobody waits for the ack
	flagFenced = 1 // typePulled
	flagStale  = 2
	flagOther  = 4
	flagSure   = 8
	flagLed    = 16
	flagWhole  = 32
	flagAll    = 64
)

const (
	frameHead    = 12
	wireVersion  = 1
	maxStringLen = 256 // of an id or an address
	maxPeers     = 64  // replicas told by a beat
	// MaxBodyBytes is the longest body of a frame: a drain of the feed (1 MiB), the
	// change that went over it, and what is said beside the bytes of changes.
	MaxBodyBytes = 2 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A frame is one as it came: body and raw are valid until the next one is read.
type frame struct {
	kind  frameType
	flags byte
	body  []byte
	raw   []byte // head and body
}

// errFrame is what all that is wrong with a frame is: the connection is of no
// use any more.
var errFrame = errors.New("malformed frame")

// openFrame appends the head of a frame; closeFrame completes it when the body
// was appended.
func openFrame(dst []byte, kind frameType, flags byte) (out []byte, at int) {
	at = len(dst)
	return append(dst, 0, 0, 0, 0, byte(kind), flags, wireVersion, 0, 0, 0, 0, 0), at
}

func closeFrame(dst []byte, at int) []byte {
	f := dst[at:]
	if len(f)-frameHead > MaxBodyBytes {
		panic(fmt.Sprintf("replicate: frame of %d bytes", len(f)))
	}
	binary.LittleEndian.PutUint32(f, uint32(len(f)-frameHead))
	binary.LittleEndian.PutUint32(f[8:], frameSum(f))
	return dst
}

func frameSum(f []byte) uint32 {
	return crc32.Update(crc32.Checksum(f[:8], castagnoli), castagnoli, f[frameHead:])
}

// nextFrame takes the first frame of what has come; need is how many bytes it
// wants to see if there are too few, at least one more than there are.
func nextFrame(b []byte) (f frame, need int, err error) {
	if len(b) < frameHead {
		return f, frameHead, nil
	}
	n := binary.LittleEndian.Uint32(b)
	switch {
	case n > MaxBodyBytes:
		return f, 0, fmt.Errorf("%w: body of %d bytes", errFrame, n)
	case binary.LittleEndian.Uint16(b[6:]) != wireVersion:
		return f, 0, fmt.Errorf("%w: version %d is not spoken here", errFrame, binary.LittleEndian.Uint16(b[6:]))
	case len(b) < frameHead+int(n):
		return f, frameHead + int(n), nil
	}
	raw := b[: frameHead+n : frameHead+n]
	if binary.LittleEndian.Uint32(raw[8:]) != frameSum(raw) {
		return f, 0, fmt.Errorf("%w: checksum", errFrame)
	}
	return frame{kind: frameType(raw[4]), flags: raw[5], body: raw[frameHead:], raw: raw}, 0, nil
}

// A reader reads a body. The first thing that is wrong ends it.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) num() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// ms reads a time, that is never negative.
func (r *reader) ms() int64 {
	v := r.num()
	if v > shard.MaxDeadline {
		r.bad = true
	}
	return int64(v)
}

func (r *reader) signed() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) bytes(most int) []byte {
	n := r.num()
	if n > uint64(most) || n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// end says whether all was read and nothing was wrong.
func (r *reader) end() error {
	if r.bad || len(r.b) > 0 {
		return errFrame
	}
	return nil
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}
