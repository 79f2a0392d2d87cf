package persist

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/rlserver/rlserver/shard"
)

// TestEntryEncoding: what is written is read, and no single bit can change unnoticed.
func TestEntryEncoding(t *testing.T) {
	for _, c := range []shard.Change{
		{Key: []byte("user:1"), Kind: 1, Value: []byte("state"), Deadline: 1_700_000_000_000},
		{Key: []byte{}, Kind: 255, Value: []byte{}, Deadline: 0},
		{Key: bytes.Repeat([]byte{0}, shard.MaxKeyBytes), Kind: 1, Value: bytes.Repeat([]byte{255}, shard.MaxValueBytes), Deadline: 1<<63 - 1},
	} {
		b := appendEntry(nil, c)
		got, err := decodeEntry(c.Key, b)
		if err != nil || got.Kind != c.Kind || got.Deadline != c.Deadline || !bytes.Equal(got.Value, c.Value) {
			t.Fatalf("%+v, %v", got, err)
		}
		step := 1 + len(b)/200
		for at := 0; at < 8*len(b); at += step {
			bad := slices.Clone(b)
			bad[at/8] ^= 1 << (at % 8)
			if got, err := decodeEntry(c.Key, bad); err == nil {
				t.Errorf("bit %d: %+v", at, got)
			}
		}
		if len(c.Key) > 0 {
			other := slices.Clone(c.Key)
			other[0] ^= 1
			if _, err := decodeEntry(other, b); err == nil {
				t.Error("an entry is accepted under another key")
			}
		}
		for n := range min(len(b), 40) {
			if _, err := decodeEntry(c.Key, b[:n]); err == nil {
				t.Errorf("the first %d bytes are accepted", n)
			}
		}
	}
}

// TestChunkEncoding: the same of a chunk; a chunk does not count under the number of another.
func TestChunkEncoding(t *testing.T) {
	key := journalKey(7, 3)
	b := openChunk(nil, shard.KeySpace)
	for i := range 5 {
		c := shard.Change{Key: []byte(fmt.Sprint("k", i)), Kind: byte(i), Value: []byte("v")}
		var entry []byte
		if c.Kind != 0 {
			entry = appendEntry(nil, c)
		}
		b = appendChange(b, c, entry)
	}
	b = seal(b, 0, key)
	_, lines, err := readChunk(nil, key, b)
	if err != nil || len(lines) != 5 || string(lines[3].key) != "k3" || len(lines[0].entry) != 0 || len(lines[4].entry) == 0 {
		t.Fatalf("%q, %v", lines, err)
	}
	for at := range 8 * len(b) {
		bad := slices.Clone(b)
		bad[at/8] ^= 1 << (at % 8)
		if _, _, err := readChunk(nil, key, bad); err == nil {
			t.Errorf("bit %d", at)
		}
	}
	if _, _, err := readChunk(nil, journalKey(7, 4), b); err == nil {
		t.Error("a chunk is accepted under another number")
	}
}
