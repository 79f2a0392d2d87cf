//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	readyWithin = 20 * time.Second        // a server that does not answer PING by then has failed to start
	stopWithin  = 60 * time.Second        // after SIGTERM; then it is killed
	askWithin   = 30 * time.Second        // one question outside the load
	lookEvery   = 50 * time.Millisecond   // how often a starting or settling server is looked at
	quietBelow  = 2 * time.Millisecond    // CPU in lookEvery: a server that uses less is idle
	settleMax   = 1500 * time.Millisecond // longest wait for idleness
)

// A kind is a server as it is set up for the comparison.
type kind struct {
	name    string // in a cell's name: "redis"
	title   string // in the report
	program string
	args    []string // without the port and the directory, which differ from run to run
	saves   bool     // after each measurement SAVE is sent, so that its durability is paid within it
}

// A server is a running process of ours.
type server struct {
	kind
	port  int
	pid   int
	began time.Time
	stop  func() // asks it to end, waits; kills it if it does not
	kill  func() // kills it and waits
}

// start runs the program with a directory of its own under dir, see startIn.
func (k kind) start(ctx context.Context, dir string) (*server, error) {
	home, err := os.MkdirTemp(dir, k.name+"-")
	if err != nil {
		return nil, err
	}
	return k.startIn(ctx, home, readyWithin)
}

// startIn runs the program on a free port of the loopback interface, with its data in a directory of home, which an earlier
// one may have left there, and waits until PING answers PONG. It must be called from the main thread: a server is killed
// when that ends, however it ends.
func (k kind) startIn(ctx context.Context, home string, within time.Duration) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	said, err := os.Create(filepath.Join(home, "output.log"))
	if err != nil {
		return nil, err
	}
	defer said.Close()
	data := filepath.Join(home, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	args := append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", data}, k.args...)
	cmd := exec.Command(k.program, args...)
	cmd.Stdout, cmd.Stderr = said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", k.name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s := &server{kind: k, port: port, pid: cmd.Process.Pid, began: began}
	s.stop = func() { stop(k.name, cmd.Process, ended) }
	s.kill = func() {
		cmd.Process.Kill()
		<-ended
		ended <- nil // for who stops it
	}
	if err := s.ready(ctx, ended, within); err != nil {
		s.kill()
		output, _ := os.ReadFile(said.Name())
		return nil, fmt.Errorf("%s %s: %w\n%s", k.program, strings.Join(args, " "), err, bytes.TrimSpace(output))
	}
	return s, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (s *server) ready(ctx context.Context, ended chan error, within time.Duration) error {
	for deadline := time.Now().Add(within); ; {
		answer, err := s.ask("PING")
		if err == nil && answer == "PONG" {
			return nil
		}
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("ended instead of serving (%v)", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookEvery):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no PONG within %s, last %q (%v)", within, answer, err)
		}
	}
}

// stop reports trouble on stderr only: what was measured before stays true.
func stop(name string, process *os.Process, ended chan error) {
	if err := process.Signal(unix.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		fmt.Fprintf(os.Stderr, "bench: end %s: %v\n", name, err)
	}
	select {
	case err := <-ended:
		ended <- nil // for who stops it again
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s ended with %v\n", name, err)
		}
	case <-time.After(stopWithin):
		process.Kill()
		fmt.Fprintf(os.Stderr, "bench: %s did not end within %s of SIGTERM and was killed\n", name, stopWithin)
	}
}

// ask sends one command on a connection of its own and returns a simple or bulk string. An error reply is an error.
func (s *server) ask(args ...string) (string, error) {
	c, err := s.connect()
	if err != nil {
		return "", err
	}
	defer c.close()
	answer, err := c.ask(args...)
	if err != nil {
		return "", err
	}
	text, ok := answer.(string)
	if !ok {
		return "", fmt.Errorf("not a string: %v", answer)
	}
	return text, nil
}

// settle waits until what the server does in the background (saving, merging files, collecting garbage) has come to rest,
// so that it is paid by what caused it and disturbs nobody else. It gives up after settleMax.
func (s *server) settle() error { return s.settleWithin(settleMax) }

func (s *server) settleWithin(most time.Duration) error {
	if s.saves {
		if _, err := s.ask("SAVE"); err != nil {
			return fmt.Errorf("%s: SAVE: %w", s.name, err)
		}
	}
	last, err := s.cpu()
	for waited := time.Duration(0); err == nil && waited < most; waited += lookEvery {
		time.Sleep(lookEvery)
		var now time.Duration
		now, err = s.cpu()
		if now-last < quietBelow {
			break
		}
		last = now
	}
	return err
}

// cpu returns the CPU time of the process, all its threads, user and system, in nanoseconds: its CPU-time clock, whose
// id the kernel derives from the process id. Child processes are not in it; none of the servers is set up to have any.
func (s *server) cpu() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(cpuClock(s.pid), &t); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", s.pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// cpuClock is what clock_getcpuclockid(3) computes: the inverted pid above three bits of which 2 means CPU time
// counted by the scheduler, for the whole process.
func cpuClock(pid int) int32 { return ^int32(pid)<<3 | 2 }

// memory returns the resident set of the process now and at its largest so far, in bytes.
func (s *server) memory() (resident, peak int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		return 0, 0, err
	}
	if resident, err = statusBytes(status, "VmRSS:"); err != nil {
		return 0, 0, err
	}
	peak, err = statusBytes(status, "VmHWM:")
	return resident, peak, err
}

// statusBytes finds a line like "VmRSS:    1234 kB" in /proc/<pid>/status and returns it in bytes.
func statusBytes(status []byte, name string) (int64, error) {
	for line := range bytes.Lines(status) {
		fields := strings.Fields(string(line))
		if len(fields) == 3 && fields[0] == name && fields[2] == "kB" {
			kb, err := strconv.ParseInt(fields[1], 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in /proc/<pid>/status", name)
}
