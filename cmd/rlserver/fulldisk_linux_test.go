package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// mountedEnv tells the test binary that it runs in a mount namespace of its
// own, and where it is to put its small disk.
const mountedEnv = "RL_TEST_MOUNTED"

// smallDiskSize is that of the disk that gets full.
const smallDiskSize = "24m"

// onSmallDisk runs the test that calls it once more, in a process with mounts
// of its own, and there run with a real file system of smallDiskSize at dir. Who
// may not mount skips it, with the reason.
func onSmallDisk(t *testing.T, run func(t *testing.T, dir string)) {
	if dir := os.Getenv(mountedEnv); dir != "" {
		if err := errors.Join(syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
			syscall.Mount("none", dir, "tmpfs", 0, "size="+smallDiskSize)); err != nil {
			t.Skip("cannot mount: ", err)
		}
		run(t, dir)
		return
	}
	t.Parallel()
	program(t) // builds it
	cmd := exec.Command(os.Args[0], "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.v", fmt.Sprintf("-test.short=%v", testing.Short()))
	cmd.Env = append(os.Environ(), mountedEnv+"="+t.TempDir(), programEnv+"="+built.path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM) || bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("NOT RUN: a real full disk takes the right to mount one (root, or user namespaces): %v\n%s", err, out)
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("on a tmpfs of %s:\n%s", smallDiskSize, out)
}

// fillDisk makes a file of all that is free on a disk. It does not outlive the test.
func fillDisk(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 64<<10); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	t.Cleanup(func() { os.Remove(name) })
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// fullFor is how long the disk stays full.
func fullFor() time.Duration {
	switch {
	case os.Getenv(soakEnv) != "":
		return time.Minute
	case testing.Short():
		return time.Second
	}
	return 3 * time.Second
}

// TestFullDisk: on a disk that is full the server lives and decides, exactly and
// without waiting; it says that it is not durable, in few words; when there is
// room it is durable by itself, and what clients were told then is not
// forgotten. Under always changes are refused meanwhile, and nothing else is;
// under reserve calls within a block are not.
func TestFullDisk(t *testing.T) {
	onSmallDisk(t, func(t *testing.T, disk string) {
		for _, mode := range modes {
			t.Run(mode.name, func(t *testing.T) {
				fullDisk(t, filepath.Join(disk, mode.name), disk, mode.holds, append([]string{"--durability", mode.name}, mode.args...))
			})
		}
	})
}

// lineStart begins a line of the log.
var lineStart = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT`)

func fullDisk(t *testing.T, dir, disk string, holds promise, args []string) {
	p := start(t, dir, args...)
	l := newLedger("f", 1, false)
	l.depth = 1
	if slices.Contains(args, "shutdown") {
		go func() { // one after the other: none while the disk is full is answered
			for c, err := tryDial(t, p.addr); err == nil; c, err = tryDial(t, p.addr) {
				l.save(c, 50*time.Millisecond)
			}
		}()
	}
	wait := l.comeback(t, p)
	c := dial(t, p.addr)
	c.do("RL.ACQUIRE", "begun", sharedLimit)
	time.Sleep(500 * time.Millisecond)
	free := fillDisk(t, disk)
	p.await("trouble", func() bool {
		c.do("BGSAVE")
		return strings.Contains(c.do("INFO", "persistence").text, "rl_last_save_status:err")
	})
	refuses := slices.Contains(args, "always") || slices.Contains(args, "reserve")
	slowest, refused := decide(t, p.addr, fullFor())
	t.Logf("the slowest of the decisions took %v, %d were refused", slowest, refused)
	if slowest > time.Second {
		t.Error("a decision waited for the disk")
	}
	if refuses != (refused > 0) {
		t.Errorf("%d changes were refused", refused)
	}
	if got := c.do("RL.ACQUIRE", "begun", sharedLimit); strings.HasPrefix(got.text, "MISCONF") != slices.Contains(args, "always") {
		t.Errorf("within a block: %q", got.lines())
	}
	if got := c.do("RL.PEEK", "k", bucketLimit).ints(); len(got) != 5 {
		t.Error("no peek on a full disk")
	}
	free()
	p.await("durability, by itself", func() bool {
		if slices.Contains(args, "shutdown") { // which writes nothing by itself
			c.do("SAVE")
		}
		return strings.Contains(c.do("INFO", "persistence").text, "rl_last_save_status:ok")
	})
	if got := c.do("RL.ACQUIRE", "k", bucketLimit).ints(); len(got) != 5 {
		t.Error("no decision on a disk that has room again")
	}
	if n := len(lineStart.FindAllString(p.out.String(), -1)); n == 0 || n > 20 {
		t.Errorf("%d log lines:\n%s", n, p.out.String())
	}
	time.Sleep(300 * time.Millisecond)
	at := l.begin()
	p.kill()
	wait()
	at.end(l)
	m := l.recall(t, start(t, dir, args...).addr)
	for _, fault := range holds(l, at, m) {
		t.Error(fault)
	}
}

// comeback has all actors of a ledger play until the server is gone; who is cut off comes back as another.
func (l *ledger) comeback(t *testing.T, p *process) (wait func()) {
	var clients sync.WaitGroup
	for _, a := range l.actors {
		clients.Go(func() {
			for {
				c, err := tryDial(t, p.addr)
				if err != nil {
					return
				}
				if err := a.play(c.nc, l.depth); err != nil {
					t.Error(err)
				}
				a = l.join()
			}
		})
	}
	clients.Go(func() {
		for c, err := tryDial(t, p.addr); err == nil; c, err = tryDial(t, p.addr) {
			l.watch(c)
		}
	})
	return clients.Wait
}

// decide asks for decisions for some time, and returns how long the slowest took, and how many were refused.
func decide(t *testing.T, addr string, long time.Duration) (slowest time.Duration, refused int) {
	t.Helper()
	c := dial(t, addr)
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(time.Millisecond) {
		before := time.Now()
		got := c.do("RL.ACQUIRE", "k", sharedLimit)
		slowest = max(slowest, time.Since(before))
		switch {
		case strings.HasPrefix(got.text, "MISCONF"):
			refused++
		case len(got.ints()) != 5:
			t.Fatalf("%q", got.lines())
		}
	}
	return slowest, refused
}

// TestStartOnAFullDisk: the start is refused and says that room is wanted; what was there is there when there is room.
func TestStartOnAFullDisk(t *testing.T) {
	onSmallDisk(t, func(t *testing.T, disk string) {
		dir := filepath.Join(disk, "data")
		p := start(t, dir)
		dial(t, p.addr).do("RL.ACQUIRE", "k", killLimit, "1000000", "COST", "400000")
		p.stop()
		free := fillDisk(t, disk)
		code, _, text := once(t, "--port", "0", "--http-addr", "", "--dir", dir)
		if code != exitFailed || !strings.Contains(text, "no space left on device") || !strings.Contains(text, "make room on the disk, then start again") {
			t.Errorf("exit code %d: %s", code, text)
		}
		free()
		if got := left(t, start(t, dir).addr, "k"); got != 600000 {
			t.Errorf("%d tokens after the restart", got)
		}
	})
}

// TestStopOnAFullDisk: a stop that cannot write says so, with its exit code too, and leaves what was saved before.
func TestStopOnAFullDisk(t *testing.T) {
	onSmallDisk(t, func(t *testing.T, disk string) {
		dir := filepath.Join(disk, "data")
		p := start(t, dir, "--durability", "shutdown")
		c := dial(t, p.addr)
		c.do("RL.ACQUIRE", "k", killLimit, "1000000", "COST", "400000")
		c.do("SAVE")
		free := fillDisk(t, disk)
		c.do("RL.ACQUIRE", "k", killLimit, "1000000", "COST", "100000")
		p.signal(syscall.SIGTERM)
		if code := p.exit(); code != exitFailed || !strings.Contains(p.out.String(), "the last state could not be written") {
			t.Errorf("exit code %d: %s", code, p.out.String())
		}
		free()
		want := int64(600000)
		if strings.Contains(p.out.String(), "everything is on disk") { // there was room for that
			want = 500000
		}
		if got := left(t, start(t, dir).addr, "k"); got != want {
			t.Errorf("%d tokens after the restart", got)
		}
	})
}

// TestBackupOnAFullDisk: a backup for which there is no room fails, says so and leaves nothing behind, whether it goes to a disk of its own or
// that of the data; the server lives, and the next one, when there is room, is whole.
func TestBackupOnAFullDisk(t *testing.T) {
	onSmallDisk(t, func(t *testing.T, disk string) {
		t.Run("of its own", func(t *testing.T) {
			backupOnFullDisk(t, filepath.Join(t.TempDir(), "data"), filepath.Join(disk, "backups"), disk)
		})
		t.Run("of the data", func(t *testing.T) {
			backupOnFullDisk(t, filepath.Join(disk, "data"), filepath.Join(disk, "data-backups"), disk)
		})
	})
}

func backupOnFullDisk(t *testing.T, dir, backups, disk string) {
	own := !strings.HasPrefix(dir, disk)
	port := freePort(t)
	p := start(t, dir, "--port", port, "--backup-dir", backups, "--durability", "interval", "--snapshot-interval", killInterval.String())
	c := dial(t, p.addr)
	c.do("RL.ACQUIRE", "k", killLimit, "1000000", "COST", "400000")
	backup := func(name string) (code int, says string) {
		t.Helper()
		code, stdout, stderr := once(t, "backup", name, "--port", port)
		return code, stdout + stderr
	}
	if code, says := backup("before"); code != exitOK {
		t.Fatal(says)
	}
	free := fillDisk(t, disk)
	for range 3 {
		c.do("RL.ACQUIRE", "k", killLimit, "1000000", "COST", "1000") // which the disk of the data has no room for
		if code, says := backup("full"); code != exitUnable || !strings.Contains(says, "no space left on device") {
			t.Errorf("exit code %d: %s", code, says)
		}
	}
	there, err := filepath.Glob(filepath.Join(backups, "*"))
	tmp, _ := filepath.Glob(filepath.Join(dir, "backup*"))
	if err != nil || len(there) != 1 || len(tmp) != 0 {
		t.Errorf("left are %q and %q, %v", there, tmp, err)
	}
	if info := c.do("INFO", "persistence").text; !strings.Contains(info, "rl_last_backup_status:err") || strings.Contains(info, "rl_last_save_status:ok") != own {
		t.Errorf("INFO: %s", info)
	}
	free()
	p.await("durability, by itself", func() bool {
		return strings.Contains(c.do("INFO", "persistence").text, "rl_last_save_status:ok")
	})
	if code, says := backup("after"); code != exitOK {
		t.Errorf("exit code %d: %s", code, says)
	}
	p.kill()
	for name, want := range map[string]int64{"before": 600000, "after": 597000} {
		p := start(t, filepath.Join(backups, name))
		if got := left(t, p.addr, "k"); got != want {
			t.Errorf("%s: %d tokens, want %d", name, got, want)
		}
		p.kill()
	}
}
