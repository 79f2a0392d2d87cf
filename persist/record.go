package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/rlserver/rlserver/shard"
)

// The parts of a generation, by the first byte of the key.
const (
	baseSpace    = 'b'
	journalSpace = 'j'
	limitSpace   = 'n'
	stepSpace    = 's'
	tableSpace   = 't'
)

const (
	recordVersion = 1
	spaceVersion  = 2 // of a chunk that says which space its changes are in
	crcBytes      = 4
	partitions    = 256
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errChecksum = errors.New("checksum does not match")

// appendTableKey appends the key under which an entry or a named limit is in the table.
func appendTableKey(dst []byte, space byte, key []byte) []byte {
	if space == shard.LimitSpace {
		dst = append(dst, limitSpace)
	} else {
		dst = append(dst, tableSpace, byte(crc32.Checksum(key, castagnoli)))
	}
	return append(dst, key...)
}

// tableBound is the lower bound of a partition, and the upper bound of the one before.
func tableBound(partition int) []byte {
	if partition == partitions {
		return []byte{tableSpace + 1}
	}
	return []byte{tableSpace, byte(partition)}
}

// seal appends the checksum over key and dst[at:].
func seal(dst []byte, at int, key []byte) []byte {
	crc := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, dst[at:])
	return binary.LittleEndian.AppendUint32(dst, crc)
}

// unseal checks the version and the checksum of a value and returns what is between.
func unseal(value, key []byte) ([]byte, error) {
	_, body, err := unsealUpTo(recordVersion, value, key)
	return body, err
}

// unsealUpTo is unseal for a record of which there are several versions.
func unsealUpTo(newest byte, value, key []byte) (version byte, body []byte, err error) {
	if len(value) < 1+crcBytes {
		return 0, nil, fmt.Errorf("a record of %d bytes", len(value))
	}
	body = value[:len(value)-crcBytes]
	crc := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, body)
	if crc != sumOf(value) {
		return 0, nil, errChecksum
	}
	if body[0] == 0 || body[0] > newest {
		return 0, nil, fmt.Errorf("a record of version %d, known is %d: a newer rlserver wrote it", body[0], newest)
	}
	return body[0], body[1:], nil
}

// sumOf returns the checksum at the end of a sealed value.
func sumOf(value []byte) uint32 { return binary.LittleEndian.Uint32(value[len(value)-crcBytes:]) }

// appendEntry appends an entry's value in the table.
func appendEntry(dst []byte, c shard.Change) []byte {
	at := len(dst)
	dst = append(dst, recordVersion, c.Kind)
	dst = binary.AppendUvarint(dst, uint64(c.Deadline))
	dst = append(dst, c.Value...)
	return seal(dst, at, c.Key)
}

// decodeEntry reads what the table holds for key. The change aliases both.
func decodeEntry(key, value []byte) (shard.Change, error) {
	body, err := unseal(value, key)
	if err != nil {
		return shard.Change{}, err
	}
	r := reader{body}
	c := shard.Change{Key: key, Kind: r.byte(), Deadline: int64(r.uvarint())}
	c.Value = r.rest
	if r.rest == nil || c.Kind == 0 || c.Deadline < 0 || len(key) > shard.MaxKeyBytes {
		return shard.Change{}, errors.New("not an entry, though its checksum matches")
	}
	return c, nil
}

// A reader takes bytes from the front of rest, which is nil once there were too few.
type reader struct{ rest []byte }

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.rest = nil
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.rest = nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if r.rest == nil || n > uint64(len(r.rest)) {
		r.rest = nil
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}
