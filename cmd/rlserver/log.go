package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// levels are Redis's words for how much is logged, least severe first. What the rooms log with slog.Info is a notice,
// what they log with slog.Debug is for debug; verbose lies between them.
var levels = []struct {
	name  string
	level slog.Level
}{
	{"debug", slog.LevelDebug},
	{"verbose", slog.LevelDebug + 2},
	{"notice", slog.LevelInfo},
	{"warning", slog.LevelWarn},
}

func levelNames() (names []string) {
	for _, l := range levels {
		names = append(names, l.name)
	}
	return names
}

// levelOf returns the level of a word of loglevel. An unknown word is a fault of the program: the option was checked.
func levelOf(word string) slog.Level {
	for _, l := range levels {
		if l.name == word {
			return l.level
		}
	}
	panic("log level " + word)
}

// levelName is what a line of that level is marked with.
func levelName(level slog.Level) string {
	if level >= slog.LevelError {
		return "error"
	}
	name := levels[0].name
	for _, l := range levels {
		if level >= l.level {
			name = l.name
		}
	}
	return name
}

// newLogger makes the server's logger. format is a word of log-format; what is below level is left out, and the level
// may be changed at any time. One message is one Write to w, one line, in any format.
func newLogger(w io.Writer, format string, level *slog.LevelVar) *slog.Logger {
	if format != "json" {
		return slog.New(&lineHandler{mu: &sync.Mutex{}, w: w, level: level})
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if level, ok := a.Value.Any().(slog.Level); ok && len(groups) == 0 && a.Key == slog.LevelKey {
				a.Value = slog.StringValue(levelName(level))
			}
			return a
		},
	}))
}

// lineTime is the time of a line: local, to the millisecond, with its zone.
const lineTime = "2006-01-02T15:04:05.000Z07:00"

// A lineHandler writes records for people:
//
//	2026-01-02T15:04:05.000Z notice   keys loaded  keys=1000 took=12ms
//
// Whatever comes in a message or a value, a record stays one line and shows no control character.
type lineHandler struct {
	mu     *sync.Mutex // held around each Write; shared with the handlers derived from this one
	w      io.Writer
	level  slog.Leveler
	group  string // dotted prefix of keys to come
	preset string // attributes of With, formatted
}

// Enabled implements slog.Handler.
func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

// Handle implements slog.Handler.
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	var b bytes.Buffer
	if !r.Time.IsZero() {
		b.WriteString(r.Time.Round(0).Format(lineTime) + " ")
	}
	name := levelName(r.Level)
	b.WriteString(name + strings.Repeat(" ", len("warning ")-len(name)))
	b.WriteString(plain(r.Message))
	attrs := h.preset
	r.Attrs(func(a slog.Attr) bool {
		attrs += attrText(h.group, a)
		return true
	})
	if attrs != "" {
		b.WriteString(" " + attrs) // two blanks end the message
	}
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.w.Write(b.Bytes())
	return err
}

// WithAttrs implements slog.Handler.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	derived := *h
	for _, a := range attrs {
		derived.preset += attrText(h.group, a)
	}
	return &derived
}

// WithGroup implements slog.Handler.
func (h *lineHandler) WithGroup(name string) slog.Handler {
	derived := *h
	if name != "" {
		derived.group += name + "."
	}
	return &derived
}

// attrText is " key=value", or that of each attribute of a group, or nothing for the empty attribute.
func attrText(group string, a slog.Attr) string {
	value := a.Value.Resolve()
	if a.Equal(slog.Attr{}) {
		return ""
	}
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		var all string
		for _, inner := range value.Group() {
			all += attrText(group, inner)
		}
		return all
	}
	text := value.String()
	if value.Kind() == slog.KindTime {
		text = value.Time().Format(time.RFC3339Nano)
	}
	if text == "" || strings.ContainsAny(text, " =\"") || plain(text) != text {
		text = strconv.Quote(text)
	}
	return " " + plain(group+a.Key) + "=" + text
}

// plain returns text as it is if it is printable, else with everything else escaped.
func plain(text string) string {
	odd := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	if !slices.ContainsFunc([]rune(text), odd) {
		return text
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}
