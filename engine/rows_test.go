package engine

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the answers in testdata anew")

// rowsEpoch is what "at" counts from in testdata, Unix ms, unless a file says otherwise.
const rowsEpoch int64 = 1_700_000_000_000

// TestRows runs testdata/*.txt; the files say what a row is.
func TestRows(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) < 4 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) { runRows(t, path) })
	}
}

func runRows(t *testing.T, path string) {
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := rowRunner{epoch: rowsEpoch}
	var out bytes.Buffer
	for i, line := range strings.Split(strings.TrimSuffix(string(file), "\n"), "\n") {
		got, err := rows.line(line)
		if err != nil {
			t.Errorf("%s:%d: %s\n%v", path, i+1, line, err)
		} else if got != line && !*update {
			t.Errorf("%s:%d:\nwant %s\n got %s", path, i+1, line, got)
		}
		out.WriteString(got + "\n")
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// rowRunner is one key and the limit in force.
type rowRunner struct {
	epoch int64
	limit Limit
	value []byte
}

// line returns the line as it should read. An error means that the row did what no update may bless.
func (r *rowRunner) line(line string) (string, error) {
	if strings.HasPrefix(line, "==") {
		*r = rowRunner{epoch: r.epoch}
		return line, nil
	}
	if line == "" || line[0] == '#' {
		return line, nil
	}
	call, _, _ := strings.Cut(line, " -> ")
	marked := strings.HasPrefix(call, "! ")
	before := string(r.value)
	answer, err := r.run(strings.Fields(strings.TrimPrefix(call, "! ")))
	switch {
	case err != nil && !marked:
		return line, fmt.Errorf("error where none was marked: %w", err)
	case err == nil && marked:
		return line, fmt.Errorf("no error, but: %s", answer)
	case err != nil && before != string(r.value):
		return line, errors.New("an error changed the entry")
	case err != nil:
		answer = err.Error()
	}
	if answer == "" {
		return call, nil
	}
	return call + " -> " + answer, nil
}

func (r *rowRunner) run(words []string) (string, error) {
	switch words[0] {
	case "limit":
		lim, err := rowLimit(words[1:])
		if err == nil {
			r.limit = lim
		}
		return "", err
	case "from":
		epoch, err := ParseNow([]byte(words[1]))
		r.epoch = epoch
		return "", err
	}
	now, err := r.time(strings.TrimSuffix(words[0], ","))
	if err != nil {
		return "", err
	}
	var d Decision
	switch words[1] {
	case "get":
		return r.get()
	case "size":
		return strconv.Itoa(len(r.value)), nil
	case "reset":
		if len(words) == 3 {
			lim, err := ParseExpression([]byte(words[2]))
			return strconv.FormatInt(ResetUnder(lim, r.value, now), 10), err
		}
		return strconv.FormatInt(Reset(r.value, now), 10), nil
	case "peek", "refund", "penalize":
		d, err = r.other(words[1], []byte(words[2]), now)
	default:
		d, err = r.acquire(words[1:], now)
	}
	return fmt.Sprintf("%d %d %d %d %d", d.Allowed, d.RetryAfter, d.Remaining, d.ResetAfter, d.Limit), err
}

// rowLimit reads "rate burst", "expression" or "expression as name".
func rowLimit(words []string) (Limit, error) {
	if len(words) == 2 {
		return ParseLimit([]byte(words[0]), []byte(words[1]))
	}
	lim, err := ParseExpression([]byte(words[0]))
	if len(words) == 3 {
		lim.Name = words[2]
	}
	return lim, err
}

func (r *rowRunner) time(s string) (int64, error) {
	if strings.HasPrefix(s, "=") {
		return ParseNow([]byte(s[1:]))
	}
	ms, err := strconv.ParseInt(s, 10, 64)
	return r.epoch + ms, err
}

func (r *rowRunner) acquire(words []string, now int64) (d Decision, err error) {
	var op Op
	if op.Cost, err = ParseCost([]byte(words[0])); err != nil {
		return d, err
	}
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "PARTIAL":
			op.Partial = true
		case "FORCE":
			op.Force = true
		case "MAXWAIT":
			i++
			if op.MaxWait, err = ParseWait("MAXWAIT", []byte(words[i]), MaxMaxWait); err != nil {
				return d, err
			}
		default:
			return d, fmt.Errorf("unknown option %s", words[i])
		}
	}
	out, d, err := Acquire(nil, r.limit, r.value, now, op)
	if out != nil && (op.Cost == 0 || d.Allowed == 0 && !op.Force) {
		return d, errors.New("a refusal or a cost of 0 changed the entry")
	}
	r.keep(out)
	return d, err
}

func (r *rowRunner) other(verb string, arg []byte, now int64) (d Decision, err error) {
	var out []byte
	if verb == "penalize" {
		wait, err := ParseWait("wait", arg, MaxPenalty)
		if err != nil {
			return d, err
		}
		out, d, err = Penalize(nil, r.limit, r.value, wait, now)
		r.keep(out)
		return d, err
	}
	if verb == "peek" {
		cost, err := ParseCost(arg)
		if err != nil {
			return d, err
		}
		return Peek(r.limit, r.value, now, cost)
	}
	n, err := ParseTokens("tokens", arg)
	if err != nil {
		return d, err
	}
	out, d, err = Refund(nil, r.value, n, now)
	r.keep(out)
	return d, err
}

func (r *rowRunner) keep(out []byte) {
	if out != nil {
		r.value = out
	}
}

func (r *rowRunner) get() (string, error) {
	if r.value == nil {
		return "absent", nil
	}
	info, err := Inspect(r.value)
	text := fmt.Sprintf("%v ", info.Limit)
	if info.Limit.Name != "" {
		text += "as " + info.Limit.Name + " "
	}
	if info.Limit.Algorithm == Bucket {
		text += "tokens " + info.Tokens
	} else {
		text += fmt.Sprintf("used %d", info.Used)
	}
	text += fmt.Sprintf(" at %d", info.TS-r.epoch)
	if info.BlockedUntil != 0 {
		text += fmt.Sprintf(" blocked until %d", info.BlockedUntil-r.epoch)
	}
	return text, err
}
