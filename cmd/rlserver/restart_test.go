package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rlserver/rlserver/persist"
)

// A plug is a testServer's disk in memory, and its power.
type plug struct {
	*testServer
	mem *vfs.MemFS
}

// startPlugged starts a node whose power can be cut.
func startPlugged(t *testing.T, args ...string) *plug {
	t.Helper()
	p := &plug{mem: vfs.NewCrashableMem()}
	p.testServer = &testServer{t: t, dir: "/data", clock: &fakeClock{}, log: &logText{}}
	p.clock.ns.Store(testStart)
	p.disk = []func(*persist.Options){func(o *persist.Options) { o.FS = p.mem }}
	p.args = append([]string{"--port", "0", "--http-addr", "", "--dir", p.dir, "--snapshot-interval", "1h"}, args...)
	p.up()
	t.Cleanup(p.down)
	return p
}

// cut cuts the power, and lets pass what a start takes.
func (p *plug) cut() {
	p.t.Helper()
	left := p.mem.CrashClone(vfs.CrashCloneCfg{})
	p.down()
	p.mem = left
	p.clock.ns.Add(int64(time.Second))
	p.log = &logText{}
	p.up()
}

// says checks what a client is told.
func (p *plug) says(command, want string) {
	p.t.Helper()
	c := dial(p.t, p.addr)
	defer c.nc.Close()
	r := c.do(strings.Fields(command)...)
	got := r.text
	if r.mark == '*' {
		got = fmt.Sprint(r.ints())
	}
	if got != want {
		p.t.Errorf("%s: %s, want %s", command, got, want)
	}
}

// told checks INFO, and the log of this start: the first line about the stop
// before begins so; "" is no line.
func (p *plug) told(info, line string) {
	p.t.Helper()
	c := dial(p.t, p.addr)
	defer c.nc.Close()
	if got := c.do("INFO", "persistence").text; !strings.Contains(got, info) {
		p.t.Errorf("INFO does not say %q: %s", info, got)
	}
	_, about, found := strings.Cut(p.log.String(), "the last stop was not clean; ")
	if found != (line != "") || !strings.HasPrefix(about, line) {
		p.t.Errorf("the log says %q, want %q", about, line)
	}
}

// TestRestart: each durability loses what it says, and the log and INFO say what
// became of the keys.
func TestRestart(t *testing.T) {
	t.Run("interval", func(t *testing.T) {
		p := startPlugged(t)
		p.told("rl_restart:clean\r\nrl_loaded_age_ms:0\r\nrl_drained_at:0\r\n", "")
		p.says("RL.ACQUIRE a 1/1h 80 COST 30", "[1 0 50 108000000 80]")
		p.cut()
		p.told("rl_restart:refund", "what was admitted after the last save is forgotten")
		p.says("RL.PEEK a 1/1h 80", "[1 0 80 0 80]")
		p.restart()
		p.told("rl_restart:clean", "what was admitted") // the log goes on
	})
	for durability, tokens := range map[string]string{
		"always":  "[1 0 50 107999000 80]",
		"reserve": "[1 0 40 143999000 80]", // and a block of an eighth
	} {
		t.Run(durability, func(t *testing.T) {
			p := startPlugged(t, "--durability", durability)
			p.says("RL.ACQUIRE a 1/1h 80 COST 30", "[1 0 50 108000000 80]")
			p.cut()
			p.told("rl_restart:exact", map[string]string{"always": "nothing that was answered is forgotten", "reserve": "nothing that was admitted is forgotten, refunds and resets"}[durability])
			p.says("RL.PEEK a 1/1h 80", tokens)
			p.says("RL.ACQUIRE a 1/1h 80 COST 10", map[string]string{"always": "[1 0 40 143999000 80]", "reserve": "[1 0 30 179999000 80]"}[durability])
			p.restart()
			p.says("RL.PEEK a 1/1h 80", map[string]string{"always": "[1 0 40 143999000 80]", "reserve": "[1 0 30 179999000 80]"}[durability])
		})
	}
	t.Run("drain", func(t *testing.T) {
		p := startPlugged(t, "--unclean-restart", "drain")
		p.says("RL.ACQUIRE a 1/1h 80 COST 5", "[1 0 75 18000000 80]")
		p.says("SAVE", "OK")
		p.says("RL.ACQUIRE b 1/1h 80", "[1 0 79 3600000 80]")
		p.cut()
		p.told("rl_restart:drain\r\nrl_loaded_age_ms:", "every key counts as emptied now")
		for _, key := range []string{"a", "b", "never"} {
			p.says("RL.PEEK "+key+" 1/1h 80", "[0 3601001 0 288001001 80]") // max-clock-skew later
		}
		p.says("RL.RESET b", "0")
		p.says("RL.PEEK b 1/1h 80", "[1 0 80 0 80]")
		p.clock.ns.Add(int64(time.Hour + 2*time.Second))
		p.says("RL.PEEK never 1/1h 80", "[1 0 1 284399001 80]")
		p.restart() // what a crash lost is not known after a clean stop either
		p.told("rl_restart:clean", "every key counts")
		p.says("RL.PEEK never 1/1h 80", "[1 0 1 284399001 80]")
		p.says("FLUSHALL", "OK")
		p.told("rl_drained_at:0", "every key counts")
		p.says("RL.PEEK never 1/1h 80", "[1 0 80 0 80]")
		p.restart()
		p.says("RL.PEEK never 1/1h 80", "[1 0 80 0 80]")
	})
	t.Run("reserve, drain", func(t *testing.T) {
		p := startPlugged(t, "--durability", "reserve", "--unclean-restart", "drain")
		p.says("RL.ACQUIRE a 1/1h 80 COST 5", "[1 0 75 18000000 80]")
		p.cut()
		p.told("rl_restart:drain", "every key counts as emptied now")
		p.says("RL.PEEK a 1/1h 80", "[0 3601001 0 288001001 80]")
	})
}

// TestDrainNeedsAClock: nobody can say when a key was emptied for callers who
// live in times of their own.
func TestDrainNeedsAClock(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"--check-config", "--port=0"} {
		code, _, stderr := once(t, "--unclean-restart", "drain", "--caller-clock", "trusted", "--dir", t.TempDir(), more)
		if code != exitBadUsage || !strings.Contains(stderr, "choose caller-clock bounded or ignored, or unclean-restart refund") {
			t.Errorf("exit code %d: %q", code, stderr)
		}
	}
}
