package replicate

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

// bucket is a bucket's state: one a second, burst 100, some of it missing.
func bucket(t testing.TB, now, missing int64) []byte {
	t.Helper()
	lim, err := engine.ParseLimit([]byte("1"), []byte("100"))
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := engine.Acquire(nil, lim, nil, now, engine.Op{Cost: missing})
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func put(s *shard.Store, clock int64, key string, value []byte) {
	tx := s.Lock(clock, []byte(key))
	tx.Put([]byte(key), 1, value, 1000)
	tx.Unlock()
}

// TestRoundInParts: a round larger than a part comes back whole, tombstones and
// named limits among it.
func TestRoundInParts(t *testing.T) {
	s, to := shard.New(shard.Config{Shards: 2}), shard.New(shard.Config{Shards: 4})
	f := s.NewFeed()
	const keys = 3*maxPartChanges + 17
	for i := range keys {
		put(s, 5000, fmt.Sprintf("key:%d", i), bucket(t, 5000, int64(1+i%100)))
	}
	lim, _ := engine.ParseExpression([]byte("10:20"))
	s.Limits().Set([]byte("n"), lim)
	key := []byte("key:3")
	tx := s.Lock(5000, key)
	tx.Delete(key)
	tx.Unlock()
	raw, n := appendRound(nil, changesHead{term: 3, number: 77, clock: 5000}, f.Cut())
	if n != keys+1 {
		t.Fatalf("%d changes, want %d", n, keys+1)
	}
	h, changes, err := readRound(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	if h.term != 3 || h.number != 77 || h.clock != 5000 || h.wipe || h.more {
		t.Errorf("head %+v", h)
	}
	if err := to.Apply(shard.WipeNothing, changes); err != nil {
		t.Fatal(err)
	}
	if a, b := content(to), content(s); !reflect.DeepEqual(a, b) {
		t.Errorf("%d entries came, not the %d sent", len(a), len(b))
	}
	// Without its last part it is nothing.
	first, _, _ := nextFrame(raw)
	if _, _, err := readRound(raw[:len(first.raw)], nil); err == nil {
		t.Error("a round without its end was taken")
	}
	// A round of nothing is no frame; one that only clears is.
	if raw, n := appendRound(nil, changesHead{number: 78}, f.Cut()); len(raw) != 0 || n != 0 {
		t.Error("an empty round made a frame")
	}
	s.Clear()
	raw, _ = appendRound(nil, changesHead{number: 78}, f.Cut())
	if h, changes, err := readRound(raw, nil); err != nil || !h.wipe || len(changes) != 0 {
		t.Error("a round that clears", h, changes, err)
	}
}

// TestChunksStayShort: entries of any size make frames within the bound.
func TestChunksStayShort(t *testing.T) {
	big := make([]byte, shard.MaxValueBytes)
	var changes []shard.Change
	for i := range 180 {
		changes = append(changes, shard.Change{Key: fmt.Append(nil, i), Kind: 1, Value: big, Deadline: 9})
	}
	raw := appendChunks(nil, 1, changes)
	var got []shard.Change
	for len(raw) > 0 {
		f, need, err := nextFrame(raw)
		if err != nil || need > 0 {
			t.Fatal(need, err)
		}
		if _, got, err = readChunk(&f, got); err != nil {
			t.Fatal(err)
		}
		raw = raw[len(f.raw):]
	}
	if !reflect.DeepEqual(got, changes) {
		t.Error("what came is not what was sent")
	}
}

// samples are one frame of each type.
func samples(t testing.TB) map[string][]byte {
	entry := shard.Change{Key: []byte("k"), Kind: 1, Value: bucket(t, 5000, 1), Deadline: 6000}
	gone := shard.Change{Key: []byte("gone")}
	peers := []Peer{{"id1", "127.0.0.1:1"}, {"id2", "[::1]:2"}}
	return map[string][]byte{
		"changes": appendPart(nil, changesHead{term: 1, number: 2, clock: 5000}, []shard.Change{entry, gone}),
		"chunk":   appendChunks(nil, 5000, []shard.Change{entry}),
		"whole":   appendWhole(nil, 7),
		"beat":    appendBeat(nil, &beat{1, 5000, 99, 7, lead{1, 5}, peers}),
		"ack":     appendAck(nil, ack{7, 99}),
		"pull":    appendPull(nil, pull{8, peers[0]}),
		"pulled":  appendPulled(nil, pulled{8, 7, 1, "history", flagFenced}),
		"full":    appendFull(nil),
	}
}

// readAny reads a frame as its type says.
func readAny(f *frame) (err error) {
	switch f.kind {
	case typeChanges:
		_, _, err = readRound(f.raw, nil)
	case typeChunk:
		_, _, err = readChunk(f, nil)
	case typeWhole:
		_, err = readWhole(f)
	case typeBeat:
		_, err = readBeat(f)
	case typeAck:
		_, err = readAck(f)
	case typePull:
		_, err = readPull(f)
	case typePulled:
		_, err = readPulled(f)
	case typeFull:
		err = (&reader{b: f.body}).end()
	default:
		err = errFrame
	}
	return err
}

// TestFrameDamage flips and cuts every byte of a frame of each type: none is
// taken for another.
func TestFrameDamage(t *testing.T) {
	for name, raw := range samples(t) {
		f, need, err := nextFrame(raw)
		if err != nil || need != 0 || !bytes.Equal(f.raw, raw) || readAny(&f) != nil {
			t.Fatalf("%s: %v, need %d", name, err, need)
		}
		for i := range raw {
			if _, need, err := nextFrame(raw[:i]); err != nil || need <= i {
				t.Errorf("%s cut at %d: need %d, %v", name, i, need, err)
			}
			for bit := range 8 {
				bad := bytes.Clone(raw)
				bad[i] ^= 1 << bit
				if f, need, err := nextFrame(bad); err == nil && need == 0 {
					t.Errorf("%s with bit %d of byte %d flipped was taken: %v", name, bit, i, f.kind)
				}
			}
		}
	}
}

// FuzzFrame: whatever comes is refused or read, within bounds.
func FuzzFrame(f *testing.F) {
	for _, raw := range samples(f) {
		f.Add(raw, true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, seal bool) {
		if seal && len(raw) >= frameHead {
			// Damage behind a right checksum is what a hostile peer sends.
			raw = closeFrame(bytes.Clone(raw), 0)
			raw[6], raw[7] = wireVersion, 0
			raw = closeFrame(raw, 0)
		}
		fr, need, err := nextFrame(raw)
		if err != nil || need > 0 {
			if need > frameHead+MaxBodyBytes {
				t.Fatalf("wants %d bytes", need)
			}
			return
		}
		readAny(&fr)
	})
}

func TestRing(t *testing.T) {
	l := ring{most: 100}
	l.reset(50)
	if l.head() != 49 || !l.follows(49) || l.follows(48) || l.follows(50) {
		t.Error("an empty ring")
	}
	for i := range 200 {
		l.append([]byte(strings.Repeat("x", 10)), Time(i))
	}
	if l.head() != 249 || l.first() != 240 || !l.follows(239) || l.follows(238) || l.bytes != 100 {
		t.Errorf("head %d, first %d, %d bytes", l.head(), l.first(), l.bytes)
	}
	for n := l.first(); n <= l.head(); n++ {
		if f, ok := l.get(n); !ok || f.at != Time(n-50) {
			t.Errorf("frame %d is %v, %v", n, f.at, ok)
		}
	}
	if _, ok := l.get(239); ok {
		t.Error("a dropped frame was found")
	}
	l.append(make([]byte, 1000), 0)
	if l.n != 1 || !l.follows(249) {
		t.Error("a frame longer than the ring is kept alone")
	}
}

// content is all that a store holds, entries with their deadlines and limits.
func content(s *shard.Store) map[string]string {
	all := map[string]string{}
	s.Each(func(batch []shard.Change) bool {
		for _, c := range batch {
			all[string(c.Key)] = fmt.Sprintf("%d %x %d", c.Kind, c.Value, c.Deadline)
		}
		return true
	})
	for _, c := range s.Limits().Changes() {
		all["@"+string(c.Key)] = fmt.Sprintf("%d %q", c.Kind, c.Value)
	}
	return all
}
