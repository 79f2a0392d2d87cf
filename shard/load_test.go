package shard

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestLoad(t *testing.T) {
	const clock, skew, grace = 1_000_000, 1000, 3000
	s := New(Config{Grace: grace, Shards: 1})
	f := s.NewFeed()
	live, reset := bucketValue(t, clock, 10)
	idle, _ := bucketValue(t, clock-50_000, 10)
	ahead, _ := bucketValue(t, clock+60_000, 10) // from a clock that ran ahead
	for _, c := range []struct {
		key   string
		value []byte
		kept  bool
	}{{"live", live, true}, {"idle", idle, false}, {"ahead", ahead, true}} {
		kept, err := s.Load(clock, clock+skew, Change{Key: []byte(c.key), Value: c.value, Kind: 1, Deadline: 7})
		if err != nil || kept != c.kept {
			t.Errorf("Load of %s: %v, %v", c.key, kept, err)
		}
	}
	if s.Len() != 2 || s.Stats().Changes != 0 || s.Stats().Expired != 1 {
		t.Errorf("%d keys after Load, %+v", s.Len(), s.Stats())
	}
	tx := s.Lock(clock, []byte("live"))
	if e, ok := tx.Get([]byte("live")); !ok || e.Deadline != clock+reset+grace || string(e.Value) != string(live) {
		t.Errorf("loaded as %v, %v", e, ok)
	}
	tx.Unlock()
	// What is on disk as it should be is not written again.
	rebased, _ := bucketValue(t, clock+skew, 10)
	want(t, "the first round", told(f.Cut()), "-idle ahead="+string(rebased))
	check(t, s)

	for name, c := range map[string]Change{
		"already":        {Key: []byte("live"), Value: live, Kind: 1},
		"malformed":      {Key: []byte("bad"), Value: []byte("?"), Kind: 1},
		"tombstone":      {Key: []byte("dead"), Value: live, Kind: 0},
		"at most 1024":   {Key: make([]byte, MaxKeyBytes+1), Value: live, Kind: 1},
		"at most 63488 ": {Key: []byte("big"), Value: make([]byte, MaxValueBytes+1), Kind: 1},
	} {
		if kept, err := s.Load(clock, clock, c); kept || err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Load of %s: %v, %v", name, kept, err)
		}
	}
	if s.Len() != 2 {
		t.Error("a refused entry is there")
	}
}

func TestLoadKeepsExpired(t *testing.T) {
	s := New(Config{KeepExpired: true})
	idle, _ := bucketValue(t, 0, 1)
	if kept, err := s.Load(1<<40, 1<<40, Change{Key: []byte("k"), Value: idle, Kind: 1}); !kept || err != nil {
		t.Errorf("Load: %v, %v", kept, err)
	}
}

func TestLoadInParallel(t *testing.T) {
	s := New(Config{})
	value, _ := bucketValue(t, 0, 10)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				if kept, err := s.Load(0, 0, Change{Key: fmt.Appendf(nil, "%d:%d", g, i), Value: value, Kind: 1}); !kept || err != nil {
					t.Error(kept, err)
				}
			}
		})
	}
	wg.Wait()
	if s.Len() != 8000 {
		t.Errorf("%d keys of 8000", s.Len())
	}
	check(t, s)
}
