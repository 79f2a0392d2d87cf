package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// formatVersion is the version of everything in a data directory. A server refuses a newer one.
const formatVersion = 1

const (
	lockFile    = "LOCK"
	formatFile  = "FORMAT"
	currentFile = "CURRENT"
	markFile    = "MARK"

	lostAndFound = "lost+found" // a file system has it at its top
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
	// What a MARK of an earlier version does not have.
	durability string // the mode in which rounds are written
	drained    int64  // Unix ms at which keys count as emptied, 0 if they do not
	origin     Origin
}

// An Origin is how a data directory came about that no server has used since.
type Origin string

const (
	OriginServer Origin = ""       // a server wrote it
	OriginBackup Origin = "backup" // it is as another one was at a moment
	OriginRepair Origin = "repair" // of a damaged one, that not all of could be saved of
)

func generationName(n uint64) string { return fmt.Sprintf("gen-%06d", n) }

// errNoFormat is also what a tool that was cut off leaves: FORMAT is what it writes last.
var errNoFormat = errors.New("the file FORMAT is missing, which a new directory, a backup and a repair have only when they are complete")

// readLayout looks at a directory and changes nothing. Its errors are sentences for the person who starts the server.
func readLayout(fsys vfs.FS, dir string) (layout, error) {
	var l layout
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, forbidden(dir, err)
	}
	var ours, foreign []string
	for _, name := range names {
		switch {
		case name == checkpointDir:
			l.others = append(l.others, name)
		case name == lockFile || strings.HasSuffix(name, tmpSuffix):
		case name == formatFile:
			l.made = true
		case name == currentFile || name == markFile:
			ours = append(ours, name)
		case strings.HasPrefix(name, "gen-"):
			ours = append(ours, name)
			l.others = append(l.others, name)
		case name != lostAndFound:
			foreign = append(foreign, name)
		}
	}
	if !l.made {
		switch {
		case len(ours) > 0:
			return l, damaged(dir, errNoFormat)
		case len(foreign) > 0:
			return l, notOurs(dir, fmt.Sprintf(" and is not empty (it holds %.64q): choose another one, or an empty one", foreign[0]))
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
	return writeSealed(fsys, dir, markFile, m.facts()...)
}

func (m *mark) facts() []fact {
	all := []fact{{"generation", m.generation}, {"round", m.round}, {"chain", fmt.Sprintf("%08x", m.chain)}, {"clean", m.clean},
		{"durability", m.durability}, {"drained", m.drained}}
	if m.origin != OriginServer {
		all = append(all, fact{"origin", m.origin})
	}
	return all
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
	m.durability, m.origin = facts["durability"], Origin(facts["origin"])
	if drained, ok := facts["drained"]; ok {
		if m.drained, err = strconv.ParseInt(drained, 10, 64); err != nil {
			return nil, err
		}
	}
	return &m, nil
}

// Why a directory is refused, for errors.Is.
var (
	ErrDamaged   = errors.New("damaged")
	ErrNewer     = errors.New("of a newer format")
	ErrInUse     = errors.New("in use")
	ErrNotOurs   = errors.New("no data directory")
	ErrForbidden = errors.New("cannot be looked at or written")
)

// A refusal is a sentence that stops a start-up or a tool.
type refusal struct {
	sort error // one of the above
	text string
	err  error // what was seen, may be nil
}

func (r *refusal) Error() string        { return r.text }
func (r *refusal) Is(target error) bool { return target == r.sort }
func (r *refusal) Unwrap() error        { return r.err }

func newerFormat(dir, detail string) error {
	return &refusal{sort: ErrNewer, text: fmt.Sprintf(
		"the data directory %s was written by a newer rlserver (%s): start that version, or choose another directory", dir, detail)}
}

func damaged(dir string, err error) error {
	return &refusal{sort: ErrDamaged, err: err, text: fmt.Sprintf(
		"the data directory %s cannot be read, and rlserver does not start with less than it held: %v. Restore the directory from a backup, "+
			"save what can be read with \"rlserver repair %s NEWDIR\" (\"rlserver check %s\" lists what is damaged), "+
			"or move it away to start with nothing remembered", dir, err, shellWord(dir), shellWord(dir))}
}

// shellWord makes a path one word of a shell command.
func shellWord(path string) string {
	if path != "" && path[0] == '-' {
		path = "./" + path
	}
	plain := func(r rune) bool {
		return strings.ContainsRune("/._-+:@%,", r) || unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	if path != "" && strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
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
	return &refusal{sort: ErrForbidden, err: err, text: fmt.Sprintf(
		"the data directory %s cannot be written: %v. Nothing in it is lost: %s, then start again", dir, err, what)}
}

// notLocked is for an error of the lock: somebody has it, or its file cannot be made.
func notLocked(dir string, err error) error {
	var number syscall.Errno
	if errors.As(err, &number) && number != syscall.EAGAIN {
		return unwritable(dir, err)
	}
	return inUse(dir, err)
}

func inUse(dir string, err error) error {
	return &refusal{sort: ErrInUse, err: err, text: fmt.Sprintf(
		"another rlserver uses the data directory %s (lock: %v): stop it, or choose another directory", dir, err)}
}

func notOurs(dir, what string) error {
	return &refusal{sort: ErrNotOurs, text: fmt.Sprintf("%s is not a data directory of rlserver%s", dir, what)}
}

func forbidden(dir string, err error) error {
	return &refusal{sort: ErrForbidden, err: err, text: fmt.Sprintf("cannot look into the data directory %s: %v", dir, err)}
}
