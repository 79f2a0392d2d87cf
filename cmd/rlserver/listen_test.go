package main

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestUnixSocket: it has its mode, one that a crash left behind is replaced, one in use or of another kind is not, and
// it is gone after a stop.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(shortDir(t), "s")
	alone := func(more ...string) []string {
		return append([]string{"--unixsocket", path, "--unixsocketperm", "700"}, more...)
	}
	p := spawn(t, t.TempDir(), alone()...)
	p.await("the banner", func() bool { return strings.Contains(p.out.String(), "is ready on "+path+"\n") })
	for _, line := range []string{"redis-cli -s " + path} {
		if !strings.Contains(p.out.String(), line) {
			t.Errorf("the banner lacks %q:\n%s", line, p.out.String())
		}
	}
	if got := converse(t, "unix", path, "PING\r\n"); got != "+PONG\r\n" {
		t.Errorf("answered %q", got)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o700 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	code, _, text := once(t, alone("--port", "0", "--http-addr", "", "--dir", t.TempDir())...)
	if code != exitFailed || !strings.Contains(text, "another server listens there") {
		t.Errorf("a second server: %d, %s", code, text)
	}
	p.signal(syscall.SIGKILL)
	p.exit()
	p = spawn(t, t.TempDir(), alone()...)
	p.await("the socket of a server that crashed", func() bool { return strings.Contains(p.out.String(), "is ready on ") })
	if got := converse(t, "unix", path, "PING\r\n"); got != "+PONG\r\n" {
		t.Errorf("after a crash: %q", got)
	}
	p.stop()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("after a stop: %v", err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(path, 0); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("over a file: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("the file holds %q", text)
	}
}

// TestUnixSocketBesidePort: both are there, and the first address is the port's.
func TestUnixSocketBesidePort(t *testing.T) {
	t.Parallel()
	path := filepath.Join(shortDir(t), "s")
	s := startTest(t, []string{"--port", freePort(t), "--unixsocket", path})
	if _, _, err := net.SplitHostPort(s.addr); err != nil || len(s.node.doors) != 2 {
		t.Errorf("answered on %v", s.node.addrs)
	}
	for network, addr := range map[string]string{"tcp": s.addr, "unix": path} {
		if got := converse(t, network, addr, "PING\r\n"); got != "+PONG\r\n" {
			t.Errorf("%s: %q", addr, got)
		}
	}
}
