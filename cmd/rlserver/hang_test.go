package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlserver/rlserver/persist"
)

// hangFor is a little longer than the disk may be silent before the server says so.
const hangFor = 6 * time.Second

// TestDiskHangs: while the disk does not answer, decisions under interval go on, exactly and without waiting, and under always what changes
// nothing is answered; INFO and the log say that the disk hangs, under always changes are refused then; and when the disk answers again
// what waited is answered and all is well by itself.
func TestDiskHangs(t *testing.T) {
	for _, mode := range []string{"interval", "always"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			disk := newHeldDisk()
			s := &testServer{t: t, dir: t.TempDir(), clock: &fakeClock{}, log: &logText{}}
			s.clock.ns.Store(testStart)
			s.args = []string{"--port", "0", "--http-addr", "", "--dir", s.dir, "--durability", mode, "--snapshot-interval", "100ms"}
			s.disk = []func(*persist.Options){func(o *persist.Options) { o.FS = disk.fs }}
			s.up()
			t.Cleanup(func() {
				disk.hold(false)
				s.down()
			})
			hangs(t, s, disk, mode == "always")
		})
	}
}

func hangs(t *testing.T, s *testServer, disk *heldDisk, waits bool) {
	c := dial(t, s.addr)
	c.do("RL.ACQUIRE", "k", sharedLimit)
	disk.hold(true)
	waiting := make(chan reply, 1)
	go func() { waiting <- dial(t, s.addr).do("RL.ACQUIRE", "k", sharedLimit) }()
	ask, taken := []string{"RL.ACQUIRE", "k", sharedLimit}, int64(2)
	if waits {
		ask = []string{"RL.PEEK", "k", sharedLimit}
	}
	var slow []time.Duration
	for end := time.Now().Add(hangFor); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		before := time.Now()
		got := c.do(ask...).ints()
		slow = append(slow, time.Since(before))
		if len(got) != 5 || got[0] != 1 {
			t.Fatalf("%q: %v", ask, got)
		}
		if !waits {
			taken++
		}
	}
	slices.Sort(slow)
	t.Logf("%d decisions while the disk hung, p99 %v, the slowest %v", len(slow), slow[len(slow)*99/100], slow[len(slow)-1])
	if slow[len(slow)-1] > time.Second {
		t.Error("a decision waited for the disk")
	}
	if waits {
		select {
		case got := <-waiting:
			t.Fatalf("answered before it was on disk: %q", got.lines())
		default:
		}
		if got := c.do("RL.ACQUIRE", "k", sharedLimit); !strings.HasPrefix(got.text, "MISCONF") {
			t.Errorf("a change on a disk that hangs: %q", got.lines())
		}
	}
	if text := c.do("INFO", "persistence").text; !strings.Contains(text, "rl_last_save_status:err") || !strings.Contains(text, "the disk hangs") {
		t.Errorf("INFO: %s", text)
	}
	if remark, err := s.node.readiness(); (err != nil) != waits || !waits && !strings.Contains(remark, "the disk hangs") {
		t.Errorf("/readyz: %q, %v", remark, err)
	}
	if text := s.log.String(); !strings.Contains(text, "the disk hangs") || strings.Count(text, "\n") > 20 {
		t.Errorf("the log: %s", text)
	}
	disk.hold(false)
	if got := (<-waiting).ints(); len(got) != 5 || got[0] != 1 {
		t.Errorf("what waited: %v", got)
	}
	for end := time.Now().Add(readyWithin); !strings.Contains(c.do("INFO", "persistence").text, "rl_last_save_status:ok"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(c.do("INFO", "persistence").text)
		}
	}
	if got := c.do("RL.ACQUIRE", "k", sharedLimit).ints(); len(got) != 5 || got[2] != sharedBurst-taken-1 {
		t.Errorf("%v, %d were taken before", got, taken)
	}
}
