package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The tests of this file and its neighbours look at the program from outside:
// they build it once, start it as a process, and end what they started by its
// process number.

// built is the program, made by the first test that asks for it.
var built struct {
	once sync.Once
	dir  string
	path string
	err  error
}

// asServer in the environment makes this test the program. So it is under the
// race detector, which then watches the program too, and spares building it
// once more.
const asServer = "RL_TEST_AS_SERVER=1"

func TestMain(m *testing.M) {
	if slices.Contains(os.Environ(), asServer) && underRace() {
		main()
	}
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// program makes a command that runs the server.
func program(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	built.once.Do(func() {
		if underRace() {
			built.path, built.err = os.Executable()
			return
		}
		if built.dir, built.err = os.MkdirTemp("", "rlserver-test"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "rlserver")
		if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", built.path, ".").CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	cmd := exec.Command(built.path, args...)
	cmd.Env = append(os.Environ(), asServer)
	return cmd
}

// underRace says whether this test was built with the race detector.
func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

// tool returns the path of a program that the tests need beside the server.
func tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed; `make tools` installs what the tests need", name)
	}
	return path
}

// shortDir is a directory whose path leaves room for a socket in it.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// process is a server that runs as a program of its own.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	dir    string
	addr   string
	out    logText // what it wrote, both streams
	exited chan struct{}
}

// Bounds of waiting for a process. They are reached only when something is
// wrong, so they are long enough for a busy machine.
const (
	readyWithin = 30 * time.Second
	exitWithin  = 30 * time.Second
)

// spawn starts the program on a directory and any free port; args go on.
func spawn(t testing.TB, dir string, args ...string) *process {
	t.Helper()
	p := &process{t: t, dir: dir, exited: make(chan struct{})}
	p.cmd = program(t, append([]string{"--port", "0", "--http-addr", "", "--dir", dir}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.exited
		if text := p.out.String(); strings.Contains(text, "fault in a command") || strings.Contains(text, "DATA RACE") {
			t.Error(text)
		}
	})
	return p
}

var readyLine = regexp.MustCompile(`(?m)^rlserver .* is ready on (\S+?),?( .*)?$`)

// start spawns the program and waits until it answers PONG.
func start(t testing.TB, dir string, args ...string) *process {
	t.Helper()
	p := spawn(t, dir, args...)
	p.await("the banner", func() bool {
		m := readyLine.FindStringSubmatch(p.out.String())
		if m != nil {
			p.addr = m[1]
		}
		return m != nil
	})
	if got := dial(t, p.addr).do("PING"); got.text != "PONG" && !strings.HasPrefix(got.text, "NOAUTH") {
		t.Fatalf("PING: %q", got.lines())
	}
	return p
}

// await polls a condition; the end of the process ends it too.
func (p *process) await(what string, cond func() bool) {
	p.t.Helper()
	for end := time.Now().Add(readyWithin); !cond(); {
		select {
		case <-p.exited:
			if cond() { // it may have come true with the last words
				return
			}
			p.t.Fatalf("ended with %d before %s:\n%s", p.code(), what, p.out.String())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(end) {
			p.t.Fatalf("no sign of %s within %v:\n%s", what, readyWithin, p.out.String())
		}
	}
}

// code is the exit code of a process that has ended; -1 if a signal ended it.
func (p *process) code() int { return p.cmd.ProcessState.ExitCode() }

// signal sends a signal to the process.
func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// exit waits for the end and returns the exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(exitWithin):
		p.t.Fatalf("still running after %v:\n%s", exitWithin, p.out.String())
	}
	return p.code()
}

// stop ends the server as an operator does and expects that it went well.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitOK {
		p.t.Fatalf("SIGTERM: exit code %d:\n%s", code, p.out.String())
	}
}

// kill ends the server as a crash does.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	p.exit()
}

// once runs the program to its end and returns what it wrote to both streams.
func once(t testing.TB, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs logText
	cmd := program(t, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(exitWithin, func() { cmd.Process.Kill() })
	defer timer.Stop()
	cmd.Wait()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestProgramSpeaks covers the runs that end by themselves: exit code, and which
// stream says what.
func TestProgramSpeaks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.conf", "# ours\nport 7000\nsnapshot-interval 250ms\n")
	value := write("value.conf", "port 7000\nsnapshot-interval soon\n")
	name := write("name.conf", "\n\nporter 7000\n")
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr []string // what they hold; none = the stream is empty
	}{
		{[]string{"--version"}, exitOK, []string{"rlserver " + version}, nil},
		{[]string{"--help"}, exitOK, []string{"--port", "6390", "--durability", "--snapshot-interval"}, nil},
		{[]string{good, "--check-config"}, exitOK, []string{"valid"}, nil},
		{[]string{"--check-config"}, exitOK, []string{"valid"}, nil},
		{[]string{value, "--check-config"}, exitBadUsage, nil, []string{value + ":2:", "snapshot-interval", `"soon"`, "expected"}},
		{[]string{name, "--check-config"}, exitBadUsage, nil, []string{name + ":3:", `"porter"`}},
		{[]string{value}, exitBadUsage, nil, []string{value + ":2:"}},
		{[]string{"--port", "http"}, exitBadUsage, nil, []string{"--port", `"http"`, "expected"}},
		{[]string{"--porter", "1"}, exitBadUsage, nil, []string{"--porter", "--help"}},
		{[]string{filepath.Join(dir, "absent.conf")}, exitBadUsage, nil, []string{"absent.conf"}},
	} {
		code, stdout, stderr := once(t, c.args...)
		if code != c.code {
			t.Errorf("%q: exit code %d, want %d", c.args, code, c.code)
		}
		for stream, want := range map[*string][]string{&stdout: c.stdout, &stderr: c.stderr} {
			if want == nil && *stream != "" {
				t.Errorf("%q: unexpected output %q", c.args, *stream)
			}
			for _, w := range want {
				if !strings.Contains(*stream, w) {
					t.Errorf("%q: %q is missing in %q", c.args, w, *stream)
				}
			}
		}
	}
}

// TestBannerTells reads the banner as a person does, and types what it offers.
func TestBannerTells(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, dir)
	c := dial(t, p.addr)
	for _, key := range []string{"a", "b", "c"} {
		c.do("RL.ACQUIRE", key, "1/1h", "10")
	}
	p.stop()
	p = start(t, dir, "--durability", "shutdown", "--http-addr", "127.0.0.1:0")
	banner := p.out.String()
	_, port, _ := net.SplitHostPort(p.addr)
	for _, want := range []string{
		"ready on " + p.addr, dir, "durability shutdown", "3 keys loaded", "http://127.0.0.1:", "/metrics",
		"redis-cli -p " + port + " RL.ACQUIRE user:1 1/m 10\n",
	} {
		if !strings.Contains(banner, want) {
			t.Errorf("%q is missing in the banner:\n%s", want, banner)
		}
	}
	if n := strings.Count(banner, "\n"); n > 6 {
		t.Errorf("the banner has %d lines:\n%s", n, banner)
	}
	_, command, _ := strings.Cut(banner, "redis-cli")
	command, _, _ = strings.Cut(command, "\n")
	out, err := exec.Command(tool(t, "redis-cli"), strings.Fields(command)...).CombinedOutput()
	if want := "1\n0\n9\n60000\n10\n"; err != nil || string(out) != want {
		t.Errorf("what the banner offers to paste: %q, %v; want %q", out, err, want)
	}
	quiet := spawn(t, t.TempDir(), "--loglevel", "warning", "--port", freePort(t))
	quiet.addr = net.JoinHostPort("127.0.0.1", quiet.cmd.Args[len(quiet.cmd.Args)-1])
	quiet.await("an answer", quiet.answers)
	quiet.stop()
	if text := quiet.out.String(); text != "" {
		t.Errorf("loglevel warning still shows %q", text)
	}
}

// answers says whether the server at p.addr says PONG.
func (p *process) answers() bool {
	nc, err := net.Dial("tcp", p.addr)
	if err != nil {
		return false
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(readyWithin))
	fmt.Fprint(nc, "PING\r\n")
	answer := make([]byte, len("+PONG\r\n"))
	io.ReadFull(nc, answer)
	return string(answer) == "+PONG\r\n"
}

// freePort is a port that nobody listened on a moment ago.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// TestCannotStart: what keeps the server from starting is said in a sentence,
// with exit code 1, and who was there first is not disturbed.
func TestCannotStart(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	c := dial(t, p.addr)
	c.do("RL.ACQUIRE", "k", "1/1h", "10")
	_, port, _ := net.SplitHostPort(p.addr)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("no directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct {
		what string
		args []string
		want []string
	}{
		{"directory in use", []string{"--port", "0", "--dir", p.dir}, []string{p.dir, "another"}},
		{"port in use", []string{"--port", port, "--dir", t.TempDir()}, []string{p.addr, "--port"}},
		{"port of metrics in use", []string{"--port", "0", "--http-addr", p.addr, "--dir", t.TempDir()}, []string{p.addr, "--http-addr"}},
		{"directory is a file", []string{"--port", "0", "--dir", file}, []string{file}},
	} {
		args := try.args
		if try.what != "port of metrics in use" {
			args = append(args, "--http-addr", "")
		}
		code, stdout, stderr := once(t, args...)
		if code != exitFailed {
			t.Errorf("%s: exit code %d, want %d", try.what, code, exitFailed)
		}
		if stdout != "" || !strings.HasPrefix(stderr, "rlserver: ") || strings.Contains(stderr, "goroutine ") {
			t.Errorf("%s: wrote %q and %q", try.what, stdout, stderr)
		}
		for _, w := range try.want {
			if !strings.Contains(stderr, w) {
				t.Errorf("%s: %q is missing in %q", try.what, w, stderr)
			}
		}
	}
	if got := c.do("RL.PEEK", "k", "1/1h", "10", "COST", "0").ints(); got == nil || got[2] != 9 {
		t.Errorf("the first server answers %v after that", got)
	}
}

// TestNothingBeyondLoopback: with its defaults the server listens on this
// machine only, metrics included.
func TestNothingBeyondLoopback(t *testing.T) {
	t.Parallel()
	host, _, err := net.SplitHostPort(defaults().HTTPAddr)
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, t.TempDir(), "--http-addr", net.JoinHostPort(host, "0"))
	found := listening(t, p.cmd.Process.Pid)
	if len(found) != 2 {
		t.Errorf("listens on %v, want two addresses", found)
	}
	for _, ip := range found {
		if !ip.IsLoopback() {
			t.Errorf("listens on %v", ip)
		}
	}
}

// listening returns the addresses on which a process listens, as the kernel
// tells them.
func listening(t *testing.T, pid int) (found []net.IP) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", pid)
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		t.Skip("there is no /proc here to ask: ", err)
	}
	sockets := map[string]bool{}
	for _, fd := range fds {
		to, _ := os.Readlink(proc + "fd/" + fd.Name())
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			sockets[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []string{"net/tcp", "net/tcp6", "net/udp", "net/udp6"} {
		text, err := os.ReadFile(proc + table)
		if err != nil {
			continue // no IPv6 on this machine
		}
		for _, line := range strings.Split(string(text), "\n")[1:] {
			f := strings.Fields(line) // sl local remote state ... inode is the tenth
			if len(f) < 10 || !sockets[f[9]] || strings.HasPrefix(table, "net/tcp") && f[3] != "0A" {
				continue
			}
			found = append(found, kernelIP(t, f[1]))
		}
	}
	return found
}

// kernelIP reads "0100007F:1F90": words in the machine's byte order, which is
// little endian wherever these tests run.
func kernelIP(t *testing.T, text string) net.IP {
	t.Helper()
	hexed, _, _ := strings.Cut(text, ":")
	var ip net.IP
	for i := 0; i+8 <= len(hexed); i += 8 {
		var word uint32
		if _, err := fmt.Sscanf(hexed[i:i+8], "%x", &word); err != nil {
			t.Fatal(text, err)
		}
		ip = append(ip, byte(word), byte(word>>8), byte(word>>16), byte(word>>24))
	}
	return ip
}

// TestSecretsStayOut: passwords, right and wrong, show up in nothing that the
// server writes or answers.
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	const first, second, wrong = "s3cret-first", "s3cret-second", "s3cret-wrong"
	p := start(t, t.TempDir(), "--requirepass", first, "--loglevel", "debug", "--http-addr", "127.0.0.1:0")
	var said strings.Builder
	c := dial(t, p.addr)
	ask := func(words ...string) {
		said.WriteString(strings.Join(c.do(words...).lines(), "\n") + "\n")
	}
	ask("AUTH", wrong)
	ask("AUTH", wrong, first)
	ask("HELLO", "3", "AUTH", "default", wrong)
	ask("HELLO", "3", "AUTH", "default", first)
	ask("CONFIG", "SET", "requirepass", second)
	ask("CONFIG", "SET", "requirepass", second, "maxclients", "none")
	ask("AUTH", second)
	ask("CONFIG", "GET", "*")
	ask("INFO", "everything")
	ask("CLIENT", "INFO")
	p.stop()
	code, _, bad := once(t, "--requirepass", first+strings.Repeat("x", 1<<16), "--check-config")
	if code == exitOK {
		t.Log("a password of 64 KiB is accepted")
	}
	for what, text := range map[string]string{"log": p.out.String(), "replies": said.String(), "refusal": bad} {
		if strings.Contains(text, "s3cret") {
			t.Errorf("%s: a password shows in\n%s", what, text)
		}
	}
	if !strings.Contains(p.out.String(), "wrong password") {
		t.Errorf("the wrong passwords are not in the log:\n%s", p.out.String())
	}
}
