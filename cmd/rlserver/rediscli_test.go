package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// cliWithin bounds a run of redis-cli that ends by itself.
const cliWithin = time.Minute

// cli runs redis-cli against a server and returns both its streams.
func cli(t testing.TB, p *process, stdin io.Reader, args ...string) string {
	t.Helper()
	out, err := runCLI(t, p, cliWithin, stdin, args...)
	if err != nil {
		t.Fatalf("redis-cli %q: %v\n%s", args, err, out)
	}
	return out
}

func runCLI(t testing.TB, p *process, within time.Duration, stdin io.Reader, args ...string) (string, error) {
	_, port, _ := net.SplitHostPort(p.addr)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool(t, "redis-cli"), append([]string{"-p", port}, args...)...)
	cmd.Stdin = stdin
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// numbers reads what redis-cli prints for a decision when nobody looks: a
// number a line.
func numbers(t testing.TB, out string) (ns []int64) {
	t.Helper()
	for _, f := range strings.Fields(out) {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			t.Fatalf("expected integers, got %q", out)
		}
		ns = append(ns, n)
	}
	return ns
}

// TestCLIOneShot: one command, five integers; the eleventh call of a burst of
// ten is told to wait at most a minute.
func TestCLIOneShot(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	for i := range int64(11) {
		d := numbers(t, cli(t, p, nil, "RL.ACQUIRE", "user:1", "1/m", "10"))
		switch {
		case len(d) != 5 || d[4] != 10:
			t.Fatalf("call %d: %v, want five integers, the last one 10", i+1, d)
		case i < 10 && (d[0] != 1 || d[1] != 0 || d[2] != 9-i):
			t.Errorf("call %d: %v, want it allowed with %d left", i+1, d, 9-i)
		case i == 10 && (d[0] != 0 || d[1] <= 0 || d[1] > 60000 || d[2] != 0):
			t.Errorf("call %d: %v, want it denied with a wait of at most 60000 ms", i+1, d)
		}
	}
	if got := cli(t, p, nil, "--no-raw", "RL.ACQUIRE", "user:2", "1/m", "10"); got != "1) (integer) 1\n2) (integer) 0\n3) (integer) 9\n4) (integer) 60000\n5) (integer) 10\n" {
		t.Errorf("as a person sees it: %q", got)
	}
	for _, version := range []string{"-2", "-3"} {
		if d := numbers(t, cli(t, p, nil, version, "RL.ACQUIRE", "user"+version, "1/m", "10")); len(d) != 5 || d[2] != 9 {
			t.Errorf("%s: %v", version, d)
		}
	}
	if got := cli(t, p, nil, "-3", "--no-raw", "RL.GET", "user:1"); !strings.Contains(got, `1# "algorithm" => "bucket"`) {
		t.Errorf("-3 shows no map: %q", got)
	}
	if got := numbers(t, cli(t, p, nil, "-r", "3", "RL.ACQUIRE", "user:3", "1/m", "10")); len(got) != 15 || got[12] != 7 {
		t.Errorf("-r 3: %v, want three decisions", got)
	}
	if got := cli(t, p, nil, "--json", "RL.ACQUIRE", "user:4", "1/m", "10"); got != "[1,0,9,60000,10]\n" {
		t.Errorf("--json: %q", got)
	}
	if out, err := runCLI(t, p, cliWithin, nil, "-e", "RL.ACQUIRE", "user:1"); err == nil || !strings.Contains(out, "wrong number of arguments") {
		t.Errorf("-e with an error: %q, %v", out, err)
	}
}

// TestCLIWait: who waits as long as he was told is admitted, who waits 1 ms
// less is not.
func TestCLIWait(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), "--caller-clock", "trusted")
	now := time.Now().UnixMilli()
	acquire := func(at int64) []int64 {
		return numbers(t, cli(t, p, nil, "RL.ACQUIRE", "user:1", "1/m", "10", strconv.FormatInt(at, 10)))
	}
	for range 10 {
		acquire(now)
	}
	wait := acquire(now)[1]
	if early := acquire(now + wait - 1); wait != 60000 || early[0] != 0 || early[1] != 1 {
		t.Errorf("told to wait %d ms; after 1 ms less: %v", wait, early)
	}
	if due := acquire(now + wait); due[0] != 1 {
		t.Errorf("after the %d ms: %v", wait, due)
	}
}

// TestCLIPassword: both ways in which redis-cli logs in.
func TestCLIPassword(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), "--requirepass", "s3cret")
	for _, args := range [][]string{{"-a", "s3cret"}, {"--user", "default", "-a", "s3cret"}, {"-3", "-a", "s3cret"}} {
		if got := cli(t, p, nil, append(args, "--no-auth-warning", "PING")...); got != "PONG\n" {
			t.Errorf("%q: %q", args, got)
		}
	}
	if got := cli(t, p, nil, "PING"); !strings.Contains(got, "NOAUTH") {
		t.Errorf("without a password: %q", got)
	}
}

// TestCLIInteractive: lines piped in, and a person at a terminal, who gets
// completion and hints from COMMAND DOCS and no warning.
func TestCLIInteractive(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	got := cli(t, p, strings.NewReader("PING\nRL.ACQUIRE a 1/m 10\nNOSUCH\nRL.ACQUIRE a 1/m 10\n"))
	if want := "PONG\n1\n0\n9\n60000\n10\nERR unknown command 'NOSUCH', with args beginning with: \n\n"; !strings.HasPrefix(got, want) {
		t.Errorf("piped lines: %q", got)
	}
	screen := terminal(t, p, []exchange{
		{"", "> "},
		{"RL.ACQ\t b 1/m 10", "10"},
		{"\r", "5) (integer) 10"},
		{"quit\r", "quit"},
	})
	for what, want := range map[string]string{"the decision": "3) (integer) 9", "the hint": "tokens"} {
		if !strings.Contains(screen, want) {
			t.Errorf("%s (%q) is not on the screen: %q", what, want, screen)
		}
	}
	for _, bad := range []string{"arning", "rror", "ERR"} {
		if strings.Contains(screen, bad) {
			t.Errorf("%q is on the screen: %q", bad, screen)
		}
	}
}

// An exchange is what a person types, and what he waits for on the screen.
type exchange struct{ types, sees string }

// terminal runs redis-cli on a terminal and returns all that its screen showed.
func terminal(t *testing.T, p *process, say []exchange) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(p.addr)
	ctx, cancel := context.WithTimeout(t.Context(), cliWithin)
	defer cancel()
	session := "stty rows 40 cols 150; exec " + tool(t, "redis-cli") + " -p " + port
	cmd := exec.CommandContext(ctx, tool(t, "script"), "-qec", session, "/dev/null")
	cmd.Env = append(cmd.Environ(), "TERM=xterm", "HOME="+t.TempDir())
	var screen logText
	cmd.Stdout, cmd.Stderr = &screen, &screen
	keyboard, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, e := range say {
		io.WriteString(keyboard, e.types)
		for !strings.Contains(screen.String()[seen:], e.sees) {
			if ctx.Err() != nil {
				t.Fatalf("typed %q, %q does not show up: %q", e.types, e.sees, screen.String())
			}
			time.Sleep(5 * time.Millisecond)
		}
		seen = len(screen.String())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("a terminal session: %v\n%q", err, screen.String())
	}
	return screen.String()
}

// TestCLIPipe: a bulk load, ended by ECHO of a random token.
func TestCLIPipe(t *testing.T) {
	t.Parallel()
	const calls, keys = 100000, 7000
	p := start(t, t.TempDir())
	var load strings.Builder
	for i := range calls {
		load.WriteString(frame("RL.ACQUIRE", "user:"+strconv.Itoa(i%keys), "1/30d", "1000"))
	}
	out := cli(t, p, strings.NewReader(load.String()), "--pipe")
	if want := fmt.Sprintf("errors: 0, replies: %d", calls); !strings.Contains(out, want) {
		t.Errorf("--pipe: %q, want %q", out, want)
	}
	c := dial(t, p.addr)
	if got := c.do("DBSIZE").text; got != strconv.Itoa(keys) {
		t.Errorf("DBSIZE %s, want %d", got, keys)
	}
	if got := infoInt(t, c, "rl_allowed"); got != calls {
		t.Errorf("%d allowed, want %d", got, calls)
	}
	if got := c.do("RL.PEEK", "user:0", "1/30d", "1000", "COST", "0").ints(); got == nil || got[2] != 1000-(calls+keys-1)/keys {
		t.Errorf("user:0 has %v", got)
	}
}

// glimpse is how long a mode of redis-cli that never ends is watched.
const glimpse = 700 * time.Millisecond

// TestCLIModes: what redis-cli can do beyond commands may not be supported, and
// never harms the server.
func TestCLIModes(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	cli(t, p, nil, "RL.ACQUIRE", "k", "1/m", "10")
	file := filepath.Join(t.TempDir(), "dump")
	var modes sync.WaitGroup
	for _, line := range []string{
		"--latency-history -i 0.1", "--latency-dist -i 0.1", "--stat -i 0.01", "--scan", "--bigkeys", "--memkeys",
		"--hotkeys", "--lru-test 10", "--replica", "--rdb " + file, "--functions-rdb " + file, "--cluster info " + p.addr, "-n 3 PING", "MONITOR", "SUBSCRIBE c",
	} {
		modes.Go(func() { runCLI(t, p, glimpse, nil, strings.Fields(line)...) })
	}
	modes.Wait()
	if out := cli(t, p, nil, "--bigkeys"); !strings.Contains(out, "1 hashs with 2 fields") {
		t.Errorf("--bigkeys: %q", out)
	}
	if out := cli(t, p, nil, "--latency", "-i", "0.1"); len(strings.Fields(out)) != 4 {
		t.Errorf("--latency: %q, want min, max, avg, count", out)
	}
	if got := cli(t, p, nil, "RL.PEEK", "k", "1/m", "10", "COST", "0"); !strings.HasPrefix(got, "1\n0\n9\n") {
		t.Errorf("after all that: %q", got)
	}
	if n := infoInt(t, dial(t, p.addr), "rl_handler_panics"); n != 0 {
		t.Errorf("%d faults in handlers", n)
	}
}

// TestRedisBenchmark: Redis's own load generator runs, and every call of its is
// a decision.
func TestRedisBenchmark(t *testing.T) {
	t.Parallel()
	const calls = 20000
	p := start(t, t.TempDir())
	_, port, _ := net.SplitHostPort(p.addr)
	ctx, cancel := context.WithTimeout(t.Context(), cliWithin)
	defer cancel()
	args := []string{"-p", port, "-n", strconv.Itoa(calls), "-P", "16", "-r", "1000", "RL.ACQUIRE", "key:__rand_int__", "10", "10"}
	out, err := exec.CommandContext(ctx, tool(t, "redis-benchmark"), args...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "requests completed") || strings.Contains(string(out), "WARNING") || strings.Contains(string(out), "rror") {
		t.Fatalf("redis-benchmark: %v\n%s", err, out)
	}
	c := dial(t, p.addr)
	if got := infoInt(t, c, "rl_allowed") + infoInt(t, c, "rl_denied"); got < calls || got > calls+16*50 {
		t.Errorf("%d decisions for %d calls", got, calls) // it sends whole pipelines on each of 50 connections
	}
	if n := infoInt(t, c, "total_error_replies"); n != 0 {
		t.Errorf("%d error replies", n)
	}
}
