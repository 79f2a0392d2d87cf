package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlserver/rlserver/resp"
)

var update = flag.Bool("update", false, "rewrite the transcripts, commands.md and README.md's tables from what the server does now")

// step is one mark of a transcript with what belongs to it.
type step struct {
	line  int
	conn  string // "" or the name before the mark
	mark  byte   // > ! @
	words []string
	text  string   // the line itself
	want  []string // the reply's lines
}

var stepLine = regexp.MustCompile(`^([a-z]*)([>!@]) (.*)$`)

// parseTranscript splits a file into steps. Comments and blank lines are kept
// as text in front of the step that follows, for -update.
func parseTranscript(t *testing.T, path string) (steps []step, notes [][]string) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var note []string
	for i, line := range strings.Split(strings.TrimRight(string(data), "\n"), "\n") {
		m := stepLine.FindStringSubmatch(line)
		switch {
		case m != nil:
			words, err := splitWords(m[3])
			if err != nil {
				t.Fatalf("%s:%d: %v", path, i+1, err)
			}
			steps = append(steps, step{line: i + 1, conn: m[1], mark: m[2][0], words: words, text: line})
			notes = append(notes, note)
			note = nil
		case line == "" || strings.HasPrefix(line, "#"):
			note = append(note, line)
		case len(steps) == 0 || note != nil:
			t.Fatalf("%s:%d: a reply without its command: %q", path, i+1, line)
		default:
			last := &steps[len(steps)-1]
			last.want = append(last.want, line)
		}
	}
	return steps, append(notes, note)
}

// matches compares a reply with what a transcript says: "..." stands for any
// text within a line, and on a line of its own for any lines.
func matches(want, got []string) bool {
	for i, w := range want {
		if w == "..." {
			for skip := i; skip <= len(got); skip++ {
				if matches(want[i+1:], got[skip:]) {
					return true
				}
			}
			return false
		}
		if i >= len(got) || !lineMatches(w, got[i]) {
			return false
		}
	}
	return len(want) == len(got)
}

func lineMatches(want, got string) bool {
	parts := strings.Split(want, "...")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(got)
}

// TestTranscripts plays every file of testdata against a server of its own, on
// a real socket and a clock that moves only where the file says so. The rows of
// the command table are held against what was seen.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	seen := map[string]*sight{}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { playFile(t, path, seen) })
	}
	for _, c := range resp.Commands() {
		if c.Open {
			continue
		}
		s := seen[c.Name]
		file, _, _ := strings.Cut(c.Name, "|")
		switch {
		case s == nil:
			t.Errorf("no transcript shows %s: write testdata/%s.txt", c.Name, file)
		case s.ok == 0 && !slices.Contains(betweenNodes, c.Name):
			t.Errorf("no transcript shows %s succeed", c.Name)
		case c.Write && !s.changed:
			t.Errorf("%s is declared a write and never changed anything", c.Name)
		}
	}
}

// betweenNodes are the commands that are refused, or end a conversation of
// commands: TestReplication has them.
var betweenNodes = []string{"psync", "rl.pull", "rl.sync", "sync"}

// sight is what all transcripts together showed of a command.
type sight struct {
	ok      int
	changed bool
}

// playFile plays one transcript and, with -update, rewrites it.
func playFile(t *testing.T, path string, seen map[string]*sight) {
	steps, notes := parseTranscript(t, path)
	srv := startTest(t, nil)
	conns := map[string]*testConn{}
	var out []string
	for i, st := range steps {
		out = append(out, notes[i]...)
		out = append(out, st.text)
		if st.mark == '@' {
			if err := srv.event(st.words); err != nil {
				t.Fatalf("%s:%d: %v", path, st.line, err)
			}
			if st.words[0] == "restart" {
				clear(conns)
			}
			continue
		}
		if conns[st.conn] == nil {
			conns[st.conn] = dial(t, srv.addr)
		}
		before := srv.node.store.Stats().Changes
		got := conns[st.conn].do(st.words...)
		if got.mark == closed {
			delete(conns, st.conn)
		}
		changed := srv.node.store.Stats().Changes != before
		out = append(out, got.lines()...)
		if (got.mark == '-') != (st.mark == '!') {
			t.Errorf("%s:%d: %s: unexpected %s", path, st.line, st.text, strings.Join(got.lines(), "\n"))
		}
		if matches(st.want, got.lines()) && len(st.want) > 0 {
			out = append(out[:len(out)-len(got.lines())], st.want...)
		} else if !*update {
			t.Errorf("%s:%d: %s\ngot:\n%s\nwant:\n%s", path, st.line, st.text, strings.Join(got.lines(), "\n"), strings.Join(st.want, "\n"))
		}
		if fault := checkRow(st, got, changed, seen); fault != "" {
			t.Errorf("%s:%d: %s: %s", path, st.line, st.text, fault)
		}
	}
	if *update && !t.Failed() {
		out = append(out, notes[len(steps)]...)
		if err := os.WriteFile(path, []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// event is what happens at an @: restart (from disk, from then on with the flags
// that follow), file NAME LINE (a file of one line is written), or a time that
// passes. $DIR stands for the server's data directory.
func (s *testServer) event(words []string) error {
	words = slices.Clone(words)
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "$DIR", s.dir)
	}
	switch {
	case words[0] == "restart":
		s.args = append(s.args, words[1:]...)
		s.restart()
	case words[0] == "file" && len(words) == 3:
		return os.WriteFile(words[1], []byte(words[2]+"\n"), 0o600)
	default:
		d, err := time.ParseDuration(words[0])
		if err != nil {
			return err
		}
		s.advance(d)
	}
	return nil
}

// checkRow holds a reply against the command's row.
func checkRow(st step, got reply, changed bool, seen map[string]*sight) string {
	row, ok := rowOf(st.words)
	if !ok {
		return ""
	}
	s := seen[row.Name]
	if s == nil {
		s = &sight{}
		seen[row.Name] = s
	}
	s.changed = s.changed || changed
	switch {
	case changed && !row.Write && row.Name != "exec": // that runs others
		return "is not declared a write and changed something"
	case changed && got.mark == '-':
		return "answered an error and changed something"
	case got.mark == '-', got.text == "QUEUED":
		return ""
	case !fits(row.Reply, got):
		return fmt.Sprintf("the reply does not fit the declared %q", row.Reply)
	}
	s.ok++
	return ""
}

// rowOf finds the row of a command line.
func rowOf(words []string) (resp.CommandDoc, bool) {
	names := []string{strings.ToLower(words[0])}
	if len(words) > 1 {
		names = append([]string{names[0] + "|" + strings.ToLower(words[1])}, names...)
	}
	for _, name := range names {
		if i := slices.IndexFunc(resp.Commands(), func(c resp.CommandDoc) bool { return c.Name == name }); i >= 0 {
			return resp.Commands()[i], true
		}
	}
	return resp.CommandDoc{}, false
}

// fits says whether a reply is of the declared kind.
func fits(kind string, v reply) bool {
	if base, ok := strings.CutSuffix(kind, "?"); ok {
		if v.null {
			return true
		}
		kind = base
	}
	switch kind {
	case "decision":
		return len(v.items) == 5 && len(v.ints()) == 5
	case "decisions":
		return len(v.items) == 4 && v.items[3].mark == '*' && !slices.ContainsFunc(v.items[3].items, func(d reply) bool { return !fits("decision", d) })
	case "throttle":
		return len(v.items) == 5 && len(v.ints()) == 5
	case "integer":
		return v.mark == ':'
	case "ok":
		return v.mark == '+' && v.text == "OK"
	case "status":
		return v.mark == '+'
	case "bulk":
		return !v.null && (v.mark == '$' || v.mark == '=')
	case "map":
		return v.mark == '%' || v.mark == '*' && len(v.items)%2 == 0
	case "array":
		return v.mark == '*' || v.mark == '~'
	case "none":
		return v.mark == closed
	case "any":
		return true
	}
	return false
}

// TestArity sends every command with too few and, where it takes a fixed
// number, too many words: Redis's error, and nothing changes.
func TestArity(t *testing.T) {
	srv := startTest(t, nil)
	c := dial(t, srv.addr)
	for _, row := range resp.Commands() {
		words := strings.Split(row.Name, "|")
		least := row.Arity
		if least < 0 {
			least = -least
		}
		var tries [][]string
		if least > len(words) {
			tries = append(tries, fill(words, least-1))
		}
		if row.Arity > 0 {
			tries = append(tries, fill(words, least+1))
		}
		for _, try := range tries {
			got := c.do(try...)
			want := "ERR wrong number of arguments for '" + row.Name + "' command"
			if got.mark != '-' || got.text != want {
				t.Errorf("%q: got %q, want error %q", try, got.lines(), want)
			}
		}
	}
	if n := srv.node.store.Stats().Changes; n != 0 {
		t.Errorf("%d changes by commands that were refused", n)
	}
}

func fill(words []string, n int) []string {
	words = slices.Clone(words)
	for len(words) < n {
		words = append(words, "x")
	}
	return words
}
