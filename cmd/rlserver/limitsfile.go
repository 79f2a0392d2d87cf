package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlserver/rlserver/shard"
)

const (
	// maxLimitsFileBytes bounds the limits-file: room for as many limits as can be held, and for what people write about them.
	maxLimitsFileBytes = 16 << 20
	// maxLimitsFaults is how many faults of one file are told.
	maxLimitsFaults = 20
)

// A limitsFault says all that is wrong with a limits-file, a line each: limits.conf:3: what came and what was expected.
type limitsFault []string

func (f limitsFault) Error() string { return strings.Join(f, "\n") }

// readLimitsFile reads the limits-file: a name and an expression a line, # begins a comment. No file has no limits. The error is a
// limitsFault.
func readLimitsFile(path string) ([]shard.NamedLimit, error) {
	if path == "" {
		return nil, nil
	}
	text, err := readWhole(path, maxLimitsFileBytes)
	if err != nil {
		return nil, limitsFault{fmt.Sprintf("limits-file: %v", err)}
	}
	return readLimits(path, text)
}

// readLimits reads the text of a limits-file and tells all faults at once.
func readLimits(file, text string) (limits []shard.NamedLimit, err error) {
	var faults limitsFault
	lines := map[string]int{} // by name, where it stands
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		number++
		n, empty, err := readLimitLine(line)
		first, twice := lines[n.Name]
		switch {
		case empty:
			continue
		case err == nil && twice:
			err = fmt.Errorf("%s stands on line %d already", clip(n.Name), first)
		case err == nil && len(limits) == shard.MaxLimits:
			err = fmt.Errorf("%s is one limit too many: at most %d are held", clip(n.Name), shard.MaxLimits)
		}
		if err == nil {
			lines[n.Name] = number
			limits = append(limits, n)
			continue
		}
		faults = append(faults, fmt.Sprintf("%s:%d: %v", file, number, err))
		if len(faults) == maxLimitsFaults {
			faults = append(faults, fmt.Sprintf("%s: and perhaps more; these are the first %d", file, maxLimitsFaults))
			break
		}
	}
	if faults != nil {
		return nil, faults
	}
	return limits, nil
}

// readLimitLine reads one line.
func readLimitLine(line string) (n shard.NamedLimit, empty bool, err error) {
	words := strings.Fields(line)
	if i := slices.IndexFunc(words, func(w string) bool { return w[0] == '#' }); i >= 0 {
		words = words[:i]
	}
	switch len(words) {
	case 0:
		return n, true, nil
	case 1:
		return n, false, fmt.Errorf("%s: the limit is missing: expected a name and an expression, such as wb:orders:* 10:20", clip(words[0]))
	case 2:
	default:
		return n, false, fmt.Errorf("%s: got %d words, expected a name and an expression, such as wb:orders:* 10:20", clip(words[0]), len(words))
	}
	n.Name = words[0]
	if err = shard.CheckLimitName([]byte(n.Name)); err != nil {
		return n, false, err
	}
	err = n.Parse([]byte(words[1]))
	return n, false, err
}

// loadLimits brings in the named limits on disk and then puts those of the limits-file in force, before the entries, which are judged
// under them. Without a file the limits that one had made belong to the callers. changed says whether there is something to write.
func (n *node) loadLimits(file []shard.NamedLimit) (changed bool, err error) {
	if err := n.db.LoadLimits(n.store); err != nil {
		return false, err
	}
	limits := n.store.Limits()
	path := n.config.Values().LimitsFile
	if path == "" {
		released := limits.Release()
		if released > 0 {
			n.log.Warn("no limits-file is given; the limits that an earlier one made stay and can be changed by RL.LIMIT", "limits", released)
		}
		return released > 0, nil
	}
	c, err := limits.SetFile(file)
	if err != nil {
		return false, limitsFault{fmt.Sprintf("limits-file %s: with those that callers made: %v", path, err)}
	}
	n.logLimits(len(file), c)
	return c.Set+c.Removed > 0, nil
}

// reloadLimits reads the limits-file again. A file with faults changes nothing. What changed is in force at once; that it is on disk is
// logged when it is. A replica looks at the file only: its limits come from the primary.
func (n *node) reloadLimits() {
	path := n.config.Values().LimitsFile
	if path == "" {
		n.log.Info("SIGHUP: there is no limits-file to read")
		return
	}
	var c shard.FileChange
	file, err := readLimitsFile(path)
	follows := !n.repl.Role().Leads
	if err == nil && !follows {
		if c, err = n.store.Limits().SetFile(file); err != nil {
			err = limitsFault{fmt.Sprintf("limits-file %s: with those that callers made: %v", path, err)}
		}
	}
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			n.log.Error("the limits-file is refused, all limits stay as they were", "fault", strings.TrimSpace(line))
		}
		return
	}
	if follows {
		n.log.Info("the limits-file has no faults; the limits of this replica come from its primary", "file", path, "limits", len(file))
		return
	}
	n.logLimits(len(file), c)
	go n.awaitLimits()
}

func (n *node) logLimits(limits int, c shard.FileChange) {
	n.log.Info("limits-file in force", "file", n.config.Values().LimitsFile, "limits", limits, "set", c.Set, "removed", c.Removed, "taken_from_callers", c.Taken)
}

// awaitLimits has the limits written now, and says how that ended.
func (n *node) awaitLimits() {
	if err := n.db.Wait(n.db.Save()); err != nil {
		n.log.Error("the limits of the limits-file are in force and not on disk", "err", err)
		return
	}
	n.log.Debug("the limits of the limits-file are on disk")
}
