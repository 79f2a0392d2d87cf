package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBackup takes a backup of a running server as a cron job does, and restores it by starting on it.
func TestBackup(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), "data")
	socket := filepath.Join(filepath.Dir(dir), "s")
	port := freePort(t)
	p := start(t, dir, "--requirepass", "secret", "--unixsocket", socket, "--port", port)
	c := dial(t, p.addr)
	c.do("AUTH", "secret")
	take := func() string { return strings.Join(c.do("RL.ACQUIRE", "k", "1/30d", "10").lines(), " ") }
	c.do("RL.LIMIT", "SET", "l", "fixed:7/1d")
	take()
	take()

	conf := filepath.Join(filepath.Dir(dir), "rl.conf")
	if err := os.WriteFile(conf, []byte("port "+port+"\nrequirepass secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(dir+"-backups", "one")
	code, stdout, stderr := once(t, "backup", "one", conf)
	if code != exitOK || !strings.HasPrefix(stdout, backup+": 0.0 MB, in ") || stderr != "" {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr = once(t, "backup", "two", "--unixsocket", socket, "--requirepass", "secret"); code != exitOK {
		t.Errorf("by the socket: exit code %d: %s%s", code, stdout, stderr)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"one", conf}, exitUnable, "file already exists"},
		{[]string{"../one", conf}, exitUnable, "ERR backup name"},
		{[]string{"three", "--port", port}, exitUnable, "(as another user: redis-cli --user NAME --askpass BGSAVE TO NAME)"},
		{[]string{"three", "--port", port, "--requirepass", "wrong"}, exitUnable, "WRONGPASS"},
		{[]string{"three", "--port", freePort(t)}, exitUnable, "no server answers"},
		{[]string{"three", "--port", "0", "--tls-port", "1"}, exitUnable, "redis-cli --tls BGSAVE TO NAME"},
		{[]string{"three", "--porter", "1"}, exitBadUsage, "--porter"},
		{[]string{"three", "--version"}, exitBadUsage, "expected"},
		{nil, exitBadUsage, "expected NAME"},
	} {
		code, stdout, stderr := once(t, append([]string{"backup"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.says) || stdout != "" {
			t.Errorf("%q: exit code %d, want %d and %q: %s%s", c.args, code, c.code, c.says, stdout, stderr)
		}
	}
	if info := strings.Join(c.do("INFO", "persistence").lines(), "\n"); !strings.Contains(info, "rl_last_backup_status:err") || !strings.Contains(info, "rl_backup_in_progress:0") {
		t.Errorf("INFO:\n%s", info)
	}

	take() // which the backup does not know of
	p.kill()
	if code, stdout, stderr := once(t, "check", backup); code != exitOK || !strings.Contains(stdout, "entries      1 (bucket 1)") || !strings.Contains(stdout, "1 named") || !strings.Contains(stdout, "none, the directory is a backup") {
		t.Errorf("check: exit code %d: %s%s", code, stdout, stderr)
	}
	p = start(t, backup)
	if !strings.Contains(p.out.String(), "the directory is a backup; what was admitted after it was made is forgotten") {
		t.Errorf("the log of a start on a backup: %s", p.out.String())
	}
	c = dial(t, p.addr)
	if info := strings.Join(c.do("INFO", "persistence").lines(), "\n"); !strings.Contains(info, "rl_restart:backup") {
		t.Errorf("INFO:\n%s", info)
	}
	if got := take(); !strings.Contains(got, "3) (integer) 7") {
		t.Errorf("after the restore: %s", got)
	}
	if got := strings.Join(c.do("RL.LIMIT", "GET", "l").lines(), " "); !strings.Contains(got, "fixed:7/1d") {
		t.Errorf("the limit: %s", got)
	}
	p.stop()
	if p = start(t, backup); !strings.Contains(strings.Join(dial(t, p.addr).do("INFO", "persistence").lines(), "\n"), "rl_restart:clean") {
		t.Error("a backup that a server has used is still one")
	}
	p.stop()
}
