package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The field reports: faults that people met in other rate limiters, by their
// number, each with what is right here. testdata/fieldreports has the rows:
//
//	B009 what went wrong
//	RL.ACQUIRE k 100 1 T -> [1,0,0,10]
//	3x RL.PEEK k 100 1 T+1 -> [0,0,9,9]
//
// T is the server's clock in ms at the case's beginning, W a multiple of an hour
// near it. The server believes callers' times, unless the case says "@ bounded".
// "@ 1s" moves its clock, "@ restart" restarts it. A decision is written as the
// reports have it, [allowed,remaining,retry,reset], with _ for any number;
// CL.THROTTLE's five and RL.ACQUIREALL's first three integers stand as they
// are. allowed, denied, error and nil are replies too. Several replies are those
// of as many calls; 3x sends three in one pipeline, all answered alike.

// fieldReports are the reports of the classes A (arithmetic), B (time), C
// (replies), D (windows), E (key expiry), F (parameters), G (concurrency) and H
// (peek, refund, reset), and of class L (command compatibility) the
// transactions.
var fieldReports = strings.Fields(`
	B001 B003 B005 B007 B008 B009 B011 B013 B014 B015 B016 B018 B019 B020 B022
	B025 B026 B027 B029 B031 B032 B034
	B035 B037 B038 B039 B040 B041 B043 B044
	B045 B047 B049 B051 B052 B053 B054
	B055 B058 B061 B064
	B065 B066
	B069 B071
	B073 B075 B077 B079
	B122`)

// fieldExceptions are parts of reports that are not tested here, with the reason.
var fieldExceptions = map[string]string{
	"B027": "a server whose own clock is set back needs a process of its own: TestClock* show that its clock does not follow",
	"B055": "there are no counters but limits, and so no INCR and EXPIRE to come apart",
	"B122": "that a client which goes away has asked for nothing is TestEndInsideMulti",
	"B073": "there is no replica to peek on; RL.PEEK is flagged readonly, which is what makes a replica answer it",
	"B079": "there is no replica to ask, and kill -9 needs a process of its own: TestKill* end it so after a SAVE",
}

// fieldCase is the rows of one report.
type fieldCase struct {
	file, name, title string
	line              int
	bounded           bool
	rows              []fieldRow
}

// fieldRow is a command with its replies, or a mark such as "@ 1s".
type fieldRow struct {
	line    int
	mark    string
	times   int
	command string
	want    []string
}

var (
	fieldTitle = regexp.MustCompile(`^(B\d{3}) (.+)$`)
	fieldTimes = regexp.MustCompile(`^(\d+)x (.+)$`)
	fieldTime  = regexp.MustCompile(`^([TW])([+-]\d+)?$`)
)

// readFieldCases reads all rows.
func readFieldCases(t *testing.T) (cases []*fieldCase) {
	files, err := filepath.Glob("testdata/fieldreports/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no field reports", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c *fieldCase
		for i, line := range strings.Split(string(data), "\n") {
			m := fieldTitle.FindStringSubmatch(line)
			switch {
			case line == "" || line[0] == '#':
			case m != nil:
				c = &fieldCase{file: file, name: m[1], title: m[2], line: i + 1}
				cases = append(cases, c)
			case c == nil:
				t.Fatalf("%s:%d: a row before the first report", file, i+1)
			case line == "@ bounded":
				c.bounded = true
			default:
				row, err := readFieldRow(line)
				if err != nil {
					t.Fatalf("%s:%d: %v", file, i+1, err)
				}
				row.line = i + 1
				c.rows = append(c.rows, row)
			}
		}
	}
	return cases
}

func readFieldRow(line string) (row fieldRow, err error) {
	if mark, ok := strings.CutPrefix(line, "@ "); ok {
		return fieldRow{mark: mark}, nil
	}
	command, want, ok := strings.Cut(line, " -> ")
	if !ok {
		return row, fmt.Errorf("%q has no reply", line)
	}
	row = fieldRow{times: 1, command: strings.TrimSpace(command), want: strings.Fields(want)}
	if m := fieldTimes.FindStringSubmatch(row.command); m != nil {
		row.command = m[2]
		if row.times, err = strconv.Atoi(m[1]); err != nil || len(row.want) != 1 {
			return row, fmt.Errorf("%q: one reply stands for all of them", line)
		}
	}
	return row, nil
}

// words are the command's words with T and W as numbers.
func (r fieldRow) words(start int64) (words []string) {
	const hour = 3_600_000
	for _, w := range strings.Fields(r.command) {
		if m := fieldTime.FindStringSubmatch(w); m != nil {
			at := start
			if m[1] == "W" {
				at = start - start%hour + hour
			}
			shift, _ := strconv.ParseInt(m[2], 10, 64) // empty is 0
			w = strconv.FormatInt(at+shift, 10)
		}
		words = append(words, w)
	}
	return words
}

// fieldReply writes a reply as rows have it.
func fieldReply(command string, got reply) string {
	d := got.ints()
	switch {
	case got.null:
		return "nil"
	case len(d) == 5 && !strings.HasPrefix(command, "CL."):
		return fmt.Sprintf("[%d,%d,%d,%d]", d[0], d[2], d[1], d[3])
	case d != nil || len(got.items) == 4 && strings.HasPrefix(command, "RL.ACQUIREALL"):
		var words []string
		for _, item := range got.items[:min(len(got.items), 5)] {
			if item.mark == ':' {
				words = append(words, item.text)
			}
		}
		return "[" + strings.Join(words, ",") + "]"
	case got.mark == '-':
		return "error " + got.text
	case command == "EXEC":
		var replies []string
		for _, item := range got.items {
			replies = append(replies, fieldReply("", item))
		}
		return strings.Join(replies, ";")
	}
	return got.text
}

// fieldFits compares a reply with what a row wants.
func fieldFits(want, got string) bool {
	switch want {
	case "allowed":
		return strings.HasPrefix(got, "[1,")
	case "denied":
		return strings.HasPrefix(got, "[0,")
	case "error":
		return strings.HasPrefix(got, "error ERR ")
	case "aborted":
		return strings.HasPrefix(got, "error EXECABORT ")
	}
	w, g := strings.Split(want, ","), strings.Split(got, ",")
	if len(w) != len(g) {
		return false
	}
	for i := range w {
		if strings.Trim(w[i], "[]") != "_" && w[i] != g[i] {
			return false
		}
	}
	return true
}

// pipeline sends the same command n times at once and returns the replies.
func (c *testConn) pipeline(n int, words []string) (replies []reply) {
	c.t.Helper()
	go c.nc.Write([]byte(strings.Repeat(frame(words...), n))) // the reader must not wait for the writer
	for range n {
		r, err := readReply(c.r)
		if err != nil {
			c.t.Fatalf("%q: %v", words, err)
		}
		replies = append(replies, r)
	}
	return replies
}

// play runs the rows of a case.
func (c *fieldCase) play(t *testing.T, srv *testServer) {
	start := srv.clock.NowNs() / 1e6
	conn := dial(t, srv.addr)
	for _, row := range c.rows {
		if row.mark == "restart" {
			srv.restart()
			conn = dial(t, srv.addr)
			continue
		} else if row.mark != "" {
			d, err := time.ParseDuration(row.mark)
			if err != nil {
				t.Fatalf("%s:%d: %v", c.file, row.line, err)
			}
			srv.advance(d)
			continue
		}
		words := row.words(start)
		for i, got := range conn.pipeline(max(row.times, len(row.want)), words) {
			want := row.want[min(i, len(row.want)-1)]
			if text := fieldReply(row.command, got); !fieldFits(want, text) {
				t.Fatalf("%s:%d: %s: call %d: got %s, want %s", c.file, row.line, row.command, i+1, text, want)
			}
		}
	}
}

// TestFieldReports plays every report: its rows, and what rows cannot say.
func TestFieldReports(t *testing.T) {
	trusted := startTest(t, []string{"--caller-clock", "trusted"})
	bounded := startTest(t, nil)
	seen := map[string]bool{}
	for _, c := range readFieldCases(t) {
		more := fieldChecks[c.name]
		if seen[c.name] {
			more = nil
		}
		seen[c.name] = true
		if len(c.rows) == 0 && more == nil {
			t.Errorf("%s:%d: %s has neither rows nor a check", c.file, c.line, c.name)
		}
		t.Run(c.name, func(t *testing.T) {
			srv := trusted
			if c.bounded {
				srv = bounded
			}
			dial(t, srv.addr).do("FLUSHALL")
			c.play(t, srv)
			if more != nil && !t.Failed() {
				dial(t, srv.addr).do("FLUSHALL")
				more(t, srv)
			}
		})
	}
	for _, name := range fieldReports {
		if !seen[name] {
			t.Errorf("report %s is not tested", name)
		}
		delete(seen, name)
	}
	for name := range seen {
		t.Errorf("report %s is not in the list", name)
	}
	for name := range fieldChecks {
		if !slices.Contains(fieldReports, name) {
			t.Errorf("the check of %s belongs to no report", name)
		}
	}
	if len(fieldExceptions) > 5 {
		t.Errorf("%d exceptions, at most 5 are allowed", len(fieldExceptions))
	}
}

// fieldChecks are what rows cannot say: loops, figures, many clients.
var fieldChecks = map[string]func(*testing.T, *testServer){
	"B026": checkTwoClocks,
	"B027": checkClockSetBack,
	"B032": checkUnitsStated,
	"B034": checkServersClock,
	"B037": checkAcrossExpiry,
	"B051": checkDenialsNotKept,
	"B052": func(t *testing.T, srv *testServer) { checkPolled(t, srv, "3", "3", 100, 32) },
	"B053": func(t *testing.T, srv *testServer) { checkPolled(t, srv, "1", "1", 22, 3) },
	"B066": checkWindowChanges,
	"B069": checkHotKey,
	"B071": checkCombined,
	"B073": checkReadOnly,
}

// checkTwoClocks: two callers 1 s apart get no more than the span of their
// times is worth.
func checkTwoClocks(t *testing.T, srv *testServer) {
	conn := dial(t, srv.addr)
	start := srv.clock.NowNs() / 1e6
	admitted := 0
	for i := range int64(10_000) {
		now := start + i + 1000*(i%2)
		if d := conn.do("RL.ACQUIRE", "k", "150", "150", strconv.FormatInt(now, 10)).ints(); d[0] == 1 {
			admitted++
		}
	}
	if most := 150 + 150*11; admitted > most || admitted < 150+150*10-1 {
		t.Errorf("%d admitted, want at most %d and no token less than the later clock is worth", admitted, most)
	}
}

// checkClockSetBack: a caller whose clock was set back an hour is served on, by
// the server's clock.
func checkClockSetBack(t *testing.T, srv *testServer) {
	conn := dial(t, srv.addr)
	start := srv.clock.NowNs() / 1e6
	ask := func(now int64) []int64 {
		return conn.do("RL.ACQUIRE", "k", "10", "10", strconv.FormatInt(now, 10)).ints()
	}
	for range 10 {
		if d := ask(start); d[0] != 1 {
			t.Fatal("the bucket is not full", d)
		}
	}
	admitted := 0
	for x := int64(0); x < 60_000; x += 100 {
		d := ask(start - 3_600_000 + x)
		if d[0] == 1 {
			admitted++
		} else if d[1] < 1 || d[1] > 1100 {
			t.Fatalf("after %d ms: told to wait %d ms, want at most 1 token's time and max-clock-skew", x, d[1])
		}
		srv.advance(100 * time.Millisecond)
	}
	if admitted < 580 || admitted > 600 {
		t.Errorf("%d admitted in 60 s at 10/s", admitted)
	}
}

// checkUnitsStated: people are told which commands speak of ms and which of s.
func checkUnitsStated(t *testing.T, srv *testServer) {
	conn := dial(t, srv.addr)
	for name, unit := range map[string]string{"RL.ACQUIRE": " ms", "CL.THROTTLE": "seconds"} {
		if got := strings.Join(conn.do("COMMAND", "DOCS", name).lines(), "\n"); !strings.Contains(got, unit) {
			t.Errorf("COMMAND DOCS %s does not say %q:\n%s", name, unit, got)
		}
	}
	for file, text := range map[string]string{"../../README.md": "| 2 | retry_after | denied: ms until ", "../../commands.md": "reset_after in seconds"} {
		if data, err := os.ReadFile(file); err != nil || !strings.Contains(string(data), text) {
			t.Errorf("%s does not say %q (%v)", file, text, err)
		}
	}
}

// checkServersClock: the clock that decides is the one TIME shows, and how far
// callers are believed can be asked.
func checkServersClock(t *testing.T, srv *testServer) {
	conn := dial(t, srv.addr)
	got := conn.do("TIME")
	s, err1 := strconv.ParseInt(got.items[0].text, 10, 64)
	us, err2 := strconv.ParseInt(got.items[1].text, 10, 64)
	if at := srv.clock.NowNs() / 1e3; err1 != nil || err2 != nil || s*1e6+us != at {
		t.Errorf("TIME says %q, the clock %d us", got.lines(), at)
	}
	for name, want := range map[string]string{"caller-clock": "bounded", "max-clock-skew": "1s"} {
		if got := conn.do("CONFIG", "GET", name); len(got.items) != 2 || got.items[1].text != want {
			t.Errorf("CONFIG GET %s says %q, want %s", name, got.lines(), want)
		}
	}
}

// checkAcrossExpiry looks every 10 ms while a window ends and its key is
// dropped.
func checkAcrossExpiry(t *testing.T, srv *testServer) {
	conn := dial(t, srv.addr)
	conn.do("RL.FIXED", "k", "1", "1s", "*")
	for ms := 0; ms < 6000; ms += 10 {
		d := conn.do("RL.PEEK", "k", "fixed:1/1s", "*").ints()
		if slices.Min(d) < 0 || d[0] == 0 && d[1] == 0 {
			t.Fatalf("after %d ms: %v", ms, d)
		}
		srv.advance(10 * time.Millisecond)
	}
}

// checkDenialsNotKept: one call each 30 s under 10 in 10 minutes, then many that
// are denied and leave the memory as it is.
func checkDenialsNotKept(t *testing.T, srv *testServer) {
	conn := dial(t, srv.addr)
	start := srv.clock.NowNs() / 1e6
	at := func(i int64) []string {
		return []string{"RL.LOG", "k", "10", "600000ms", strconv.FormatInt(start+30_000*i, 10)}
	}
	for i := range int64(21) {
		if d := conn.do(at(i)...).ints(); (d[0] == 1) != (i < 10 || i == 20) {
			t.Errorf("call %d: %v", i, d)
		}
	}
	before := srv.node.store.Stats()
	for _, r := range conn.pipeline(60_000, at(20)) {
		if d := r.ints(); d[0] != 0 {
			t.Fatal("allowed", d)
		}
	}
	if after := srv.node.store.Stats(); after.UsedBytes > before.UsedBytes || after.Changes != before.Changes {
		t.Errorf("denied calls changed %d bytes in %d changes", after.UsedBytes-before.UsedBytes, after.Changes-before.Changes)
	}
}

// checkPolled asks every 100 ms: just so many are admitted, evenly, and nothing
// remains after the burst.
func checkPolled(t *testing.T, srv *testServer, rate, burst string, calls int64, want int) {
	conn := dial(t, srv.addr)
	start := srv.clock.NowNs() / 1e6
	admitted := 0
	for i := range calls {
		d := conn.do("RL.ACQUIRE", "polled", rate, burst, strconv.FormatInt(start+100*i, 10)).ints()
		if d[0] == 1 {
			admitted++
		}
		if i >= 3 && d[2] != 0 {
			t.Errorf("call %d: %d remain", i, d[2])
		}
		if rate == "1" && (d[0] == 1) != (i%10 == 0) {
			t.Errorf("call %d: %v, want every tenth allowed", i, d)
		}
	}
	if admitted != want {
		t.Errorf("%d of %d admitted, want %d", admitted, calls, want)
	}
}

// checkWindowChanges: a window that changes at every call is decided at once.
func checkWindowChanges(t *testing.T, srv *testServer) {
	const calls, within = 3000, 30 * time.Second // 10 ms each, however busy the machine: who counts windows one by one needs hours
	conn := dial(t, srv.addr)
	rng := rand.New(rand.NewPCG(66, 0))
	now := srv.clock.NowNs() / 1e6
	began := time.Now()
	for _, kind := range []string{"RL.FIXED", "RL.SLIDING", "RL.LOG"} {
		for range calls / 3 {
			now += rng.Int64N(10_000)
			window := strconv.FormatInt(1+rng.Int64N(1<<rng.IntN(32)), 10) + "ms"
			d := conn.do(kind, kind, "100", window, strconv.FormatInt(now, 10)).ints()
			if len(d) != 5 || d[2] < 0 || d[2] > 100 || d[0] == 0 && d[1] <= 0 || d[3] < 0 {
				t.Fatalf("%s 100 %s: %v", kind, window, d)
			}
		}
	}
	if took := time.Since(began); took > within {
		t.Errorf("%d changes of the window took %v", calls, took)
	}
}

// atOnce lets clients send the same line, each on a connection of its own, and
// returns all replies.
func atOnce(t *testing.T, srv *testServer, clients, calls int, words ...string) (all []reply) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var begin atomic.Bool
	for range clients {
		wg.Go(func() {
			conn := dial(t, srv.addr)
			for !begin.Load() {
				time.Sleep(time.Millisecond)
			}
			for range calls / clients {
				got := conn.do(words...)
				mu.Lock()
				all = append(all, got)
				mu.Unlock()
			}
		})
	}
	begin.Store(true)
	wg.Wait()
	return all
}

// checkHotKey: 200 clients on one key get what it holds, each token once.
func checkHotKey(t *testing.T, srv *testServer) {
	now := strconv.FormatInt(srv.clock.NowNs()/1e6, 10)
	var left []int64
	for _, got := range atOnce(t, srv, 200, 2000, "RL.ACQUIRE", "hot", "1/3600s", "100", now) {
		if d := got.ints(); d[0] == 1 {
			left = append(left, d[2])
		}
	}
	slices.Sort(left)
	for i := range int64(100) {
		if len(left) != 100 || left[i] != i {
			t.Fatalf("%d admitted, told that there remain %v, want 0 to 99 once each", len(left), left)
		}
	}
}

// checkCombined: what the smaller of two limits refuses is not taken from the
// other.
func checkCombined(t *testing.T, srv *testServer) {
	now := strconv.FormatInt(srv.clock.NowNs()/1e6, 10)
	allowed := 0
	for _, got := range atOnce(t, srv, 100, 100, "RL.ACQUIREALL", "a", "1/1h:10", "1", "b", "1/1h:5", "1", "NOW", now) {
		if got.items[0].text == "1" {
			allowed++
		}
	}
	d := dial(t, srv.addr).do("RL.PEEK", "a", "1/1h", "10", now).ints()
	if allowed != 5 || d[2] != 5 {
		t.Errorf("%d allowed and %d left in a, want 5 and 5", allowed, d[2])
	}
}

// checkReadOnly: those that look are flagged so that a replica answers them.
func checkReadOnly(t *testing.T, srv *testServer) {
	conn := dial(t, srv.addr)
	for _, name := range []string{"RL.PEEK", "RL.GET", "HMGET", "HGET", "HGETALL"} {
		if got := conn.do("COMMAND", "INFO", name).items[0].items[2].lines(); !slices.ContainsFunc(got, func(l string) bool { return strings.HasSuffix(l, "readonly") }) {
			t.Errorf("%s is flagged %q, want readonly", name, got)
		}
	}
}
