package persist

import (
	"fmt"
	"slices"
	"sync"

	"github.com/rlserver/rlserver/shard"
)

// maxFindings is how many lines are kept.
const maxFindings = 40

// maxFindingBytes is the longest line, in bytes.
const maxFindingBytes = 400

// Findings are what is wrong, a line each. It may be used from several goroutines until it is read.
type Findings struct {
	Lines []string // the first ones
	Total int      // how many there were

	mu sync.Mutex
}

func (f *Findings) add(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxFindingBytes {
		text = text[:maxFindingBytes] + "..."
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Total++; len(f.Lines) < maxFindings {
		f.Lines = append(f.Lines, text)
	}
}

func (f *Findings) addAll(more *Findings) {
	for _, text := range more.Lines {
		f.add("%s", text)
	}
	f.Total += more.Total - len(more.Lines)
}

// A Count is how many entries there are of an algorithm.
type Count struct {
	Algorithm string
	Entries   int
}

// A Census says what a data directory holds.
type Census struct {
	Entries    int // of all algorithms; idle ones, that a start drops, are among them
	Algorithms []Count
	Limits     int // named limits
	Adaptive   int // of them adaptive
	Found      int // adaptive limits of which something has been found
}

// counts are entries by the kind byte.
type counts [256]int

// census adds counts up. The names are those that shard.Examine gave.
func (n *counts) into(c *Census, names *[256]string) {
	for kind, entries := range n {
		if entries == 0 {
			continue
		}
		c.Entries += entries
		c.Algorithms = append(c.Algorithms, Count{names[kind], entries})
	}
	slices.SortFunc(c.Algorithms, func(a, b Count) int { return b.Entries - a.Entries })
}

// A judge looks at records one by one, and counts those that are right.
type judge struct {
	found *Findings
	n     counts
	names [256]string
}

// entry says whether what the table holds for a key is right.
func (j *judge) entry(key, value []byte) bool {
	c, err := decodeEntry(key, value)
	var name string
	if err == nil {
		name, err = shard.Examine(c)
	}
	if err != nil {
		j.found.add("entry of key %.64q: %v", key, err)
		return false
	}
	if j.n[c.Kind]++; j.names[c.Kind] == "" {
		j.names[c.Kind] = name
	}
	return true
}

// join adds what another judge counted.
func (j *judge) join(o *judge) {
	for kind, n := range o.n {
		if j.n[kind] += n; n > 0 {
			j.names[kind] = o.names[kind]
		}
	}
}

// limits looks at the records of named limits, counts them into c and returns those that are right.
func (j *judge) limits(lines []line, c *Census) (right []line) {
	for _, l := range lines {
		ch, err := decodeEntry(l.key, l.entry)
		var sort shard.LimitSort
		if err == nil {
			sort, err = shard.ExamineLimit(ch)
		}
		if err == nil && sort != shard.NamedFound && c.Limits == shard.MaxLimits {
			err = fmt.Errorf("more than %d", shard.MaxLimits)
		}
		if err != nil {
			j.found.add("named limit %+.64q: %v", l.key, err)
			continue
		}
		right = append(right, l)
		switch sort {
		case shard.NamedFound:
			c.Found++
			continue
		case shard.NamedAdaptive:
			c.Adaptive++
		}
		c.Limits++
	}
	return right
}
