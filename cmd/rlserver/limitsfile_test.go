package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlserver/rlserver/shard"
)

func TestReadLimits(t *testing.T) {
	limits, err := readLimits("f", "\ufeff# scopes\r\n\r\nwb:*\t10:20 # each seller\r\n  wb:orders:list  log:5/15m\n*  1:1#not\n")
	if err == nil || !strings.HasPrefix(err.Error(), "f:5: burst \"1#not\"") || limits != nil {
		t.Errorf("%v, %v", limits, err)
	}
	limits, err = readLimits("f", "\ufeff# scopes\r\n\r\nwb:*\t10:20 # each seller\r\n  wb:orders:list  log:5/15m\na#b 1:1")
	var got []string
	for _, n := range limits {
		got = append(got, n.Name+" "+n.Limit.String())
	}
	if text := strings.Join(got, ", "); err != nil || text != "wb:* 10:20, wb:orders:list log:5/15m, a#b 1:1" {
		t.Errorf("%s, %v", text, err)
	}
	_, err = readLimits("f", "good 10:20\nbad\nworse 10 20\nw*rst 10:20\n\x00 10:20\ngood 10:20\nlast fixed:10/60\n")
	for _, want := range []string{
		"f:2: bad: the limit is missing", "f:3: worse: got 3 words", `f:4: limit name "w*rst"`, `f:5: limit name "\x00"`,
		"f:6: good stands on line 1 already", `f:7: window "60"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "\n"); n != 5 {
		t.Errorf("%d faults:\n%v", n+1, err)
	}
	if _, err = readLimits("f", strings.Repeat("x\n", 1000)); strings.Count(err.Error(), "\n") != maxLimitsFaults {
		t.Errorf("a thousand faults:\n%v", err)
	}
	var many strings.Builder
	for i := range shard.MaxLimits {
		fmt.Fprintf(&many, "n%d 10:20\n", i)
	}
	if limits, err = readLimits("f", many.String()); err != nil || len(limits) != shard.MaxLimits {
		t.Errorf("%d limits, %v", len(limits), err)
	}
	if _, err = readLimits("f", many.String()+"more 10:20\n"); err == nil || !strings.HasPrefix(err.Error(), "f:10001: more") {
		t.Error(err)
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "absent"), t.TempDir()} {
		if _, err := readLimitsFile(path); !errors.As(err, new(limitsFault)) || !strings.Contains(err.Error(), path) {
			t.Error(err)
		}
	}
}

// limitList is RL.LIMIT LIST in one line.
func limitList(c *testConn) string {
	c.t.Helper()
	var words []string
	for _, item := range c.do("RL.LIMIT", "LIST").items {
		words = append(words, item.text)
	}
	return strings.Join(words, " ")
}

// limitsFile writes a limits-file.
func limitsFile(t testing.TB, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLimitsFile changes the file of a running server as a team does that keeps
// it in version control.
func TestLimitsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "limits")
	limitsFile(t, path, "# scope defaults", "wb:* 10:20", "", "wb:orders:list 5/1m:10 # what they allow")
	p := start(t, t.TempDir(), "--limits-file", path, "--loglevel", "debug")
	c := dial(t, p.addr)
	want := func(list string) {
		t.Helper()
		if got := limitList(c); got != list {
			t.Fatalf("limits %q, want %q", got, list)
		}
	}
	want("wb:* 10:20 wb:orders:list 5/1m:10")
	if got := c.do("RL.ACQUIRE", "seller:1", "@wb:stock").ints(); got == nil || got[4] != 20 {
		t.Errorf("%v", got)
	}
	for _, try := range [][]string{{"RL.LIMIT", "SET", "wb:*", "1:1"}, {"RL.LIMIT", "DEL", "wb:*"}} {
		if got := c.do(try...); got.mark != '-' || !strings.Contains(got.text, path) || !strings.Contains(got.text, "SIGHUP") {
			t.Errorf("%q: %q", try, got.lines())
		}
	}
	if got := c.do("RL.LIMIT", "SET", "wb:stock", "3:3"); got.text != "OK" {
		t.Errorf("%q", got.lines())
	}
	if text := c.do("INFO", "limiter").text; !strings.Contains(text, "rl_named_limits:3\r\n") {
		t.Errorf("INFO limiter:\n%s", text)
	}
	limitsFile(t, path, "wb:* 10:20", "wb:orders:list 5:", "good 1:1", "wb:* 1:1")
	p.signal(syscall.SIGHUP)
	p.await("the faults of the file", func() bool {
		return strings.Contains(p.out.String(), path+":2: ") && strings.Contains(p.out.String(), path+":4: ")
	})
	want("wb:* 10:20 wb:orders:list 5/1m:10 wb:stock 3:3")
	limitsFile(t, path, "wb:* 100:200", "ozon:* log:5/15m")
	p.signal(syscall.SIGHUP)
	p.await("word that the limits are on disk", func() bool { return strings.Count(p.out.String(), "are on disk") == 2 })
	want("ozon:* log:5/15m wb:* 100:200 wb:stock 3:3")
	if got := c.do("RL.ACQUIRE", "seller:1", "@wb:orders:list").ints(); got == nil || got[4] != 200 {
		t.Errorf("after the reload: %v", got)
	}
	p.kill()

	// Without the file they stay, and are the callers'.
	p = start(t, p.dir)
	c = dial(t, p.addr)
	want("ozon:* log:5/15m wb:* 100:200 wb:stock 3:3")
	if got := c.do("RL.LIMIT", "SET", "wb:*", "7:7"); got.text != "OK" {
		t.Errorf("%q", got.lines())
	}
	p.signal(syscall.SIGHUP)
	p.await("word that there is no file", func() bool { return strings.Contains(p.out.String(), "SIGHUP: there is no limits-file") })
	if got := c.do("RL.LIMIT", "SET", "wb:stock", "4:4"); got.text != "OK" {
		t.Errorf("%q", got.lines())
	}
	p.kill() // what was answered is on disk

	// With it they are the file's again; what it does not name is left alone.
	limitsFile(t, path, "wb:* 8:8")
	p = start(t, p.dir, "--limits-file", path)
	c = dial(t, p.addr)
	want("ozon:* log:5/15m wb:* 8:8 wb:stock 4:4")
	p.stop()
}

// TestBadLimitsFileStopsTheStart: with exit code 2 and all faults, and
// --check-config finds them too.
func TestBadLimitsFileStopsTheStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "limits")
	limitsFile(t, path, "wb:* 10:20", "a", "b 10")
	for _, args := range [][]string{{"--port", "0", "--dir", t.TempDir()}, {"--check-config"}} {
		code, stdout, stderr := once(t, append(args, "--limits-file", path, "--http-addr", "")...)
		if code != exitBadUsage || stdout != "" || !strings.Contains(stderr, path+":2: ") || !strings.Contains(stderr, path+":3: ") {
			t.Errorf("%q: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

// TestLimitsFileJudgesWhatComesIn: a file that was changed while the server was
// down is in force when the entries come in.
func TestLimitsFileJudgesWhatComesIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits")
	limitsFile(t, path, "api 10:100")
	s := startTest(t, []string{"--limits-file", path})
	dial(t, s.addr).do("RL.ACQUIRE", "user:1", "@api", "COST", "100")
	limitsFile(t, path, "api 100/1h:100")
	s.down()
	s.clock.ns.Add(int64(20 * time.Second))
	s.up()
	if got := dial(t, s.addr).do("RL.PEEK", "user:1", "@api").ints(); got == nil || got[0] != 0 || got[1] != 16_000 {
		t.Errorf("20 s after it was emptied: %v", got)
	}
}

// TestLimitsFileOfReplica: a replica takes limits from its primary, and only looks at the file.
func TestLimitsFileOfReplica(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.conf")
	limitsFile(t, path, "a 1:1")
	primary := start(t, t.TempDir(), "--limits-file", path)
	host, port, _ := net.SplitHostPort(primary.addr)
	replica := start(t, t.TempDir(), "--limits-file", path, "--replicaof", host+" "+port)
	c := dial(t, replica.addr)
	replica.await("the data of the primary", func() bool {
		return strings.Contains(c.do("INFO", "replication").text, "master_link_status:up")
	})
	limitsFile(t, path, "b 2:2")
	replica.signal(syscall.SIGHUP)
	replica.await("word of the file", func() bool {
		return strings.Contains(replica.out.String(), "limits of this replica come from its primary")
	})
	if got := limitList(c); got != "a 1:1" {
		t.Errorf("after SIGHUP to the replica it has %q", got)
	}
	primary.signal(syscall.SIGHUP)
	replica.await("the limit", func() bool { return limitList(c) == "b 2:2" })
	limitsFile(t, path, "b nonsense")
	replica.signal(syscall.SIGHUP)
	replica.await("the fault", func() bool { return strings.Contains(replica.out.String(), path+":1: ") })
}
