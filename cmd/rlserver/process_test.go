package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
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

// programEnv names the program for a test that runs in a process of its own.
const programEnv = "RL_TEST_PROGRAM"

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
		if built.path = os.Getenv(programEnv); built.path != "" {
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
	return launch(t, dir, program(t, serverArgs(dir, args)...))
}

func serverArgs(dir string, args []string) []string {
	return append([]string{"--port", "0", "--http-addr", "", "--dir", dir, "--backup-dir", dir + "-backups"}, args...)
}

// launch starts a command that is a server on a directory.
func launch(t testing.TB, dir string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, dir: dir, cmd: cmd, exited: make(chan struct{})}
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
	return spawn(t, dir, args...).up()
}

// up waits until the server answers PONG.
func (p *process) up() *process {
	p.t.Helper()
	p.await("the banner", func() bool {
		m := readyLine.FindStringSubmatch(p.out.String())
		if m != nil {
			p.addr = m[1]
		}
		return m != nil
	})
	if got := dial(p.t, p.addr).do("PING"); got.text != "PONG" && !strings.HasPrefix(got.text, "NOAUTH") {
		p.t.Fatalf("PING: %q", got.lines())
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

// freePort is a port that nobody listened on a moment ago, from below those that the system gives to clients: another
// test's client would take one of these before the server does.
func freePort(t testing.TB) string {
	t.Helper()
	const lowest, count, tries = 10_000, 20_000, 100
	var err error
	for range tries {
		port := strconv.Itoa(lowest + rand.IntN(count))
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal(err)
	return ""
}
