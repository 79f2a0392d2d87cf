package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

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
	const first, second, wrong, user = "s3cret-first", "s3cret-second", "s3cret-wrong", "s3cret-user"
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
	ask("ACL", "SETUSER", "u", "on", ">"+user, ">"+user, "+@all")
	ask("ACL", "LIST")
	ask("ACL", "GETUSER", "u")
	ask("ACL", "GETUSER", "default")
	ask("ACL", "LOG", "RESET")
	ask("AUTH", "u", wrong)
	ask("AUTH", "u", user)
	ask("ACL", "LOG")
	ask("ACL", "LOAD")
	ask("ACL", "SAVE")
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
