package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The table is sound: names and texts are there, defaults parse and come back as they would be written, and each row
// has a field of Values of its own.
func TestOptionsTable(t *testing.T) {
	v := defaults()
	seen := map[string]bool{}
	for i := range options {
		o := &options[i]
		if seen[o.name] || o.name != strings.ToLower(o.name) || lookupFact(o.name) != nil {
			t.Errorf("%s: a name in lower case that no other row has", o.name)
		}
		seen[o.name] = true
		if o.help == "" || strings.HasSuffix(o.help, ".") || strings.Contains(o.help, "\n") {
			t.Errorf("%s: help is one line without a full stop: %q", o.name, o.help)
		}
		var again Values
		if err := o.kind.parse(&again, o.kind.format(&v)); err != nil || o.kind.format(&again) != o.kind.format(&v) {
			t.Errorf("%s: default %q comes back as %q (%v)", o.name, o.def, o.kind.format(&v), err)
		}
	}
	if n := reflect.TypeFor[Values]().NumField(); n != len(options) {
		t.Errorf("Values has %d fields, the table %d rows", n, len(options))
	}
}

func TestKinds(t *testing.T) {
	const fine = "" // the value shows as it was written
	for _, c := range []struct{ name, text, shows, err string }{
		{"port", "0", fine, ""},
		{"port", "65535", fine, ""},
		{"port", "65536", "", "argument must be between 0 and 65535 inclusive"},
		{"port", "-1", "", "argument must be between 0 and 65535 inclusive"},
		{"port", "99999999999999999999", "", "argument must be between 0 and 65535 inclusive"},
		{"port", "", "", "argument couldn't be parsed into an integer"},
		{"port", "+5", "", "argument couldn't be parsed into an integer"},
		{"port", "6390 ", "", "argument couldn't be parsed into an integer"},
		{"port", "1e3", "", "argument couldn't be parsed into an integer"},
		{"port", "6_390", "", "argument couldn't be parsed into an integer"},
		{"maxclients", "0", "", "argument must be between 1 and 1000000 inclusive"},
		{"shards", "1024", fine, ""},
		{"shards", "3", "", "argument must be 0 or a power of two up to 1024"},
		{"shards", "2048", "", "argument must be between 0 and 1024 inclusive"},
		{"timeout", "2147483647", fine, ""},
		{"timeout", "2147483648", "", "argument must be between 0 and 2147483647 inclusive"},
		{"timeout", "5s", "", "argument couldn't be parsed into an integer"},
		{"snapshot-interval", "250ms", fine, ""},
		{"snapshot-interval", "1000ms", "1s", ""},
		{"snapshot-interval", "60s", "1m", ""},
		{"snapshot-interval", "1h", fine, ""},
		{"snapshot-interval", "2h", "", "argument must be between 10ms and 1h inclusive"},
		{"snapshot-interval", "9ms", "", "argument must be between 10ms and 1h inclusive"},
		{"snapshot-interval", "1000", "", "argument must be a time with a unit, such as 250ms, 1s or 1m"},
		{"snapshot-interval", "-1s", "", "argument must be a time with a unit, such as 250ms, 1s or 1m"},
		{"snapshot-interval", "1.5s", "", "argument must be a time with a unit, such as 250ms, 1s or 1m"},
		{"snapshot-interval", "s", "", "argument must be a time with a unit, such as 250ms, 1s or 1m"},
		{"snapshot-interval", "1sm", "", "argument must be a time with a unit, such as 250ms, 1s or 1m"},
		{"snapshot-interval", "9223372036854775807d", "", "argument must be a time with a unit, such as 250ms, 1s or 1m"},
		{"max-clock-skew", "0", "0s", ""},
		{"max-clock-skew", "1d", fine, ""},
		{"proto-max-bulk-len", "64kb", "65536", ""},
		{"proto-max-bulk-len", "64KB", "65536", ""},
		{"proto-max-bulk-len", "64k", "64000", ""},
		{"proto-max-bulk-len", "65536b", "65536", ""},
		{"proto-max-bulk-len", "1gb", "", "argument must be between 2048 and 1024000 inclusive"},
		{"proto-max-bulk-len", "9223372036854775807gb", "", "argument must be between 2048 and 1024000 inclusive"},
		{"proto-max-bulk-len", "99999999999999999999", "", "argument must be between 2048 and 1024000 inclusive"},
		{"proto-max-bulk-len", "1", "", "argument must be between 2048 and 1024000 inclusive"},
		{"proto-max-bulk-len", "2x", "", "argument must be a memory value"},
		{"proto-max-bulk-len", "kb", "", "argument must be a memory value"},
		{"proto-max-bulk-len", "1bb", "", "argument must be a memory value"},
		{"proto-max-bulk-len", "-1", "", "argument must be a memory value"},
		{"protected-mode", "NO", "no", ""},
		{"protected-mode", "true", "", "argument must be 'yes' or 'no'"},
		{"loglevel", "Verbose", "verbose", ""},
		{"loglevel", "info", "", "argument(s) must be one of the following: debug, verbose, notice, warning"},
		{"dir", "/var/lib/rl server", fine, ""},
		{"dir", "", "", "argument must be a path"},
		{"dir", "a\x00b", "", "argument must be a path"},
		{"requirepass", "", "", ""},
		{"requirepass", "p w", mask, ""},
		{"requirepass", mask, "", "argument must be at most 512 bytes, and not the mask *****"},
		{"requirepass", strings.Repeat("x", 513), "", "argument must be at most 512 bytes, and not the mask *****"},
		{"bind", "* -::*", fine, ""},
		{"bind", " 10.0.0.1   localhost -fe80::1%eth0 ", "10.0.0.1 localhost -fe80::1%eth0", ""},
		{"bind", "", "", "argument must be 1 to 16 addresses"},
		{"bind", "[::1]", "", "argument must be 1 to 16 addresses"},
		{"bind", "127.0.0.1:6390", "", "argument must be 1 to 16 addresses"},
		{"bind", "./rlserver.conf/x", "", "argument must be 1 to 16 addresses"},
		{"bind", strings.Repeat("::1 ", 17), "", "argument must be 1 to 16 addresses"},
		{"http-addr", "", fine, ""},
		{"http-addr", ":9390", fine, ""},
		{"http-addr", "[::1]:0", fine, ""},
		{"http-addr", "9390", "", "argument must be host:port, or empty"},
		{"http-addr", "localhost:http", "", "argument must be host:port, or empty"},
		{"http-addr", "a b:1", "", "argument must be host:port, or empty"},
	} {
		v := defaults()
		before := fmt.Sprintf("%#v", v)
		o := lookup(c.name)
		got := ""
		if err := o.kind.parse(&v, c.text); err != nil {
			got = err.Error()
		}
		switch {
		case got != c.err:
			t.Errorf("%s %.80q: error %q, want %q", c.name, c.text, got, c.err)
		case c.err != "" && fmt.Sprintf("%#v", v) != before:
			t.Errorf("%s %.80q: refused, and yet it changed something", c.name, c.text)
		case c.err == "":
			if want := c.shows; o.shown(&v) != want && (want != fine || o.shown(&v) != c.text) {
				t.Errorf("%s %q: shows %q, want %q", c.name, c.text, o.shown(&v), want)
			}
		}
	}
}

func TestListen(t *testing.T) {
	v := Values{Bind: []string{"*", "-::*", "127.0.0.1", "-::1", "localhost"}, Port: 6390}
	want := []listenAddress{
		{"tcp4", "0.0.0.0:6390", false},
		{"tcp6", "[::]:6390", true},
		{"tcp4", "127.0.0.1:6390", false},
		{"tcp6", "[::1]:6390", true},
		{"tcp", "localhost:6390", false},
	}
	if got := v.Listen(v.Port); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// However a secret is printed, it is not.
func TestSecretIsNeverPrinted(t *testing.T) {
	v := defaults()
	v.RequirePass = "hunter2"
	var out bytes.Buffer
	fmt.Fprintf(&out, "%v %+v %#v %s %q %x", v, v, v, v.RequirePass, v.RequirePass, v.RequirePass)
	fmt.Fprintln(&out, newConfig(v).Get("*"))
	if err := json.NewEncoder(&out).Encode(v); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"text", "json"} {
		newLogger(&out, format, &slog.LevelVar{}).Info("options", "all", v, "pass", v.RequirePass)
	}
	if text := out.String(); strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) || !strings.Contains(text, mask) {
		t.Error(text)
	}
}

func TestHelpFitsATerminal(t *testing.T) {
	text := helpText()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(line); n > 111 { // with its newline
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, o := range options {
		if !strings.Contains(text, "--"+o.name) {
			t.Errorf("--help does not tell of %s", o.name)
		}
	}
}

// The README's table says what the declarations say; -update rewrites it.
func TestReadmeOptions(t *testing.T) {
	const file, from, to = "../../README.md", "<!-- options -->\n", "<!-- /options -->"
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) && *update {
		data, err = []byte("# rlserver\n\n"+from+to+"\n"), nil
	}
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(data), from)
	table, after, ok2 := strings.Cut(rest, to)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no lines %q and %q around the options table", file, strings.TrimSpace(from), to)
	}
	want := optionsTable()
	if table == want {
		return
	}
	if !*update {
		t.Fatalf("the options table of %s differs from the declarations; go test ./cmd/rlserver -run Readme -update rewrites it. It should be:\n%s", file, want)
	}
	if err := os.WriteFile(file, []byte(before+from+want+to+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
