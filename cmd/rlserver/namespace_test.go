package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A network is namespaces, each a machine of its own with one address, all joined
// by a router that can be told to drop what goes from one to another.
type network struct {
	t      *testing.T
	router string
	spaces map[string]*namespace
}

// A namespace is the place of a process in a network; nil is this machine.
type namespace struct {
	net     *network
	name    string
	address string
}

const (
	spacePrefix = "rltest-" // and the number of the test's process
	setnsAMD64  = 308       // which package syscall lacks, as on some systems the next
	cloneNewNet = 0x40000000
)

// newNetwork makes a network, or skips the test where that cannot be.
func newNetwork(t *testing.T) *network {
	t.Helper()
	switch {
	case runtime.GOOS != "linux" || runtime.GOARCH != "amd64":
		t.Skip("network namespaces are entered on linux/amd64 only")
	case os.Getuid() != 0:
		t.Skip("network namespaces are made by root only")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("ip is not installed; `make tools` installs it")
	}
	removeLeftovers()
	n := &network{t: t, router: fmt.Sprintf("%s%d-router", spacePrefix, os.Getpid()), spaces: map[string]*namespace{}}
	if out, err := exec.Command("ip", "netns", "add", n.router).CombinedOutput(); err != nil {
		t.Skipf("this machine makes no network namespaces: %v: %s", err, out)
	}
	t.Cleanup(func() { exec.Command("ip", "netns", "del", n.router).Run() })
	n.ip("-n", n.router, "link", "set", "lo", "up")
	n.ip("netns", "exec", n.router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
	return n
}

// removeLeftovers removes the namespaces of tests that were ended.
func removeLeftovers() {
	out, _ := exec.Command("ip", "netns", "list").Output()
	for _, line := range strings.Split(string(out), "\n") {
		name, _, _ := strings.Cut(line, " ")
		rest, ours := strings.CutPrefix(name, spacePrefix)
		pid, _, _ := strings.Cut(rest, "-")
		if id, err := strconv.Atoi(pid); ours && err == nil && syscall.Kill(id, 0) == syscall.ESRCH {
			exec.Command("ip", "netns", "del", name).Run()
		}
	}
}

func (n *network) ip(args ...string) {
	n.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// of is the namespace of a name and number, made if there is none yet.
func (n *network) of(kind string, number int) *namespace {
	if n == nil {
		return nil
	}
	n.t.Helper()
	key := kind + strconv.Itoa(number)
	if s := n.spaces[key]; s != nil {
		return s
	}
	i := len(n.spaces) + 1
	s := &namespace{n, fmt.Sprintf("%s%d-%s", spacePrefix, os.Getpid(), key), fmt.Sprintf("10.99.%d.2", i)}
	n.spaces[key] = s
	port, gateway := fmt.Sprintf("v%d", i), fmt.Sprintf("10.99.%d.1", i)
	n.ip("netns", "add", s.name)
	n.t.Cleanup(func() { exec.Command("ip", "netns", "del", s.name).Run() })
	n.ip("-n", s.name, "link", "set", "lo", "up")
	n.ip("-n", n.router, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", s.name)
	n.ip("-n", n.router, "addr", "add", gateway+"/24", "dev", port)
	n.ip("-n", n.router, "link", "set", port, "up")
	n.ip("-n", s.name, "addr", "add", s.address+"/24", "dev", "eth0")
	n.ip("-n", s.name, "link", "set", "eth0", "up")
	n.ip("-n", s.name, "route", "add", "default", "via", gateway)
	return s
}

// cut has all that goes from one namespace to the others lost, mend undoes that.
func (n *network) cut(from, to []*namespace)  { n.t.Helper(); n.rules("add", from, to) }
func (n *network) mend(from, to []*namespace) { n.t.Helper(); n.rules("del", from, to) }

func (n *network) rules(verb string, from, to []*namespace) {
	n.t.Helper()
	var b strings.Builder
	for _, f := range from {
		for _, t := range to {
			fmt.Fprintf(&b, "rule %s from %s to %s blackhole\n", verb, f.address, t.address)
		}
	}
	cmd := exec.Command("ip", "-n", n.router, "-batch", "-")
	cmd.Stdin = strings.NewReader(b.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		n.t.Fatalf("ip rule %s: %v: %s", verb, err, out)
	}
}

// ip is the address of a process there.
func (s *namespace) ip() string {
	if s == nil {
		return "127.0.0.1"
	}
	return s.address
}

// enter does something there: what it starts and what it dials is there then. f
// may end the goroutine.
func (s *namespace) enter(t *testing.T, f func()) {
	t.Helper()
	if s == nil {
		f()
		return
	}
	back, err := s.in()
	if err != nil {
		t.Fatal(err)
	}
	defer back()
	f()
}

// in puts the thread of this goroutine into the namespace.
func (s *namespace) in() (back func(), err error) {
	runtime.LockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	there, err := os.Open("/var/run/netns/" + s.name)
	if err != nil {
		return nil, err
	}
	defer there.Close()
	if err := setns(there); err != nil {
		return nil, err
	}
	return func() {
		if setns(here) == nil { // else the thread ends with its goroutine
			runtime.UnlockOSThread()
		}
		here.Close()
	}, nil
}

func setns(to *os.File) error {
	if _, _, errno := syscall.RawSyscall(setnsAMD64, to.Fd(), cloneNewNet, 0); errno != 0 {
		return os.NewSyscallError("setns", errno)
	}
	return nil
}

// dialWithin is how long it may take to connect.
const dialWithin = time.Second

// dial connects from there.
func (s *namespace) dial(addr string) (net.Conn, error) {
	if s == nil {
		return net.DialTimeout("tcp", addr, dialWithin)
	}
	back, err := s.in()
	if err != nil {
		return nil, err
	}
	defer back()
	return net.DialTimeout("tcp", addr, dialWithin)
}
