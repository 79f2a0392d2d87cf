package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// inFolder writes a config file, if there is text for one, and enters its folder.
func inFolder(t *testing.T, text string) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("rl.conf", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// shownOption is one option of an invocation, as CONFIG GET shows it.
func shownOption(t *testing.T, inv invocation, name string) string {
	t.Helper()
	found := inv.config.Get(name)
	if len(found) != 1 {
		t.Fatalf("CONFIG GET %s: %v", name, found)
	}
	return found[0][1]
}

func TestStrength(t *testing.T) {
	for _, c := range []struct {
		file string
		env  []string
		args []string
		want string
	}{
		{"", nil, nil, "6390"},
		{"port 1", nil, []string{"rl.conf"}, "1"},
		{"port 1", []string{"RLSERVER_PORT=2"}, []string{"rl.conf"}, "2"},
		{"port 1", []string{"RLSERVER_PORT=2"}, []string{"rl.conf", "--port", "3"}, "3"},
		{"port 1", []string{"RLSERVER_PORT=2"}, []string{"--port=3", "rl.conf"}, "3"},
		{"port 1\nPort 4", nil, []string{"rl.conf"}, "4"},
		{"", nil, []string{"--PORT", "3", "--port=5"}, "5"},
	} {
		inFolder(t, c.file)
		inv, err := parseInvocation(c.args, c.env)
		if err != nil {
			t.Errorf("%v: %v", c, err)
		} else if got := shownOption(t, inv, "port"); got != c.want {
			t.Errorf("%v: port %s", c, got)
		}
	}
}

func TestFlagForms(t *testing.T) {
	inFolder(t, "")
	inv, err := parseInvocation([]string{"rl.conf", "--bind", "127.0.0.1", "-::1", "--requirepass=--a=b", "--http-addr", "", "--check-config"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := inv.config.Values()
	if inv.action != actionCheckConfig || inv.file != "rl.conf" || !slices.Equal(v.Bind, []string{"127.0.0.1", "-::1"}) || v.RequirePass != "--a=b" || v.HTTPAddr != "" {
		t.Errorf("%+v %+v", inv, v)
	}
	for word, want := range map[string]action{"--help": actionHelp, "-h": actionHelp, "help": actionHelp, "--version": actionVersion, "-v": actionVersion} {
		if inv, err := parseInvocation([]string{"absent.conf", word, "--nonsense"}, nil); err != nil || inv.action != want {
			t.Errorf("%s: %v, %v", word, inv.action, err)
		}
	}
}

func TestConfigFile(t *testing.T) {
	inFolder(t, strings.Join([]string{
		"\ufeff# a comment",
		"",
		"   # another",
		"\tport   7000\r",
		`bind 127.0.0.1 "::1"`,
		`dir "/tmp/my \"data\"\x41\n"`,
		`requirepass 'it\'s "secret" #1'`,
		`http-addr ""`,
		"LOGLEVEL debug",
	}, "\n"))
	inv, err := parseInvocation([]string{"rl.conf"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := inv.config.Values()
	if v.Port != 7000 || !slices.Equal(v.Bind, []string{"127.0.0.1", "::1"}) || v.Dir != "/tmp/my \"data\"A\n" ||
		v.RequirePass != `it's "secret" #1` || v.HTTPAddr != "" || v.LogLevel != "debug" {
		t.Errorf("%+v, password %q", v, string(v.RequirePass))
	}
}

func TestBadInvocations(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, c := range []struct {
		file string
		env  []string
		args []string
		want string
	}{
		{"", nil, []string{"--nope", "1"}, `--nope: unknown option "nope"`},
		{"", nil, []string{"--" + long}, `--` + long[:64] + `...: unknown option "` + long[:64] + `"...`},
		{"", nil, []string{"--\x1b[1m\n"}, `--\x1b[1m\n: unknown option "\x1b[1m\n"`},
		{"", nil, []string{"-p", "1"}, `unknown option "-p": options start with two dashes`},
		{"", nil, []string{"--port"}, `--port: a value is missing, expected an integer from 0 to 65535; one that starts with -- is written --port=VALUE`},
		{"", nil, []string{"--port", "--dir", "x"}, `--port: a value is missing, expected an integer from 0 to 65535; one that starts with -- is written --port=VALUE`},
		{"", nil, []string{"--port="}, `--port: got "", expected an integer from 0 to 65535`},
		{"", nil, []string{"--port", long}, `--port: got "` + long[:64] + `"..., expected an integer from 0 to 65535`},
		{"", nil, []string{"--port", "1", "2", "3"}, `"3": the config file is already "2"; a value follows its option: --port 6390`},
		{"", nil, []string{""}, `"": expected a config file or an option`},
		{"", nil, []string{"--save", ""}, `--save: option "save" cannot be set: there are no RDB snapshots; see "durability" and "snapshot-interval"`},
		{"", []string{"RLSERVER_MAX_CLOCK_SKEW=1"}, nil, `RLSERVER_MAX_CLOCK_SKEW: got "1", expected a time with a unit (ms, s, m, h, d) from 0s to 1d, such as 1s`},
		{"", []string{"RLSERVER_DIR="}, nil, `RLSERVER_DIR: got "", expected a path`},
		{"port 1\n\nport abc", nil, []string{"rl.conf"}, `rl.conf:3: port: got "abc", expected an integer from 0 to 65535`},
		{"port abc", nil, []string{"rl.conf", "--port", "1"}, `rl.conf:1: port: got "abc", expected an integer from 0 to 65535`},
		{"# x\nprot 1", nil, []string{"rl.conf"}, `rl.conf:2: unknown option "prot"`},
		{"appendonly yes", nil, []string{"rl.conf"}, `rl.conf:1: option "appendonly" cannot be set: there is no append-only file; see "durability" and "snapshot-interval"`},
		{"port", nil, []string{"rl.conf"}, `rl.conf:1: port: got 0 values, expected one: an integer from 0 to 65535 (one with spaces needs quotes, a comment a line of its own)`},
		{"port 1 # x", nil, []string{"rl.conf"}, `rl.conf:1: port: got 3 values, expected one: an integer from 0 to 65535 (one with spaces needs quotes, a comment a line of its own)`},
		{"bind", nil, []string{"rl.conf"}, `rl.conf:1: bind: got 0 values, expected one: 1 to 16 addresses, such as 127.0.0.1 ::1 (one with spaces needs quotes, a comment a line of its own)`},
		{`dir "/tmp`, nil, []string{"rl.conf"}, `rl.conf:1: unbalanced quotes: a quoted value is one word, "like this" or 'like this'`},
		{"requirepass " + long + long + long + long + long + long, nil, []string{"rl.conf"}, `rl.conf:1: requirepass: got a secret of 600 bytes, expected at most 512 bytes, and not the mask *****`},
		{strings.Repeat("#", maxConfigBytes+1), nil, []string{"rl.conf"}, `config file: rl.conf: longer than 1048576 bytes`},
		{"", nil, []string{"absent.conf"}, `config file: open absent.conf: no such file or directory`},
	} {
		inFolder(t, c.file)
		_, err := parseInvocation(c.args, c.env)
		if err == nil || err.Error() != c.want {
			t.Errorf("%.200q:\n got %v\nwant %s", c.args, err, c.want)
		}
	}
}

func TestEnvironmentOfOthers(t *testing.T) {
	inv, err := parseInvocation(nil, []string{
		"RLSERVER_PORT=tcp://10.0.0.7:6390", "RLSERVER_SERVICE_HOST=10.0.0.7", "RLSERVER_SERVICE_PORT=6390", "RLSERVER_SERVICE_PORT_RESP=6390",
		"RLSERVER_PORT_6390_TCP=tcp://10.0.0.7:6390", "RLSERVER_PORT_6390_TCP_ADDR=10.0.0.7", "RLSERVER_PROT=1", "PORT=2", "HOME=/root", "odd",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`environment variable RLSERVER_PORT is "tcp://10.0.0.7:6390", a Kubernetes service link and no port; ignored`,
		`environment variable RLSERVER_PROT names no option; ignored`,
	}
	if got := shownOption(t, inv, "port"); got != "6390" || !slices.Equal(inv.notes, want) {
		t.Errorf("port %s, notes %q", got, inv.notes)
	}
}

func TestSplitWords(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string // nil: unbalanced
	}{
		{"a b  c", []string{"a", "b", "c"}},
		{"\ta\vb\fc ", []string{"a", "b", "c"}},
		{`a "b c" 'd e'`, []string{"a", "b c", "d e"}},
		{`a "" ''`, []string{"a", "", ""}},
		{`"\n\r\t\b\a\\\"\x4a\xZZ\q"`, []string{"\n\r\t\b\a\\\"JxZZq"}},
		{`'\n\'x"'`, []string{`\n'x"`}},
		{`a"b"`, []string{"ab"}},
		{`a#b`, []string{"a#b"}},
		{`"a"b`, nil},
		{`"a`, nil},
		{`'a`, nil},
		{`"a\`, nil},
		{`"a\"`, nil},
	} {
		got, err := splitWords(c.line)
		if (err != nil) != (c.want == nil) || err == nil && !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v", c.line, got, err)
		}
	}
}

// A file that cannot be read as text is refused with its name.
func TestConfigFileIsFolder(t *testing.T) {
	dir := t.TempDir()
	if _, err := parseInvocation([]string{dir}, nil); err == nil || !strings.Contains(err.Error(), filepath.Base(dir)) {
		t.Error(err)
	}
}
