package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// suffered is what the program attack tells of one attack; see attack/suffer.go.
type suffered struct {
	Attack              string
	Before, Peak, After int64 // RSS, bytes
	Opened, Closed      int64
	Clients             int64
	Witness             struct {
		Asked     int
		P50, P99  int64 // µs
		Control99 int64
		Fault     string
	}
	Alive bool
	Notes []string
}

// Bounds of what an attack may cost.
const (
	mostGrowth = 60 << 20 // bytes of RSS
	// mostHoarded is the same where clients fill all that they may together, 256 MB: the collector lets as much again
	// lie for a while.
	mostHoarded  = 640 << 20
	attackWithin = 4 * time.Minute // a machine with much else to do makes all of it slower
	attackedFor  = "400ms"
)

// mostP99 is how long another client may wait, in µs, at the 99th percentile: what the machine makes a mere echo wait
// counts. How well others are served is measured by `make attack`, alone on a machine; this is beside other tests.
//
// Seen in 31 runs with a load average of 20 to 40 on 2 cores: less than half of 60 ms or 50 times the echo's, whichever is
// more, in all but one of 600 attacks (20 ms or 20 times it were exceeded twice: the attacks are short, so the percentile
// is the second worst of 150 answers); and, with the commands that take longest, of 160 ms or 60 times the echo's. An
// attack that holds others up fails by seconds.
func (s suffered) mostP99() int64 {
	switch s.Attack {
	case "heavy", "many", "queued", "watching", "scrapes", "globs":
		return max(160_000, 60*s.Witness.Control99)
	}
	return max(60_000, 50*s.Witness.Control99)
}

// attacked starts a server and makes attacks on it.
func attacked(t *testing.T, program string, args ...string) (all []suffered) {
	t.Helper()
	tls := &secured{authority: newAuthority(t), files: t.TempDir()}
	tls.write(tls.authority, "attacked")
	p := start(t, t.TempDir(), append(tls.flags("no"), "--requirepass", "pw", "--maxclients", "6000", "--port", freePort(t), "--tls-port", freePort(t), "--http-addr", "127.0.0.1:"+freePort(t))...)
	cmd := exec.Command(program, append([]string{"-json", "-addr", p.addr, "-password", "pw"}, args...)...)
	var out, errs logText
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(attackWithin, func() { cmd.Process.Kill() })
	defer late.Stop()
	err := cmd.Wait()
	for lines := json.NewDecoder(strings.NewReader(out.String())); lines.More(); {
		var s suffered
		if err := lines.Decode(&s); err != nil {
			t.Fatalf("%v in %s", err, out.String())
		}
		all = append(all, s)
	}
	if err != nil || len(all) == 0 {
		t.Fatalf("attack %q: %v\n%s%s", args, err, out.String(), errs.String())
	}
	return all
}

// chances is how often an attack is made before what it did counts: a machine with much else to do keeps the server, or
// who watches it, from working. A fault of the server is there each time.
const chances = 3

// TestAttacks makes the attacks of the program attack, shortened, and those
// that wait for deadlines beside them on servers of their own. No attack stops
// the server, takes much memory, or makes another client wait.
func TestAttacks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 20 s")
	}
	program := filepath.Join(t.TempDir(), "attack")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "../../attack").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	quick := []string{"lengths", "counts", "bulk", "empties", "inline", "dribble", "connects", "churn", "reset", "http", "handshakes", "random", "guessing", "heavy", "many", "queued", "watching", "scrapes", "hotkey", "globs"}
	for name, c := range map[string]struct{ flags, attacks []string }{
		"quick": {[]string{"-time", attackedFor, "-scale", "0.3"}, quick},
		"deaf":  {nil, []string{"deaf"}},
		"hoard": {nil, []string{"hoard"}},
		"loris": {nil, []string{"loris"}},
		"half":  {[]string{"-scale", "0.5"}, []string{"greetings", "headers", "cramped"}},
		"idle":  {[]string{"-time", "1s"}, []string{"idle"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, s := range attacked(t, program, slices.Concat(c.flags, c.attacks)...) {
				for chance := 1; ; chance++ {
					faults := s.faults(t)
					if len(faults) == 0 || chance == chances || !s.Alive {
						for _, f := range faults {
							t.Errorf("%s: %s", s.Attack, f)
						}
						break
					}
					t.Logf("%s is made again: %q", s.Attack, faults)
					s = attacked(t, program, slices.Concat(c.flags, []string{s.Attack})...)[0]
				}
			}
		})
	}
}

// faults are the bounds that were not kept.
func (s suffered) faults(t *testing.T) (all []string) {
	w := s.Witness
	t.Logf("%s: rss %d -> %d -> %d MB, p50 %d p99 %d µs, control %d, %d opened, %d closed %q", s.Attack, s.Before>>20, s.Peak>>20, s.After>>20, w.P50, w.P99, w.Control99, s.Opened, s.Closed, s.Notes)
	fault := func(is bool, form string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(form, args...))
		}
	}
	fault(!s.Alive || w.Fault != "", "served afterwards: %v; the other client: %s", s.Alive, w.Fault)
	if underRace() {
		return all // slower, and larger
	}
	most := int64(mostGrowth)
	if s.Attack == "hoard" {
		most = mostHoarded
	}
	fault(s.Peak-s.Before > most, "RSS grows by %d MB, may by %d", (s.Peak-s.Before)>>20, most>>20)
	fault(w.P99 > s.mostP99(), "another client's p99 is %d µs, may be %d", w.P99, s.mostP99())
	switch s.Attack {
	case "handshakes":
		fault(s.Opened == 0 || s.Closed > 0, "%d greetings, %d without an answer", s.Opened, s.Closed)
	case "headers":
		fault(s.Closed < s.Opened-s.Clients, "%d of %d visitors were closed, who came %d at a time", s.Closed, s.Opened, s.Clients)
	case "deaf", "loris", "hoard", "cramped", "greetings":
		fault(s.Opened < s.Clients/2, "%d of %d clients were served: %q", s.Opened, s.Clients, s.Notes) // on a busy machine some do not come to AUTH in time
		fault(s.Closed < s.Opened, "%d of %d clients were closed", s.Closed, s.Opened)
	case "idle":
		fault(s.Opened < 5000, "%d of 5000 idle clients were served: %q", s.Opened, s.Notes)
	}
	return all
}
