package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rlserver/rlserver/persist"
)

// Exit codes of the tools, beside exitOK and exitBadUsage, which is also that of
// what is no data directory or of a newer version.
const (
	exitDamaged = 1 // check: something is damaged; repair: something is lost
	exitInUse   = 3 // a server uses the directory
	exitUnable  = 4 // the disk failed, or there is nothing to be saved
)

// A subcommand is a first word of the command line that starts no server.
type subcommand struct {
	name, args, help string
	run              func(args []string, stdout, stderr io.Writer) (code int)
}

var tools = []subcommand{
	{"check", "DIR", "look at all data in a directory and say what is damaged; changes nothing", runCheck},
	{"repair", "DIR NEWDIR", "save what can be read of a damaged directory into a new one", runRepair},
	{"backup", "NAME ...", "have the running server make a backup; ... as for the server", runBackup},
}

// runTool runs the tool that a command line names, if it does.
func runTool(args []string, stdout, stderr io.Writer) (code int, ran bool) {
	if len(args) == 0 {
		return 0, false
	}
	for _, t := range tools {
		if t.name != args[0] {
			continue
		}
		args = args[1:]
		for _, a := range args {
			if a == "--help" || a == "-h" {
				fmt.Fprintf(stdout, "rlserver %s %s: %s\n", t.name, t.args, t.help)
				return exitOK, true
			}
		}
		if want := strings.Fields(t.args); len(args) != len(want) && (len(args) == 0 || want[len(want)-1] != "...") {
			fmt.Fprintf(stderr, "rlserver %s: got %d arguments, expected %s\n", t.name, len(args), t.args)
			return exitBadUsage, true
		}
		return t.run(args, stdout, stderr), true
	}
	return 0, false
}

// refused tells why a tool could not do its work.
func refused(err error, stderr io.Writer) (code int) {
	fmt.Fprintf(stderr, "rlserver: %v\n", err)
	switch {
	case errors.Is(err, persist.ErrInUse):
		return exitInUse
	case errors.Is(err, persist.ErrNotOurs), errors.Is(err, persist.ErrNewer):
		return exitBadUsage
	}
	return exitUnable
}

// runCheck is rlserver check DIR.
func runCheck(args []string, stdout, stderr io.Writer) int {
	r, err := persist.Check(args[0], nil)
	if err != nil {
		return refused(err, stderr)
	}
	verdict := "fine"
	if r.Damage.Total > 0 {
		verdict = fmt.Sprintf("damaged in %s", counted(r.Damage.Total, "place"))
	}
	fmt.Fprintf(stdout, "%s is %s\n", args[0], verdict)
	row := rows(stdout)
	tellCensus(row, &r.Census)
	row("journal", "%s, %s", counted(r.Rounds, "round"), counted(r.Changes, "change"))
	row("last saved", "%s", timeText(r.SavedAt))
	row("last stop", "%s", lastStop(r))
	row("on disk", "%s in %s, generation %d", megabytes(r.Bytes), counted(r.Files, "file"), r.Generation)
	for _, name := range r.Leftovers {
		row("left over", "%s: the next start removes it", name)
	}
	if r.Damage.Total == 0 {
		return exitOK
	}
	tellFindings(row, "damaged", &r.Damage)
	fmt.Fprintf(stdout, "Counted above is what a start would find. \"rlserver repair %s NEWDIR\" saves that, and often more; a backup may have more still.\n", args[0])
	return exitDamaged
}

// lastStop says how a server left a directory.
func lastStop(r *persist.CheckReport) string {
	switch {
	case r.Clean:
		return "clean"
	case r.Origin == persist.OriginBackup:
		return "none, the directory is a backup"
	case r.Origin == persist.OriginRepair:
		return "none, the directory was repaired and lacks what could not be saved"
	}
	return "not clean"
}

// runRepair is rlserver repair DIR NEWDIR.
func runRepair(args []string, stdout, stderr io.Writer) int {
	dir, newDir := args[0], args[1]
	r, err := persist.Repair(dir, newDir, nil, func(entries int) { fmt.Fprintf(stderr, "%d entries written\n", entries) })
	if err != nil {
		return refused(err, stderr)
	}
	fmt.Fprintf(stdout, "%s holds what could be saved of %s, which is as it was\n", newDir, dir)
	row := rows(stdout)
	tellCensus(row, &r.Census)
	row("journal", "%s merged", counted(r.Rounds, "round"))
	row("state of", "%s", timeText(r.SavedAt))
	tellFindings(row, "damaged", &r.Lost)
	if r.Whole() {
		row("lost", "nothing")
		return exitOK
	}
	most := "not known"
	if !r.Uncounted {
		most = fmt.Sprintf("at most %d entries are missing, or as they were earlier", r.Most())
	} else if n := r.Most(); n > 0 {
		most = fmt.Sprintf("not known: at least %d records", n)
	}
	row("lost", "%s", most)
	fmt.Fprintf(stdout, "A missing entry admits a full burst, an earlier state at most that. Start with --dir %s; a backup may have more.\n", newDir)
	return exitDamaged
}

// rows returns a function that writes a line of a report.
func rows(w io.Writer) func(name, format string, args ...any) {
	return func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-12s %s\n", name, fmt.Sprintf(format, args...))
	}
}

func tellCensus(row func(string, string, ...any), c *persist.Census) {
	var by []string
	for _, n := range c.Algorithms {
		by = append(by, fmt.Sprintf("%s %d", n.Algorithm, n.Entries))
	}
	text := ""
	if len(by) > 0 {
		text = " (" + strings.Join(by, ", ") + ")"
	}
	row("entries", "%d%s", c.Entries, text)
	text = ""
	if c.Adaptive > 0 {
		text = fmt.Sprintf(", %d of them adaptive, %d with a rate found", c.Adaptive, c.Found)
	}
	row("limits", "%d named%s", c.Limits, text)
}

func tellFindings(row func(string, string, ...any), name string, f *persist.Findings) {
	for _, text := range f.Lines {
		row(name, "%s", plain(text))
	}
	if more := f.Total - len(f.Lines); more > 0 {
		row(name, "and %d more", more)
	}
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// timeText is a time for people and scripts, RFC 3339.
func timeText(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
