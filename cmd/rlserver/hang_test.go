package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlserver/rlserver/persist"
)

// hangFor is longer than the disk may be silent before the server says so.
func hangFor() time.Duration {
	if testing.Short() {
		return 6 * time.Second
	}
	return 10 * time.Second
}

// hangs are what happens in each mode while the disk does not answer.
var hangs = []struct {
	mode    string
	goes    []string // what is answered all the time
	debits  bool     // it takes a token each time
	waits   []string // what is sent as it begins to hang, and answered when the disk answers; nil if nothing waits
	refused []string // what is refused when the hang has been noticed
	says    string   // the log
}{
	{"interval", []string{"RL.ACQUIRE", "k", sharedLimit}, true, nil, nil, "decisions go on from memory"},
	{"shutdown", []string{"RL.ACQUIRE", "k", sharedLimit}, true, []string{"SAVE"}, nil, "decisions go on from memory"},
	{"always", []string{"RL.PEEK", "k", sharedLimit}, false, []string{"RL.ACQUIRE", "other", sharedLimit}, []string{"RL.ACQUIRE", "k", sharedLimit},
		"changes are refused meanwhile"},
	{"reserve", []string{"RL.ACQUIRE", "k", sharedLimit}, true, []string{"RL.ACQUIRE", "other", sharedLimit}, []string{"RL.ACQUIRE", "third", sharedLimit},
		"what must be synced is refused meanwhile, calls within a block go on"},
}

// TestDiskHangs: while the disk does not answer for 10 s, decisions that promise nothing go on, exactly and without waiting, under reserve
// those within a block, and under always what changes nothing. INFO and the log say that the disk hangs, and then what must be on disk is
// refused. When the disk answers again what waited is answered and all is well by itself.
func TestDiskHangs(t *testing.T) {
	for i := range hangs {
		t.Run(hangs[i].mode, func(t *testing.T) {
			t.Parallel()
			disk := newHeldDisk()
			s := &testServer{t: t, dir: t.TempDir(), clock: &fakeClock{}, log: &logText{}}
			s.clock.ns.Store(testStart)
			s.args = []string{"--port", "0", "--http-addr", "", "--dir", s.dir, "--durability", hangs[i].mode, "--snapshot-interval", "100ms"}
			s.disk = []func(*persist.Options){func(o *persist.Options) { o.FS = disk.fs }}
			s.up()
			t.Cleanup(func() {
				disk.hold(false)
				s.down()
			})
			hangOn(t, i, s, disk)
		})
	}
}

func hangOn(t *testing.T, i int, s *testServer, disk *heldDisk) {
	h := &hangs[i]
	c := dial(t, s.addr)
	c.do("RL.ACQUIRE", "k", sharedLimit)
	taken := int64(1)
	disk.hold(true)
	waiting := make(chan reply, 1)
	if h.waits != nil {
		other := dial(t, s.addr)
		go func() { waiting <- other.do(h.waits...) }()
	}
	var slow []time.Duration
	for end := time.Now().Add(hangFor()); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		before := time.Now()
		got := c.do(h.goes...)
		slow = append(slow, time.Since(before))
		if d := got.ints(); len(d) != 5 || d[0] != 1 {
			t.Fatalf("%q: %q", h.goes, got.lines())
		}
		if h.debits {
			taken++
		}
	}
	slices.Sort(slow)
	t.Logf("%d decisions while the disk hung, p99 %v, the slowest %v", len(slow), slow[len(slow)*99/100], slow[len(slow)-1])
	if slow[len(slow)-1] > time.Second {
		t.Error("a decision waited for the disk")
	}
	select {
	case got := <-waiting:
		t.Fatalf("answered before it was on disk: %q", got.lines())
	default:
	}
	if h.refused != nil {
		if got := c.do(h.refused...); !strings.HasPrefix(got.text, "MISCONF") {
			t.Errorf("%q on a disk that hangs: %q", h.refused, got.lines())
		}
	}
	hangIsTold(t, s, c, h.says, h.refused != nil)
	disk.hold(false)
	if h.waits != nil {
		if got := <-waiting; got.mark == '-' {
			t.Errorf("what waited: %q", got.lines())
		}
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

// hangIsTold looks at what INFO, /readyz and the log say.
func hangIsTold(t *testing.T, s *testServer, c *testConn, says string, refuses bool) {
	t.Helper()
	if text := c.do("INFO", "persistence").text; !strings.Contains(text, "rl_last_save_status:err") || !strings.Contains(text, "the disk hangs") {
		t.Errorf("INFO: %s", text)
	}
	if remark, err := s.node.readiness(); (err != nil) != refuses || !refuses && !strings.Contains(remark, "the disk hangs") {
		t.Errorf("/readyz: %q, %v", remark, err)
	}
	if text := s.log.String(); !strings.Contains(text, "the disk hangs; "+says) || strings.Count(text, "\n") > 20 {
		t.Errorf("the log: %s", text)
	}
}
