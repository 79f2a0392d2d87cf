package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// formatVersion is the version of everything in a data directory. A server refuses a newer one.
const formatVersion = 1

const (
	lockFile    = "LOCK"
	formatFile  = "FORMAT"
	currentFile = "CURRENT"
	markFile    = "MARK"
)

// The states that CURRENT can give a generation.
const (
	stateNew  = "new" // it was never complete and holds nothing
	stateLive = "live"
)

// A layout is what a data directory holds, as far as that can be told without opening a generation.
type layout struct {
	made       bool   // FORMAT is there
	generation uint64 // that CURRENT names, 0 if there is none
	creating   bool   // CURRENT says that the generation never held anything
	others     []string
	mark       *mark // nil if MARK cannot be read
	markErr    error // why not
}

// A mark is the witness: what is known to be durable, kept outside Pebble.
type mark struct {
	generation, round uint64
	chain             uint32
	clean             bool // the last stop wrote everything
}

func generationName(n uint64) string { return fmt.Sprintf("gen-%06d", n) }

// readLayout looks at a directory and changes nothing. Its errors are sentences for the person who starts the server.
func readLayout(fsys vfs.FS, dir string) (layout, error) {
	var l layout
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, fmt.Errorf("cannot look into the data directory %s: %w", dir, err)
	}
	var ours, foreign []string
	for _, name := range names {
		switch {
		case name == lockFile || strings.HasSuffix(name, tmpSuffix):
		case name == formatFile:
			l.made = true
		case name == currentFile || name == markFile:
			ours = append(ours, name)
		case strings.HasPrefix(name, "gen-"):
			ours = append(ours, name)
			l.others = append(l.others, name)
		case name != "lost+found":
			foreign = append(foreign, name)
		}
	}
	if !l.made {
		switch {
		case len(ours) > 0:
			return l, damaged(dir, errors.New("the file FORMAT is missing"))
		case len(foreign) > 0:
			return l, fmt.Errorf("%s is not a data directory of rlserver and is not empty (it holds %.64q): "+
				"choose another one, or an empty one", dir, foreign[0])
		}
		return l, nil
	}
	if err := checkFormat(fsys, dir); err != nil {
		return l, err
	}
	return l, l.readState(fsys, dir, ours)
}

func (l *layout) readState(fsys vfs.FS, dir string, ours []string) error {
	current, err := readSealed(fsys, dir, currentFile)
	if errors.Is(err, fs.ErrNotExist) {
		if len(ours) > 0 {
			return damaged(dir, errors.New("the file CURRENT is missing"))
		}
		return nil // a crash while the directory was made
	}
	if err == nil {
		_, err = fmt.Sscan(current["generation"], &l.generation)
	}
	if err != nil {
		return damaged(dir, fmt.Errorf("file CURRENT: %w", err))
	}
	l.creating = current["state"] == stateNew
	l.mark, l.markErr = readMark(fsys, dir)
	return nil
}

// checkFormat reads FORMAT.
func checkFormat(fsys vfs.FS, dir string) error {
	facts, err := readSealed(fsys, dir, formatFile)
	version := 0
	if err == nil {
		_, err = fmt.Sscan(facts["format"], &version)
	}
	if err != nil {
		return damaged(dir, fmt.Errorf("file FORMAT: %w", err))
	}
	if version > formatVersion {
		return newerFormat(dir, fmt.Sprintf("format %d, this version reads up to %d", version, formatVersion))
	}
	return nil
}

func writeFormat(fsys vfs.FS, dir string) error {
	return writeSealed(fsys, dir, formatFile, fact{"format", formatVersion})
}

func writeCurrent(fsys vfs.FS, dir string, generation uint64, state string) error {
	return writeSealed(fsys, dir, currentFile, fact{"generation", generation}, fact{"state", state})
}

func writeMark(fsys vfs.FS, dir string, m mark) error {
	return writeSealed(fsys, dir, markFile, fact{"generation", m.generation}, fact{"round", m.round},
		fact{"chain", fmt.Sprintf("%08x", m.chain)}, fact{"clean", m.clean})
}

func readMark(fsys vfs.FS, dir string) (*mark, error) {
	facts, err := readSealed(fsys, dir, markFile)
	if err != nil {
		return nil, err
	}
	var m mark
	_, err = fmt.Sscanf(facts["generation"]+" "+facts["round"]+" "+facts["chain"]+" "+facts["clean"], "%d %d %x %t",
		&m.generation, &m.round, &m.chain, &m.clean)
	if err != nil {
		return nil, err
	}
	return &m, nil
}

// The sentences that stop a start-up.

func newerFormat(dir, detail string) error {
	return fmt.Errorf("the data directory %s was written by a newer rlserver (%s): start that version, or choose another directory",
		dir, detail)
}

func damaged(dir string, err error) error {
	return fmt.Errorf("the data directory %s cannot be read, and rlserver does not start with less than it held: %w. "+
		"Restore the directory from a backup, or move it away to start with nothing remembered", dir, err)
}

// unusable is for an error of a store that is there: of its data, or of the disk it is to be written to.
func unusable(dir string, err error) error {
	if errors.As(err, new(writeFault)) {
		return unwritable(dir, err)
	}
	return damaged(dir, err)
}

func unwritable(dir string, err error) error {
	what := "see that the disk is well and that the directory belongs to the user who starts rlserver"
	if vfs.IsNoSpaceError(err) {
		what = "make room on the disk"
	}
	return fmt.Errorf("the data directory %s cannot be written: %w. Nothing in it is lost: %s, then start again", dir, err, what)
}

// notLocked is for an error of the lock: somebody has it, or its file cannot be made.
func notLocked(dir string, err error) error {
	var number syscall.Errno
	if errors.As(err, &number) && number != syscall.EAGAIN {
		return unwritable(dir, err)
	}
	return fmt.Errorf("another rlserver uses the data directory %s (lock: %w): stop it, or choose another directory", dir, err)
}
