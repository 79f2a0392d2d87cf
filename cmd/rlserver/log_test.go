package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/slogtest"
	"time"
)

func TestLogLines(t *testing.T) {
	var out bytes.Buffer
	h := newLogger(&out, "text", &slog.LevelVar{}).Handler()
	at := time.Date(2026, 1, 2, 15, 4, 5, 6_000_000, time.UTC)
	for _, c := range []struct {
		level slog.Level
		msg   string
		args  []any
		want  string
	}{
		{slog.LevelInfo, "ready", nil, "2026-01-02T15:04:05.006Z notice  ready\n"},
		{slog.LevelInfo, "keys loaded", []any{"keys", 1000, "took", 12 * time.Millisecond}, "2026-01-02T15:04:05.006Z notice  keys loaded  keys=1000 took=12ms\n"},
		{slog.LevelError, "écrit", []any{"err", errors.New("no space: x")}, "2026-01-02T15:04:05.006Z error   écrit  err=\"no space: x\"\n"},
		{slog.LevelWarn, "a\r\nb\x1b[31m", []any{"k\n", "v\x00\n", "q", `"`, "e", "", "bad", "\xff"},
			`2026-01-02T15:04:05.006Z warning a\r\nb\x1b[31m  k\n="v\x00\n" q="\"" e="" bad="\xff"` + "\n"},
	} {
		out.Reset()
		r := slog.NewRecord(at, c.level, c.msg, 0)
		r.Add(c.args...)
		if err := h.Handle(t.Context(), r); err != nil || out.String() != c.want {
			t.Errorf("got  %swant %s%v", out.String(), c.want, err)
		}
	}
}

// Both formats keep slog's rules.
func TestLogConformance(t *testing.T) {
	for format, parse := range map[string]func(*testing.T, string) map[string]any{"json": parseJSON, "text": parseLine} {
		var out bytes.Buffer
		slogtest.Run(t, func(*testing.T) slog.Handler {
			out.Reset()
			return newLogger(&out, format, &slog.LevelVar{}).Handler()
		}, func(t *testing.T) map[string]any { return parse(t, out.String()) })
	}
}

func parseJSON(t *testing.T, text string) map[string]any {
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

var logLine = regexp.MustCompile(`^(\S+Z?\S* )?(debug|verbose|notice|warning|error) +(.*?)(  (.*))?\n$`)

func parseLine(t *testing.T, text string) map[string]any {
	m := logLine.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("not a line: %q", text)
	}
	found := map[string]any{slog.LevelKey: m[2], slog.MessageKey: m[3]}
	if m[1] != "" {
		found[slog.TimeKey] = m[1]
	}
	for rest := m[5]; rest != ""; rest = strings.TrimPrefix(rest, " ") {
		key, value, _ := strings.Cut(rest, "=")
		if q, err := strconv.QuotedPrefix(value); err == nil {
			rest = value[len(q):]
			value, _ = strconv.Unquote(q)
		} else {
			value, rest, _ = strings.Cut(value, " ")
		}
		inner := found
		path := strings.Split(key, ".")
		for _, group := range path[:len(path)-1] {
			if inner[group] == nil {
				inner[group] = map[string]any{}
			}
			inner = inner[group].(map[string]any)
		}
		inner[path[len(path)-1]] = value
	}
	return found
}

func TestLogLevels(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		var level slog.LevelVar
		log := newLogger(&out, format, &level)
		for _, name := range levelNames() {
			level.Set(levelOf(name))
			out.Reset()
			for _, l := range levels {
				log.Log(t.Context(), l.level, "x")
			}
			log.Error("x")
			want := levelNames()
			for want[0] != name {
				want = want[1:]
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if len(lines) != len(want)+1 {
				t.Fatalf("%s %s: %d lines: %s", format, name, len(lines), out.String())
			}
			for i, word := range append(want, "error") {
				if !strings.Contains(lines[i], word) {
					t.Errorf("%s %s: line %d is not marked %s: %s", format, name, i, word, lines[i])
				}
			}
		}
	}
}

// TestReadyInJSON: a log for programs tells when clients are served, and where; there is no banner then.
func TestReadyInJSON(t *testing.T) {
	t.Parallel()
	p := spawn(t, t.TempDir(), "--log-format", "json")
	p.await("the line", func() bool { return strings.Contains(p.out.String(), `"msg":"ready"`) })
	for line := range strings.Lines(p.out.String()) {
		var got struct {
			Msg       string
			Addresses []string
			Keys      *int
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if got.Msg == "ready" && (len(got.Addresses) != 1 || got.Keys == nil) {
			t.Error(line)
		} else if got.Msg == "ready" {
			p.addr = got.Addresses[0]
		}
	}
	if !p.answers() {
		t.Errorf("no answer on %q", p.addr)
	}
}
