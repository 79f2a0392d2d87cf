package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A RepairReport says what Repair saved and what is lost.
type RepairReport struct {
	Census            // in the new directory
	Lost    Findings  // what is damaged, and what was lost by it
	Rounds  int       // of the journal, that are in
	SavedAt time.Time // of the last round before the first that is lost; zero if there is none
	Clean   bool      // the new directory is as a clean stop would have left the old one

	// How much is lost, as far as it can be counted: so many entries at most are missing or in an earlier state than their last.
	LostChanges int  // in rounds of the journal
	LostRecords int  // of tables, in places that cannot be read
	Unsure      int  // entries and named limits left out because it cannot be told which of two states is the last
	Damaged     int  // entries and named limits left out because they are not right
	Uncounted   bool // more is lost: rounds of which nothing is left, whole tables or logs, deletions
}

// Most is how many entries at most are missing or in an earlier state, unless Uncounted.
func (r *RepairReport) Most() int { return r.LostChanges + r.LostRecords + r.Unsure + r.Damaged }

// Whole says that nothing was lost, whatever was damaged.
func (r *RepairReport) Whole() bool { return r.Most() == 0 && !r.Uncounted }

// Repair writes what can be read of a data directory into a new one, which must not exist or be empty, and changes nothing in the old.
// What does not verify is left out. Where the last state of an entry is lost, an earlier one is taken if there is one: it admits no more
// than none at all, and the report says of how many that may be so. The new directory has passed Check when the error is nil; otherwise
// there is none. A nil file system means the disk. progress, if not nil, is called now and then with the
// entries written so far.
func Repair(dir, newDir string, fsys vfs.FS, progress func(entries int)) (*RepairReport, error) {
	if fsys == nil {
		fsys = diskFS{vfs.Default}
	}
	lock, err := look(fsys, dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	r := repairer{old: view{fsys}, fs: fsys, dir: dir, newDir: newDir, progress: progress, said: time.Now()}
	defer r.close()
	if within(newDir, dir) {
		return nil, notOurs(newDir, fmt.Sprintf(" that could be made anew: it is in %s, which is to stay as it is", dir))
	}
	if err := r.find(); err != nil {
		return nil, err
	}
	fresh, err := emptyDir(fsys, newDir)
	if err != nil {
		return nil, err
	}
	if err := r.write(); err != nil {
		r.discard(fresh)
		return nil, err
	}
	return &r.report, nil
}

// within says whether a path leads into a directory.
func within(path, dir string) bool {
	whole := func(p string) string {
		if abs, err := filepath.Abs(p); err == nil {
			p = abs
		}
		if real, err := filepath.EvalSymlinks(p); err == nil {
			return real
		}
		if real, err := filepath.EvalSymlinks(filepath.Dir(p)); err == nil {
			return filepath.Join(real, filepath.Base(p))
		}
		return p
	}
	rel, err := filepath.Rel(whole(dir), whole(path))
	return err == nil && filepath.IsLocal(rel)
}

// emptyDir refuses a directory that is not empty, and says whether there is none yet.
func emptyDir(fsys vfs.FS, dir string) (fresh bool, err error) {
	names, err := fsys.List(dir)
	names = slices.DeleteFunc(names, func(name string) bool { return name == lostAndFound })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, forbidden(dir, err)
	case len(names) > 0:
		return false, notOurs(dir, fmt.Sprintf(" that could be made anew: it is not empty (it holds %.64q)", names[0]))
	}
	return false, nil
}

// sayEvery is how often progress is called.
const sayEvery = 2 * time.Second

// A repairer is a repair under way.
type repairer struct {
	old, fs     vfs.FS
	dir, newDir string
	progress    func(int)
	report      RepairReport

	mark   *mark
	raw    *rawStore
	survey *survey
	judge  judge
	said   time.Time // when progress was last called
}

func (r *repairer) close() {
	if r.raw != nil {
		r.raw.close()
	}
}

// find opens the generation to save, and reads its journal.
func (r *repairer) find() error {
	l, err := readLayout(r.old, r.dir)
	cause := new(refusal)
	switch {
	case errors.As(err, &cause) && cause.sort == ErrDamaged:
		r.report.Lost.add("%v", cause.err)
	case err != nil:
		return err
	case !l.made:
		return notOurs(r.dir, ": it is empty")
	case l.generation == 0 || l.creating:
		return notOurs(r.dir, " that holds anything: it was never complete")
	}
	var markErr error
	if r.mark, markErr = readMark(r.old, r.dir); markErr != nil {
		r.report.Lost.add("file MARK: %v. A lost round, if there is one, goes unnoticed", markErr)
		r.report.Uncounted = true
	}
	candidates := []uint64{l.generation}
	if l.generation == 0 {
		if candidates, err = generations(r.old, r.dir); err != nil {
			return forbidden(r.dir, err)
		}
	}
	return r.choose(candidates)
}

// generations lists those that there are.
func generations(fsys vfs.FS, dir string) (found []uint64, err error) {
	names, err := fsys.List(dir)
	for _, name := range names {
		var n uint64
		if digits, ok := strings.CutPrefix(name, "gen-"); ok {
			if _, err := fmt.Sscan(strings.TrimLeft(digits, "0"), &n); err == nil && generationName(n) == name {
				found = append(found, n)
			}
		}
	}
	slices.Sort(found)
	return found, err
}

// choose opens the generation that has the newest round; of two that have it the older, as the other was not complete.
func (r *repairer) choose(candidates []uint64) error {
	var found *Findings
	for _, n := range candidates {
		f := &Findings{}
		dir := r.old.PathJoin(r.dir, generationName(n))
		if err := checkPebbleFormat(r.old, r.dir, dir); errors.Is(err, ErrNewer) {
			return err
		}
		clean := r.mark != nil && r.mark.clean && r.mark.generation == n
		raw, s, err := openSurveyed(r.old, dir, clean, f)
		if err != nil {
			f.add("%s: %v", generationName(n), err)
			r.report.Lost.addAll(f)
			continue
		}
		if r.survey == nil || s.last.round > r.survey.last.round {
			r.close()
			r.raw, r.survey, found = raw, s, f
			continue
		}
		raw.close()
	}
	if r.survey == nil {
		return &refusal{sort: ErrDamaged, text: fmt.Sprintf("nothing in %s can be saved: %s", r.dir, strings.Join(r.report.Lost.Lines, "; "))}
	}
	r.report.Lost.addAll(found)
	return nil
}

// openSurveyed opens a generation without Pebble and surveys its journal. If a part of the table is missing though all files that the
// MANIFEST names can be read, the end of the MANIFEST may be lost: then all tables that are there are taken, if that makes it whole.
func openSurveyed(fsys vfs.FS, dir string, clean bool, found *Findings) (*rawStore, *survey, error) {
	raw, s, f, err := openOne(fsys, dir, clean, true)
	if err != nil {
		return nil, nil, err
	}
	if raw.known && s.noStep != nil && len(raw.gaps) == 0 && !raw.log.cut {
		listed, t, g, err := openOne(fsys, dir, clean, false)
		if err == nil && t.noStep == nil && t.noBase == nil {
			raw.close()
			raw, s, f = listed, t, g
		} else if err == nil {
			listed.close()
		}
	}
	found.addAll(f)
	return raw, s, nil
}

func openOne(fsys vfs.FS, dir string, clean, trust bool) (*rawStore, *survey, *Findings, error) {
	found := &Findings{}
	raw, err := openRaw(fsys, dir, clean, trust, found)
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := takeSurvey(raw)
	if err != nil {
		raw.close()
		return nil, nil, nil, err
	}
	if !raw.known {
		s.strays = Findings{} // rounds that have been merged may have come back
	}
	if len(raw.gaps) > 0 || raw.log.cut {
		s.noStep = nil // told already
	}
	var seq uint64
	err = raw.scan([]byte{baseSpace}, []byte{baseSpace + 1}, func(_, _ []byte) error {
		seq = raw.seq
		return nil
	})
	s.loose = s.noBase != nil || raw.hidden([]byte{baseSpace}, seq)
	return raw, s, found, err
}

// lost tells what the journal lacks, and counts it.
func (r *repairer) lost() {
	s, f := r.survey, &r.report.Lost
	s.tell(f)
	for _, b := range s.bad {
		r.report.LostChanges += max(0, b.changes)
		r.report.Uncounted = r.report.Uncounted || b.changes < 0
	}
	journalHidden := slices.ContainsFunc(r.raw.gaps, func(g gap) bool { return g.overlaps([]byte{journalSpace}, []byte{journalSpace + 1}) })
	r.report.Uncounted = r.report.Uncounted || r.raw.uncounted || !r.raw.known || s.loose || s.missing > 0 || s.noStep != nil || journalHidden
	if m := r.mark; m != nil && m.round > s.last.round && !s.loose {
		r.report.Uncounted = true
		f.add("rounds %d to %d had been synced and are missing; it is not known how many changes they had", s.last.round+1, m.round)
		s.lost(s.last.round + 1)
	}
	r.report.Rounds = s.rounds
	if s.firstLost == 0 {
		s.sound = s.last
	}
	if s.sound.saved != 0 {
		r.report.SavedAt = time.UnixMilli(s.sound.saved)
	}
}
