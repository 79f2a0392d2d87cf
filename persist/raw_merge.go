package persist

import (
	"bytes"
	"container/heap"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// A source tells versions in order: by key, then the newest first. What it tells is valid until the next call.
type source interface {
	next() (version, bool, error)
	close()
}

// A rawMerge goes through several sources together. It is a heap of their heads.
type rawMerge struct {
	heads []*head
	same  []*head // those taken off by pop
}

// A head is a source at a version.
type head struct {
	version
	source
}

func (m *rawMerge) Len() int      { return len(m.heads) }
func (m *rawMerge) Swap(i, j int) { m.heads[i], m.heads[j] = m.heads[j], m.heads[i] }
func (m *rawMerge) Less(i, j int) bool {
	a, b := m.heads[i], m.heads[j]
	if c := bytes.Compare(a.key, b.key); c != 0 {
		return c < 0
	}
	return a.seq > b.seq
}
func (m *rawMerge) Push(x any) { m.heads = append(m.heads, x.(*head)) }
func (m *rawMerge) Pop() any {
	last := len(m.heads) - 1
	h := m.heads[last]
	m.heads = m.heads[:last]
	return h
}

// add takes a source in, before the heap is made.
func (m *rawMerge) add(s source) error {
	h := &head{source: s}
	v, ok, err := s.next()
	if err != nil || !ok {
		s.close()
		return err
	}
	h.version = v
	m.heads = append(m.heads, h)
	return nil
}

// pop takes off the sources that are at the lowest key, the one with the newest version first.
func (m *rawMerge) pop() {
	m.same = append(m.same[:0], heap.Pop(m).(*head))
	for len(m.heads) > 0 && bytes.Equal(m.heads[0].key, m.same[0].key) {
		m.same = append(m.same, heap.Pop(m).(*head))
	}
}

// push brings those that pop took off to their next key and puts them back.
func (m *rawMerge) push() error {
	key := bytes.Clone(m.same[0].key)
	for _, h := range m.same {
		for bytes.Equal(h.key, key) {
			v, ok, err := h.next()
			if err != nil {
				return err
			}
			if h.version = v; !ok {
				h.close()
				h.source = nil
				break
			}
		}
		if h.source != nil {
			heap.Push(m, h)
		}
	}
	m.same = m.same[:0]
	return nil
}

// pick returns the newest of the versions that pop found when some of the files may have been replaced by others, and whether it is sure
// to be that. Pebble forgets the number of a version that it takes for the last of its key. Such a one is older than what is in files
// made later, but one in a file made earlier may have been either what it was made of or what came meanwhile.
func (m *rawMerge) pick() (best version, sure bool) {
	best, sure = m.same[0].version, true
	for _, h := range m.same[1:] {
		v := h.version
		switch {
		case v.key[0] == baseSpace:
			if a, _, err := decodeBase(v.value); err == nil {
				if b, _, err := decodeBase(best.value); err != nil || a.round > b.round {
					best = v
				}
			}
		case v.kind == best.kind && bytes.Equal(v.value, best.value):
		case v.seq == 0 && best.seq == 0:
			if v.file > best.file {
				best = v
			}
		case v.seq == best.seq, v.seq == 0 && v.file >= best.file:
			sure = false
		}
	}
	return best, sure
}

func (m *rawMerge) close() {
	for _, h := range append(m.heads, m.same...) {
		if h.source != nil {
			h.close()
		}
	}
}

// A logSource tells what the logs had.
type logSource struct{ rest []version }

func (s *logSource) next() (v version, ok bool, err error) {
	if len(s.rest) == 0 {
		return v, false, nil
	}
	v, s.rest = s.rest[0], s.rest[1:]
	return v, true, nil
}

func (s *logSource) close() {}

// A tableSource tells what a table has in some spans.
type tableSource struct {
	t     *rawTable
	spans []keySpan
	it    sstable.Iterator // over the first of them, nil before
	last  []byte           // the key told last, if the table is damaged
}

func (s *tableSource) next() (v version, ok bool, err error) {
	err = s.t.careful(func() (err error) {
		v, ok, err = s.step()
		return err
	})
	if err != nil {
		return v, false, fmt.Errorf("table %s: %w", s.t.name, err)
	}
	return v, ok, nil
}

func (s *tableSource) step() (v version, ok bool, err error) {
	for len(s.spans) > 0 {
		if s.it == nil {
			if s.it, err = s.t.iter(s.spans[0].lower, s.spans[0].upper); err != nil {
				return v, false, err
			}
			if kv := s.it.SeekGE(s.spans[0].lower, 0); kv != nil {
				return s.told(kv.K, kv.Value)
			}
		} else if s.ended() {
			// The next block cannot be read.
		} else if kv := s.it.Next(); kv != nil {
			return s.told(kv.K, kv.Value)
		}
		if err = s.it.Error(); err != nil {
			return v, false, err
		}
		s.it.Close()
		s.it, s.spans = nil, s.spans[1:]
	}
	return v, false, nil
}

func (s *tableSource) told(k pebble.InternalKey, value func([]byte) ([]byte, bool, error)) (version, bool, error) {
	b, _, err := value(nil)
	if s.t.why != nil {
		s.last = append(s.last[:0], k.UserKey...)
	}
	return version{k.UserKey, b, uint64(k.SeqNum()), k.Kind(), s.t.file}, err == nil, err
}

// ended says whether what was told is the last of its span, which ends right behind it.
func (s *tableSource) ended() bool {
	before, ok := bytes.CutSuffix(s.spans[0].upper, []byte{0})
	return s.t.why != nil && ok && bytes.Equal(before, s.last)
}

func (s *tableSource) close() {
	if s.it != nil {
		s.it.Close()
		s.it = nil
	}
}
