//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// An attacker is a process of its own that yields to all others: a real one has a machine of its own and takes no CPU
// time from the server, but what the server spends on it.

// yielding is an attacker's nice value.
const yielding = 10

// assault is what an attacker is to do.
type assault struct {
	Addr, Password, Attack string
	Pid                    int
	Scale                  float64
	Lasts                  time.Duration
}

// attacker reads what it is to do, does it, and reports.
func attacker() error {
	var do assault
	if err := json.NewDecoder(os.Stdin).Decode(&do); err != nil {
		return err
	}
	t, err := reach(do.Addr, do.Password, do.Pid)
	if err != nil {
		return err
	}
	for _, a := range attacks() {
		if a.name != do.Attack {
			continue
		}
		roomForFiles()
		ctx, cancel := context.WithTimeout(context.Background(), do.Lasts)
		defer cancel()
		s := &strike{target: t, ctx: ctx, clients: max(1, int(float64(a.clients)*do.Scale)), scale: do.Scale}
		a.run(s)
		return json.NewEncoder(os.Stdout).Encode(report{s.clients, s.counts.opened.Load(), s.counts.closed.Load(), s.counts.sent.Load(), s.notes})
	}
	return fmt.Errorf("there is no attack %q", do.Attack)
}

// roomForFiles has the kernel make its table of our open files large enough for all of them. It would grow while the
// attacker connects, and each time wait until every thread of the machine has come by in the kernel: for seconds on a busy one.
func roomForFiles() {
	const most = 8192
	if fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, 0, syscall.F_DUPFD_CLOEXEC, most); errno == 0 {
		syscall.Close(int(fd))
	}
}

// strike has an attacker do its work.
func (t *target) strike(ctx context.Context, do assault) (r report, err error) {
	c, err := startChild("attacker")
	if err != nil {
		return r, err
	}
	defer c.stop()
	stop := context.AfterFunc(ctx, func() { c.cmd.Process.Kill() })
	defer stop()
	c.yield()
	json.NewEncoder(c.in).Encode(do)
	if err := json.NewDecoder(c.out).Decode(&r); err != nil {
		return r, fmt.Errorf("the attacker does not report: %w", err)
	}
	return r, nil
}

// yield lowers a child's priority: of every thread that it has so far, whose priority those to come inherit.
func (c *child) yield() {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", c.cmd.Process.Pid))
	for _, t := range threads {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			syscall.Setpriority(syscall.PRIO_PROCESS, id, yielding)
		}
	}
}
