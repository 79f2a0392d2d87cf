//go:build linux

package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestFrameFillsItsHoles(t *testing.T) {
	f := newFrame("RL.ACQUIRE", "user:%key", "10", "20", "%now")
	got := string(f.appendTo([]byte("+"), 4711, 1700000000123))
	want := "+*5\r\n$10\r\nRL.ACQUIRE\r\n$16\r\nuser:00000004711\r\n$2\r\n10\r\n$2\r\n20\r\n$13\r\n1700000000123\r\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if again := string(f.appendTo(nil, 0, 0)); !strings.Contains(again, "user:00000000000\r\n$2") {
		t.Errorf("the frame itself was changed: %q", again)
	}
}

func TestFrameWithoutHoles(t *testing.T) {
	f := newFrame("SET", "", "a")
	if got, want := string(f.appendTo(nil, 7, 8)), "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$1\r\na\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Every frame that is measured must be one well-formed command with a 16-byte key.
func TestFramesOfAllCells(t *testing.T) {
	names := map[string]bool{}
	for _, c := range cells(kinds(options{})) {
		if names[c.name] {
			t.Errorf("two cells are named %s", c.name)
		}
		names[c.name] = true
		if c.frame.key > 0 && !bytes.Contains(c.frame.data, []byte("$16\r\n")) {
			t.Errorf("%s: no 16-byte key in %q", c.name, c.frame.data)
		}
		if strings.Contains(c.name, "acquire") != strings.Contains(c.command, "RL.ACQUIRE") {
			t.Errorf("%s sends %s", c.name, c.command)
		}
	}
	for _, name := range []string{"rlserver/acquire/x32", "rlserver/acquire-now/x1", "redis/lua/x32", "redis/incr/x1", "redis-aof/lua/x1"} {
		if !names[name] {
			t.Errorf("no cell %s", name)
		}
	}
}

func TestRepliesAreCountedHoweverTheyAreSplit(t *testing.T) {
	stream := []byte("*5\r\n:1\r\n:0\r\n:19\r\n:100\r\n:20\r\n" + "+PONG\r\n" + ":7\r\n" + "*3\r\n:0\r\n:-1\r\n:0\r\n" +
		"$5\r\na\r\nb\n\r\n" + "$-1\r\n" + "*-1\r\n" + "*0\r\n" + "*2\r\n*2\r\n:0\r\n:0\r\n$1\r\nx\r\n")
	for size := 1; size <= len(stream); size++ {
		var r replies
		var have []byte
		for at := 0; at < len(stream); at += size {
			have = append(have, stream[at:min(at+size, len(stream))]...)
			have = have[r.scan(have):]
		}
		if r.err != nil || len(have) > 0 || r.total != 9 || r.allowed != 1 || r.denied != 1 {
			t.Fatalf("pieces of %d: %+v, %q left", size, r, have)
		}
	}
}

func TestRepliesThatFail(t *testing.T) {
	for stream, want := range map[string]string{
		"+OK\r\n-ERR no such thing\r\n": "the server answered ERR no such thing",
		"HTTP/1.1 400\r\n":              "not RESP",
		"*x\r\n":                        "not RESP",
	} {
		var r replies
		r.scan([]byte(stream))
		if r.err == nil || !strings.Contains(r.err.Error(), want) {
			t.Errorf("%q: error %v, want %q", stream, r.err, want)
		}
	}
}

// fakeServer denies every second call of a connection, and dies when the test ends.
func fakeServer(t *testing.T) (port int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go fakeSession(c)
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

func fakeSession(c net.Conn) {
	defer c.Close()
	acquire := newFrame("RL.ACQUIRE", "user:%key", "10", "20")
	ping := newFrame("PING")
	if _, err := io.ReadFull(c, make([]byte, len(ping.data))); err != nil {
		return
	}
	io.WriteString(c, "+PONG\r\n")
	call := make([]byte, len(acquire.data))
	for n := 0; ; n++ {
		if _, err := io.ReadFull(c, call); err != nil {
			return
		}
		io.WriteString(c, []string{"*5\r\n:1\r\n:0\r\n:1\r\n:0\r\n:20\r\n", "*5\r\n:0\r\n:9\r\n:0\r\n:0\r\n:20\r\n"}[n%2])
	}
}

func TestGeneratorSendsEachCallOnce(t *testing.T) {
	g, err := dial(fakeServer(t), 4)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	out, err := g.run(context.Background(), job{frame: newFrame("RL.ACQUIRE", "user:%key", "10", "20"), depth: 8, pick: inOrder(10, 4*8*3+5)})
	if err != nil {
		t.Fatal(err)
	}
	if out.calls != 101 || out.allowed+out.denied != 101 || out.denied < 48 || out.latency.TotalCount() < 13 || out.elapsed <= 0 {
		t.Errorf("%+v", out)
	}
}

func TestGeneratorEndsByTimeAndByInterrupt(t *testing.T) {
	g, err := dial(fakeServer(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	j := job{frame: newFrame("RL.ACQUIRE", "user:%key", "10", "20"), depth: 2, pick: func() (int, bool) { return 0, true }}
	j.limit = 20 * time.Millisecond
	out, err := g.run(context.Background(), j)
	if err != nil || out.elapsed < j.limit || out.calls == 0 {
		t.Errorf("%+v, %v", out, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	j.limit = 0
	if _, err := g.run(ctx, j); err != context.Canceled {
		t.Errorf("an interrupted run ends with %v", err)
	}
}

func TestInOrder(t *testing.T) {
	pick := inOrder(3, 5)
	for _, want := range []int{0, 1, 2, 0, 1} {
		if key, more := pick(); key != want || !more {
			t.Errorf("got %d, %v, want %d", key, more, want)
		}
	}
	if _, more := pick(); more {
		t.Error("more calls than asked for")
	}
}

func TestPercentilesKeepThreeDigits(t *testing.T) {
	h := newLatency()
	for us := int64(1); us <= 1000; us++ {
		h.RecordValue(us * 1000)
	}
	for q, want := range map[float64]float64{50: 500e3, 99: 990e3, 99.9: 999e3} {
		if got := float64(h.ValueAtPercentile(q)); got < want*0.999 || got > want*1.002 {
			t.Errorf("p%v is %v ns, want about %v", q, got, want)
		}
	}
}

func TestMedianAndPair(t *testing.T) {
	if m := median([]float64{9, 1, 5}); m != 5 {
		t.Errorf("median %v, want 5", m)
	}
	if m := median([]float64{4, 1, 9, 2}); m != 3 {
		t.Errorf("median %v, want 3", m)
	}
	a := &measured{samples: []sample{{perSecond: 10}, {perSecond: 30}}}
	b := &measured{samples: []sample{{perSecond: 5}, {perSecond: 60}}}
	if got := pair(a, b, func(s sample) float64 { return s.perSecond }); got[0] != 2 || got[1] != 0.5 {
		t.Errorf("ratios %v, want 2 and 0.5", got)
	}
}

func TestReadingOfProcesses(t *testing.T) {
	status := []byte("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n")
	if n, err := statusBytes(status, "VmRSS:"); n != 1<<20 || err != nil {
		t.Errorf("VmRSS %d, %v", n, err)
	}
	if _, err := statusBytes(status, "VmSwap:"); err == nil {
		t.Error("a missing line was not noticed")
	}
	self := &server{pid: os.Getpid()}
	before, err := self.cpu()
	if err != nil {
		t.Fatal(err)
	}
	after := before
	for start := time.Now(); err == nil && after-before < time.Millisecond && time.Since(start) < 30*time.Second; { // a busy machine gives us little
		after, err = self.cpu()
	}
	if err != nil || after-before < time.Millisecond {
		t.Errorf("work cost %v of CPU time, %v", after-before, err)
	}
	if _, err := (&server{pid: 1<<22 + 1}).cpu(); err == nil {
		t.Error("a process that does not exist has CPU time")
	}
	if resident, peak, err := self.memory(); err != nil || resident < 1<<20 || peak < resident {
		t.Errorf("resident %d, peak %d, %v", resident, peak, err)
	}
}

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-quick", "-rounds", "4"}, io.Discard)
	if err != nil || o.rounds != 4 || o.keys != 20_000 || o.seconds != 0.25 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range [][]string{{"-rounds", "0"}, {"-seconds", "NaN"}, {"-keys", "x"}, {"-only", "("}, {"stray"}} {
		if _, err := parseOptions(bad, io.Discard); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestOnlyStartsWhatItNeeds(t *testing.T) {
	b := &bench{options: options{only: regexp.MustCompile("redis/incr/x1|memory/rl")}}
	for _, k := range kinds(b.options) {
		if want := k.name != "redis-aof"; b.needs(k) != want {
			t.Errorf("%s needed: %v, want %v", k.name, !want, want)
		}
	}
}

func TestReportHoldsOnlyWhatWasMeasured(t *testing.T) {
	r := results{options: options{only: regexp.MustCompile("none")}}
	if text := r.markdown(); strings.Contains(text, "| ") {
		t.Errorf("a table without measurements:\n%s", text)
	}
	r.kinds = kinds(r.options)
	for _, c := range cells(r.kinds) {
		if c.depth == 1 {
			continue
		}
		cpu := 6 * time.Microsecond
		if c.server == "rlserver" {
			cpu = 900 * time.Nanosecond
		}
		r.cells = append(r.cells, &measured{cell: c, latency: newLatency(), samples: []sample{{perSecond: 1000, cpu: cpu, denied: 0.2}}})
	}
	text := r.markdown()
	if !regexp.MustCompile(`×32 +\| RL\.ACQUIRE key 10 20 +\| Redis, no persistence: EVALSHA +\| +0\.150 .*≤ 0\.167.*≤ 0\.100 +\| met now`).MatchString(text) {
		t.Errorf("no ratio with its target:\n%s", text)
	}
	if strings.Contains(text, "×1 ") || strings.Contains(text, "## Memory") {
		t.Errorf("figures that were not measured:\n%s", text)
	}
}

func TestTargetColumns(t *testing.T) {
	for value, want := range map[float64]string{70: "met", 90: "met now", 101: "missed"} {
		if got := targetBytes.columns("%.0f", value)[2]; got != want {
			t.Errorf("%v bytes: %s, want %s", value, got, want)
		}
	}
}

func TestTableAligns(t *testing.T) {
	var b strings.Builder
	table(&b, [][]string{{"name", "µs"}, {"a", "10.5"}})
	want := "| name |   µs |\n| ---- | ---: |\n| a    | 10.5 |\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestRedisVersion(t *testing.T) {
	if v := redisVersion([]byte("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64")); v != "7.0.15" {
		t.Errorf("got %q", v)
	}
}
