package shard

import (
	"fmt"

	"github.com/rlserver/rlserver/engine"
)

// Examine says whether Load would take an entry, and what its algorithm is
// called, without keeping it. The error is Load's.
func Examine(c Change) (algorithm string, err error) {
	if err := checkEntry(c.Key, c.Kind, c.Value); err != nil {
		return "", err
	}
	var room [64]byte
	if _, err := engine.Rebase(room[:0], c.Value, engine.MaxNow); err != nil {
		return "", fmt.Errorf("entry of key %.64q: %w", c.Key, err)
	}
	return engine.Algorithm(c.Kind).String(), nil
}

// A LimitSort is what a change in LimitSpace is about.
type LimitSort byte

const (
	NamedFixed    LimitSort = iota // a limit of a fixed rate
	NamedAdaptive                  // an adaptive limit
	NamedFound                     // what an adaptive limit has found
)

// ExamineLimit says whether Limits.Load would take a change by itself, and what
// it is about. It keeps nothing. A tombstone is refused.
func ExamineLimit(c Change) (LimitSort, error) {
	switch {
	case c.Kind == 0:
		return 0, fmt.Errorf("named limit %+.64q: a tombstone", c.Key)
	case len(c.Key) > 0 && c.Key[0] == searchMark:
		return NamedFound, checkSearch(c)
	}
	n, err := parseNamed(c)
	if err == nil && n.Adaptive != (engine.Adaptive{}) {
		return NamedAdaptive, nil
	}
	return NamedFixed, err
}

// parseNamed reads a named limit as a change has it.
func parseNamed(c Change) (NamedLimit, error) {
	n := NamedLimit{Name: string(c.Key), Origin: Origin(c.Kind)}
	err := n.Parse(c.Value)
	if err == nil {
		err = CheckLimitName(c.Key)
	}
	if err == nil && n.Origin > FromFile {
		err = fmt.Errorf("origin %d is unknown", c.Kind)
	}
	if err != nil {
		return n, fmt.Errorf("named limit %+.64q: %w", c.Key, err)
	}
	return n, nil
}
