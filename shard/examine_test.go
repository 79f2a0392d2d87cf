package shard

import (
	"strings"
	"testing"

	"github.com/rlserver/rlserver/engine"
)

// TestExamine: an entry passes if Load would take it.
func TestExamine(t *testing.T) {
	lim := engine.Limit{Algorithm: engine.Fixed, Window: 60_000, Capacity: 5}
	value, _, err := engine.Acquire(nil, lim, nil, 1_700_000_000_000, engine.Op{Cost: 1})
	if err != nil {
		t.Fatal(err)
	}
	good := Change{Key: []byte("k"), Kind: byte(engine.Fixed), Value: value}
	if name, err := Examine(good); err != nil || name != "fixed" {
		t.Errorf("%q, %v", name, err)
	}
	for what, spoil := range map[string]func(*Change){
		"cut off":       func(c *Change) { c.Value = c.Value[:len(c.Value)-1] },
		"a tombstone":   func(c *Change) { c.Kind = 0 },
		"no value":      func(c *Change) { c.Value = nil },
		"a long key":    func(c *Change) { c.Key = make([]byte, MaxKeyBytes+1) },
		"too much":      func(c *Change) { c.Value = append(value[:len(value):len(value)], 0) },
		"other letters": func(c *Change) { c.Value = []byte("hello") },
	} {
		bad := good
		spoil(&bad)
		if _, err := Examine(bad); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}

// TestExamineLimit: a change of a named limit passes if Limits.Load would take it.
func TestExamineLimit(t *testing.T) {
	for _, c := range []struct {
		key, value string
		kind       byte
		sort       LimitSort
		fault      string
	}{
		{"a:*", "10:20", byte(FromCommand), NamedFixed, ""},
		{"a", "fixed:5/1m", byte(FromFile), NamedFixed, ""},
		{"up", "adaptive:100..1000:20", byte(FromCommand), NamedAdaptive, ""},
		{"a", "10:20", 0, 0, "tombstone"},
		{"a", "fast", byte(FromCommand), 0, "fast"},
		{"a b", "10:20", byte(FromCommand), 0, "limit name"},
		{"a", "10:20", 9, 0, "origin 9 is unknown"},
		{"#up", "x", searchKind, 0, "what limit \"up\" has found"},
		{"#up", "x", 9, 0, "kind 9 is unknown"},
	} {
		ch := Change{Space: LimitSpace, Key: []byte(c.key), Kind: c.kind, Value: []byte(c.value)}
		sort, err := ExamineLimit(ch)
		if c.fault == "" && (err != nil || sort != c.sort) || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%+v: %v, %v", c, sort, err)
		}
		if loadErr := New(Config{Shards: 1}).Limits().Load([]Change{ch}); c.kind != 0 && (loadErr == nil) != (err == nil) {
			t.Errorf("%+v: Load says %v", c, loadErr)
		}
	}
}
