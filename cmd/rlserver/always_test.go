package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/rlserver/rlserver/persist"
	"github.com/rlserver/rlserver/resp"
)

// A heldDisk is a disk in memory whose syncs do not come back while it is held.
type heldDisk struct {
	mu   sync.Mutex
	cond sync.Cond
	held bool
	wait int // syncs that wait
	fs   vfs.FS

	logSyncs atomic.Int64 // of Pebble's log
}

func newHeldDisk() *heldDisk {
	d := &heldDisk{}
	d.cond.L = &d.mu
	d.fs = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
			if strings.HasSuffix(op.Path, ".log") {
				d.logSyncs.Add(1)
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			d.wait++
			for d.held {
				d.cond.Wait()
			}
			d.wait--
		}
		return nil
	}))
	return d
}

func (d *heldDisk) hold(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = on
	d.cond.Broadcast()
}

// waits says whether a sync waits.
func (d *heldDisk) waits() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wait > 0
}

// startOn starts a node on such a disk, in a mode in which replies wait.
func startOn(t *testing.T, d *heldDisk, durability string) *testServer {
	t.Helper()
	s := &testServer{t: t, dir: t.TempDir(), clock: &fakeClock{}, log: &logText{}}
	s.clock.ns.Store(testStart)
	s.args = []string{"--port", "0", "--http-addr", "", "--dir", s.dir, "--durability", durability, "--snapshot-interval", "1h"}
	s.disk = []func(*persist.Options){func(o *persist.Options) { o.FS = d.fs }}
	s.up()
	t.Cleanup(func() {
		d.hold(false)
		s.down()
	})
	return s
}

// TestPipelineSharesOneSync: all changes of one pipeline are in one round, and cost one sync of the log; so do those of many connections
// that come while the disk is at the one before. Beside them are the seals, of one sync each.
func TestPipelineSharesOneSync(t *testing.T) {
	t.Parallel()
	const pipelines, depth, sealEvery = 30, 100, 250 * time.Millisecond
	disk := newHeldDisk()
	s := startOn(t, disk, "always")
	c := dial(t, s.addr)
	before, began := disk.logSyncs.Load(), time.Now()
	rounds := infoInt(t, c, "rl_rounds")
	for p := range pipelines {
		ask := frame("RL.PEEK", "k", sharedLimit)
		for i := range depth {
			ask += frame("RL.ACQUIRE", fmt.Sprint("k", i%7), sharedLimit)
		}
		answers(t, c, ask, depth+1)
		if n := infoInt(t, c, "rl_rounds") - rounds; n != int64(p)+1 {
			t.Fatalf("%d rounds for %d pipelines", n, p+1)
		}
	}
	// Now all come while the disk is held: the first has its round under way, or waits for a seal, the others share the next.
	disk.hold(true)
	var waiting sync.WaitGroup
	first := true
	for i := range 8 {
		c := dial(t, s.addr)
		changes := s.node.store.Stats().Changes
		waiting.Go(func() {
			answers(t, c, strings.Repeat(frame("RL.ACQUIRE", fmt.Sprint("k", i), sharedLimit), depth), depth)
		})
		for end := time.Now().Add(readyWithin); s.node.store.Stats().Changes != changes+depth || first && !disk.waits(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d of %d changes", s.node.store.Stats().Changes-changes, depth)
			}
		}
		first = false
	}
	disk.hold(false)
	waiting.Wait()
	if n := infoInt(t, c, "rl_rounds") - rounds; n != pipelines+2 && n != pipelines+1 {
		t.Errorf("%d rounds for %d pipelines, and 8 that share 2 at most", n, pipelines)
	}
	seals := int64(time.Since(began)/sealEvery) + 2 // one may have been due
	if n := disk.logSyncs.Load() - before; n < pipelines+1 || n > pipelines+2+seals {
		t.Errorf("%d syncs of the log for %d rounds and at most %d seals", n, pipelines+2, seals)
	}
}

// answers sends what was framed in one piece and reads so many replies, all of them decisions that allow.
func answers(t *testing.T, c *testConn, ask string, n int) {
	if _, err := io.WriteString(c.nc, ask); err != nil {
		t.Error(err)
		return
	}
	for range n {
		r, err := readReply(c.r)
		if d := r.ints(); err != nil || len(d) != 5 || d[0] != 1 {
			t.Errorf("%q, %v", r.lines(), err)
			return
		}
	}
}

// waitLook is for how long a reply that must not leave is looked out for.
const waitLook = 2 * time.Millisecond

// TestAlwaysWaits plays the transcripts, which show every command of the table,
// on a disk that holds all rounds back: what changed something is answered when
// it is let go and not before; everything else is answered at once.
func TestAlwaysWaits(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	waited, atOnce := map[string]int{}, map[string]int{}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { playHeld(t, path, waited, atOnce) })
	}
	for _, c := range resp.Commands() {
		switch {
		case c.Open:
		case c.Write && waited[c.Name] == 0:
			t.Errorf("%s is declared a write, and no reply of it waited", c.Name)
		case !c.Write && waited[c.Name] > 0 && c.Name != "save" && c.Name != "exec":
			t.Errorf("%s is not declared a write, and a reply of it waited", c.Name)
		case !c.Write && atOnce[c.Name] == 0 && c.Name != "save":
			t.Errorf("%s is not declared a write, and no reply of it was seen", c.Name)
		}
	}
}

// playHeld plays one transcript.
func playHeld(t *testing.T, path string, waited, atOnce map[string]int) {
	steps, _ := parseTranscript(t, path)
	disk := newHeldDisk()
	srv := startOn(t, disk, "always")
	disk.hold(true)
	conns := map[string]*testConn{}
	for _, st := range steps {
		if st.mark == '@' {
			disk.hold(false)
			if err := srv.event(st.words); err != nil {
				t.Fatalf("%s:%d: %v", path, st.line, err)
			}
			if st.words[0] == "restart" {
				clear(conns)
			}
			disk.hold(true)
			continue
		}
		if conns[st.conn] == nil {
			conns[st.conn] = dial(t, srv.addr)
		}
		got, changed, early := srv.doHeld(disk, conns[st.conn], st.words)
		if got.mark == closed {
			delete(conns, st.conn)
		}
		if (got.mark == '-') != (st.mark == '!') {
			t.Errorf("%s:%d: %s: %s", path, st.line, st.text, strings.Join(got.lines(), "\n"))
		}
		if early && changed {
			t.Errorf("%s:%d: %s: answered before what it changed was on disk", path, st.line, st.text)
		}
		row, _ := rowOf(st.words)
		if early {
			atOnce[row.Name]++
		} else {
			waited[row.Name]++
		}
	}
}

// doHeld sends a command on a disk that is held. If it changed something or is
// SAVE, the disk is let go when no reply has come for some time.
func (s *testServer) doHeld(disk *heldDisk, c *testConn, words []string) (got reply, changed, early bool) {
	before := s.node.store.Stats().Changes
	answer := make(chan reply, 1)
	go func() { answer <- c.do(words...) }()
	saves := strings.EqualFold(words[0], "save")
	look := time.NewTicker(waitLook)
	defer look.Stop()
	for {
		select {
		case got = <-answer:
			return got, s.node.store.Stats().Changes != before, true
		case <-look.C:
		}
		if changed {
			break
		}
		changed = saves || s.node.store.Stats().Changes != before
	}
	disk.hold(false)
	defer disk.hold(true)
	return <-answer, changed, false
}
