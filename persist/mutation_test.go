package persist

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// faults are kinds of carelessness, some of which were there once, that the test named must catch. In file the text old, which stands
// there exactly once, becomes new, which does it only if the fault is planted. So all are in one build, and each is a run of it with one
// test. Who changes the code moves the fault along; who mends a new kind of fault adds it.
var faults = []struct{ name, file, old, new, test string }{
	{"no sync on commit", "round.go",
		"return b.Commit(pebble.Sync)",
		"return b.Commit(unless(`no sync on commit`, pebble.Sync))",
		"TestPowerLoss"},
	{"a commit record before its chunks", "round.go",
		"if last != nil {",
		"if planted(`a commit record before its chunks`) {\nif err := db.Set(journalKey(c.round, commitChunk), encodeCommit(c), pebble.Sync); err != nil {\nreturn err\n}\n}\nif last != nil {",
		"TestPowerLoss"},
	{"MARK not checked", "open.go",
		"m.round > d.journal.last.round:",
		"m.round > d.journal.last.round && !planted(`MARK not checked`):",
		"TestLostRoundIsNoticed"},
	{"MARK's checksum of a round not compared", "open.go",
		"m.chain != d.journal.last.chain:",
		"m.chain != d.journal.last.chain && !planted(`MARK's checksum of a round not compared`):",
		"TestMarkOfAnotherHistory"},
	{"a handle used again after a failed sync", "guard.go",
		"f.guard.wrote(\"sync\", f.name, f.File.SyncData())",
		"if err := f.File.SyncData(); !planted(`a handle used again after a failed sync`) {\nf.guard.wrote(\"sync\", f.name, err)\n}",
		"TestSyncFails"},
	{"CURRENT before the new generation is synced", "recover.go",
		"done, err := d.fill(h)",
		"if planted(`CURRENT before the new generation is synced`) {\n_ = writeCurrent(d.fs, d.o.Dir, n, stateLive)\n}\ndone, err := d.fill(h)",
		"TestPowerLossDuringRecovery"},
	{"the old generation removed before CURRENT", "recover.go",
		"d.stale = append(d.stale, d.current)",
		"if planted(`the old generation removed before CURRENT`) {\nd.removeGeneration(d.current)\n}\nd.stale = append(d.stale, d.current)",
		"TestChangesDuringRecovery"},
	{"an empty start when CURRENT cannot be read", "layout.go",
		"current, err := readSealed(fsys, dir, currentFile)",
		"current, err := readSealed(fsys, dir, currentFile)\nif err != nil && planted(`an empty start when CURRENT cannot be read`) {\nreturn nil\n}",
		"TestFilesMissingCutOrEmpty"},
	{"a lost tail not said", "open.go",
		"d.info.Clean = m.clean &&",
		"d.info.Clean = (m.clean || planted(`a lost tail not said`)) &&",
		"TestCleanOrNot"},
	{"served before it is noted", "load.go",
		"if err := d.writeMark(false); err != nil {",
		"if planted(`served before it is noted`) {\ngo d.writeMark(false)\n} else if err := d.writeMark(false); err != nil {",
		"TestNotCleanWhileServing"},
	{"a torn round applied", "journal.go",
		"s.torn = s.torn || s.seen.chunks > 0",
		"if s.seen.chunks > 0 && planted(`a torn round applied`) {\ns.add(s.seen)\n}\ns.torn = s.torn || s.seen.chunks > 0",
		"TestTornRoundIsForgotten"},
	{"a log flood", "events.go",
		"if !s.last.IsZero() && now.Sub(s.last) < logEvery {",
		"if !s.last.IsZero() && now.Sub(s.last) < logEvery && !planted(`a log flood`) {",
		"TestSyncFails"},
	{"a line for each generation that cannot be removed", "flusher.go",
		"if missed, ok := d.litterLog.allow(time.Now()); ok {",
		"if missed, ok := d.litterLog.allow(time.Now()); ok || planted(`a line for each generation that cannot be removed`) {",
		"TestTroubleIsNotAFlood"},
	{"what could not be removed stays", "flusher.go",
		"for ; len(d.litter) > 0; d.litter = d.litter[1:] {",
		"for ; len(d.litter) > 0; d.litter = d.litter[1:] {\nif planted(`what could not be removed stays`) {\n_ = d.fs.RemoveAll(d.litter[0])\ncontinue\n}",
		"TestTroubleIsNotAFlood"},
	{"a hang not timed", "flusher.go",
		"d.watch.Reset(stalled)\n\twork()",
		"if !planted(`a hang not timed`) {\nd.watch.Reset(stalled)\n} else {\nd.status.works(time.Time{})\n}\nwork()",
		"TestDiskHangsAtEveryOperation"},
	{"a write cut short taken for whole", "disk.go",
		"if err == nil && n < len(p) {",
		"if err == nil && n < len(p) && !planted(`a write cut short taken for whole`) {",
		"TestShortWrites"},
	{"files of a backup left open", "guard.go",
		"_ = f.File.Close()",
		"if !planted(`files of a backup left open`) {\n_ = f.File.Close()\n}",
		"TestBackupClosesFiles"},
	{"a backup that panics", "guard.go",
		"if err == nil || !f.directory {",
		"if err == nil || !f.directory || planted(`a backup that panics`) {",
		"TestBackupSurvivesDirectorySync"},
	{"a rename that failed taken for done", "disk.go",
		"err = fs.Rename(tmp, fs.PathJoin(dir, name))",
		"if err = fs.Rename(tmp, fs.PathJoin(dir, name)); planted(`a rename that failed taken for done`) {\nerr = nil\n}",
		"TestFaultAtEveryOperation"},
	{"a name not synced after a rename", "disk.go",
		"err = syncDir(fs, dir)\n\t}\n\treturn err",
		"if !planted(`a name not synced after a rename`) {\nerr = syncDir(fs, dir)\n}\n\t}\n\treturn err",
		"TestPowerLossDuringRecovery"},
	{"a marker that may be kept without its file", "guard.go",
		"if strings.HasPrefix(g.PathBase(name), markerPrefix) &&",
		"if strings.HasPrefix(g.PathBase(name), markerPrefix) && !planted(`a marker that may be kept without its file`) &&",
		"TestMarkersComeAfterTheirFiles"},
	{"a full disk called damage", "layout.go",
		"if errors.As(err, new(writeFault)) {",
		"if errors.As(err, new(writeFault)) && !planted(`a full disk called damage`) {",
		"TestStartOnAFullDisk"},
	{"a lock that cannot be made called another server", "layout.go",
		"if errors.As(err, &number) && number != syscall.EAGAIN {",
		"if errors.As(err, &number) && number != syscall.EAGAIN && !planted(`a lock that cannot be made called another server`) {",
		"TestLockThatCannotBeMade"},
	{"no lock", "own.go",
		"lock, err := d.fs.Lock(name)",
		"if planted(`no lock`) {\nname += fmt.Sprint(&name)\n}\nlock, err := d.fs.Lock(name)",
		"TestLockedDirectory"},
	{"another one's directory written to", "own.go",
		"case idOf(info) != d.locked || d.lock == nil:",
		"case (idOf(info) != d.locked || d.lock == nil) && !planted(`another one's directory written to`):",
		"TestDirectoryReplaced"},
	{"a directory without FORMAT", "own.go",
		"if err := writeFormat(d.fs, d.o.Dir); err != nil {",
		"if planted(`a directory without FORMAT`) {\nreturn nil\n}\nif err := writeFormat(d.fs, d.o.Dir); err != nil {",
		"TestDirectoryRemoved"},
	{"a newer format read", "layout.go",
		"if version > formatVersion {",
		"if version > formatVersion && !planted(`a newer format read`) {",
		"TestNewerFormat"},
	{"a missing part of the table not seen", "steps.go",
		"next, end := max(s.kept, 1), s.last",
		"if planted(`a missing part of the table not seen`) {\nreturn nil\n}\nnext, end := max(s.kept, 1), s.last",
		"TestMissingStep"},
	{"a lag of 0 while a round is cut", "recover.go",
		"d.status.cuts(at)\n\tr := d.feed.Cut()",
		"if !planted(`a lag of 0 while a round is cut`) {\nd.status.cuts(at)\n}\nr := d.feed.Cut()\nif planted(`a lag of 0 while a round is cut`) {\nd.status.cuts(at)\n}",
		"TestLagIsNeverTooSmall"},
	{"success on a dead handle", "handle.go",
		"if dead := h.guard.failed(); dead != nil {\n\t\t\treturn dead\n\t\t}\n\t\treturn err",
		"if dead := h.guard.failed(); dead != nil && !planted(`success on a dead handle`) {\n\t\t\treturn dead\n\t\t}\n\t\treturn err",
		"TestDeadHandleNeverSucceeds"},
	{"Fatalf returns", "events.go",
		"l.guard.fail(fmt.Errorf(format, args...))\n\tselect {}",
		"l.guard.fail(fmt.Errorf(format, args...))\n\tif planted(`Fatalf returns`) {\nreturn\n}\nselect {}",
		"TestFatalfNeverReturns"},
	{"a full disk tried again and again", "recover.go",
		"if u.AvailBytes < need ||",
		"if planted(`a full disk tried again and again`) {\nreturn true\n}\nif u.AvailBytes < need ||",
		"TestDiskFull"},
	{"recovery only when asked for", "recover.go",
		"if s.retryAt = s.backOff; s.noRoom {",
		"if s.retryAt = s.backOff; planted(`recovery only when asked for`) {\ns.retryAt = now.Add(1 << 50)\n} else if s.noRoom {",
		"TestTroubleIsNotAFlood"},
}

// switches is the code that plants a fault.
const switches = `package persist

import (
	"os"

	"github.com/cockroachdb/pebble/v2"
)

var thePlanted = os.Getenv("` + plantEnv + `")

func planted(fault string) bool { return thePlanted == fault }

func unless(fault string, o *pebble.WriteOptions) *pebble.WriteOptions {
	if planted(fault) {
		return pebble.NoSync
	}
	return o
}
`

const plantEnv = "RLSERVER_PLANTED"

// TestPlantedFaults plants one fault after the other, and each must make its tests fail.
func TestPlantedFaults(t *testing.T) {
	if testing.Short() || os.Getenv(plantEnv) != "" {
		t.Skip("builds the package again and runs its tests for each planted fault")
	}
	binary := buildPlanted(t)
	all := map[string]bool{}
	for _, f := range faults {
		all[f.test] = true
	}
	for test := range all {
		t.Run("none/"+test, func(t *testing.T) {
			t.Parallel()
			if out, err := runPlanted(binary, "none", test); err != nil || strings.Contains(out, "no tests to run") {
				t.Errorf("without a planted fault: %v\n%s", err, out)
			}
		})
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			out, err := runPlanted(binary, f.name, f.test)
			switch {
			case err == nil:
				t.Errorf("%s did not notice", f.test)
			case !strings.Contains(out, "--- FAIL: Test") && !strings.Contains(out, "panic: "):
				t.Errorf("not a test's failure: %v\n%s", err, out)
			}
		})
	}
}

func runPlanted(binary, fault, test string) (output string, err error) {
	run := exec.Command(binary, "-test.run=^"+test+"$", "-test.short", "-test.failfast", "-test.timeout=120s")
	run.Env = append(os.Environ(), plantEnv+"="+fault, "RLSERVER_SOAK=") // in make soak too the short form notices
	out, err := run.CombinedOutput()
	return string(out), err
}

// buildPlanted builds the tests with all faults in them, without writing to the package.
func buildPlanted(t *testing.T) (binary string) {
	t.Helper()
	dir := t.TempDir()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"planted.go": switches}
	for _, f := range faults {
		text, ok := texts[f.file]
		if !ok {
			b, err := os.ReadFile(f.file)
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		if n := strings.Count(text, f.old); n != 1 {
			t.Fatalf("%s: %q stands %d times in %s, want once: move the fault to where the code went", f.name, f.old, n, f.file)
		}
		texts[f.file] = strings.Replace(text, f.old, f.new, 1)
	}
	replace := map[string]string{}
	for name, text := range texts {
		replace[filepath.Join(here, name)] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "planted.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay="+filepath.Join(dir, "overlay.json"), "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}
