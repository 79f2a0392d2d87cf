package resp

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Nothing but lock.go and exec.go takes the keyspace's locks: a handler that did
// would wait for itself inside EXEC.
func TestHandlersLockThroughTheSession(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "lock.go" || file == "exec.go" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []string{"store.Lock", "store.Clear(", "tx.Unlock("} {
			if strings.Contains(string(text), call) {
				t.Errorf("%s has %s: handlers use s.lock, s.lockAll and s.unlock, that know of EXEC", file, call)
			}
		}
	}
}

// all sends lines and returns what they are answered together.
func (c *talker) all(lines ...string) string {
	var out strings.Builder
	for _, line := range lines {
		out.WriteString(c.raw(line))
	}
	return out.String()
}

func TestExecReplies(t *testing.T) {
	srv := trustedServer()
	c := newTalker(t, srv)
	const decision = "*5\r\n:1\r\n:0\r\n:%d\r\n:%d\r\n:5\r\n"
	first, second := fmt.Sprintf(decision, 4, 3600000), fmt.Sprintf(decision, 3, 7200000)
	for _, tc := range []struct {
		lines []string
		want  string // EXEC's reply
	}{
		{[]string{}, "*0\r\n"},
		{[]string{"PING"}, "*1\r\n+PONG\r\n"},
		{[]string{"RL.ACQUIRE a 1/1h 5 1000", "RL.ACQUIRE a 1/1h 5 1000"}, "*2\r\n" + first + second},
		{[]string{"PING", "RL.ACQUIRE b 1/1h 5 1000", "ECHO x", "ECHO y", "RL.ACQUIRE b 1/1h 5 1000"}, "*5\r\n+PONG\r\n" + first + "$1\r\nx\r\n$1\r\ny\r\n" + second},
		{[]string{"RL.ACQUIRE c 1/1h 5 1000", "PING", "RL.ACQUIRE c 1/1h 5 1000", "PING"}, "*4\r\n" + first + "+PONG\r\n" + second + "+PONG\r\n"},
		{[]string{"EXISTS a b c", "FLUSHALL", "DBSIZE", "RL.ACQUIRE a 1/1h 5 1000", "DBSIZE"}, "*5\r\n:3\r\n+OK\r\n:0\r\n" + first + ":1\r\n"},
		// What the connection is does not change before the keys are answered.
		{[]string{"HELLO 3", "TYPE a", "HELLO 2", "CLIENT GETNAME"}, ""},
	} {
		if got := c.all(append([]string{"MULTI"}, tc.lines...)...); got != "+OK\r\n"+strings.Repeat("+QUEUED\r\n", len(tc.lines)) {
			t.Errorf("%q: queued with %q", tc.lines, got)
		}
		if got := c.raw("EXEC"); got != tc.want && tc.want != "" {
			t.Errorf("%q:\ngot  %q\nwant %q", tc.lines, got, tc.want)
		} else if tc.want == "" && !strings.HasSuffix(got, "$-1\r\n") {
			t.Errorf("%q: %q", tc.lines, got)
		}
	}
}

// A whole transaction in one write is answered in one.
func TestExecPipelined(t *testing.T) {
	c := newTalker(t, trustedServer())
	in := strings.Join([]string{string(frame("MULTI")), string(frame("PING")), "PING\r\n", string(frame("EXEC")), string(frame("PING"))}, "")
	taken := c.s.Feed([]byte(in))
	if got := string(c.s.Output()); taken != len(in) || got != "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+PONG\r\n+PONG\r\n+PONG\r\n" {
		t.Errorf("%d taken, %q", taken, got)
	}
	// The input is the connection's to overwrite: what was queued is a copy.
	c.s.Written()
	in = string(frame("MULTI")) + string(frame("ECHO", "mine"))
	buf := []byte(in)
	c.s.Feed(buf)
	clear(buf)
	c.s.Written()
	if got := c.raw("EXEC"); got != "*1\r\n$4\r\nmine\r\n" {
		t.Errorf("%q", got)
	}
}

// rounds is durability that tells what was asked of it.
type rounds struct {
	noDisk
	n uint64
}

func (r *rounds) Save() uint64 { r.n++; return r.n }

// The reply of a transaction waits at the gate for what one of its commands
// waits for.
func TestExecWaitsAtTheGate(t *testing.T) {
	srv := trustedServer()
	disk := &rounds{}
	srv.durability = disk
	c := newTalker(t, srv)
	for i, call := range []string{"RL.LIMIT SET n 1:2", "SAVE", "RL.LIMIT DEL n"} {
		for _, line := range []string{"MULTI", "RL.ACQUIRE a 1/1h 5", call, "PING"} {
			c.s.Feed(frame(strings.Fields(line)...))
		}
		if c.s.round != 0 {
			t.Errorf("%s: waits for round %d before EXEC", call, c.s.round)
		}
		c.s.Feed(frame("EXEC"))
		if want := uint64(i + 1); c.s.round != want {
			t.Errorf("%s: EXEC waits for round %d, want %d", call, c.s.round, want)
		}
		c.s.Written()
	}
}

func TestMultiBounds(t *testing.T) {
	srv := trustedServer()
	c := newTalker(t, srv)
	c.raw("MULTI")
	for range maxQueued {
		if got := c.raw("PING"); got != "+QUEUED\r\n" {
			t.Fatal(got)
		}
	}
	if got := c.raw("PING"); !strings.HasPrefix(got, "-ERR the transaction has 4096 commands") {
		t.Errorf("%q", got)
	}
	if c.s.multi.queue != nil || c.s.keeps() != 0 {
		t.Error("a spoiled transaction keeps its queue")
	}
	if got := c.all("PING", "EXEC"); got != "+QUEUED\r\n-EXECABORT Transaction discarded because of previous errors.\r\n" {
		t.Errorf("%q", got)
	}
	c.raw("MULTI")
	for range maxQueued {
		c.raw("PING")
	}
	if got := c.raw("EXEC"); strings.Count(got, "+PONG") != maxQueued {
		t.Errorf("%d of %d commands ran", strings.Count(got, "+PONG"), maxQueued)
	}

	c.raw("MULTI")
	many := "DEL " + strings.Repeat("k ", maxQueuedWords/4-1)
	if got := c.all(many, many, many, many); got != strings.Repeat("+QUEUED\r\n", 4) {
		t.Errorf("%q", got)
	}
	if got := c.raw("PING"); !strings.HasPrefix(got, "-ERR the transaction has more than 16384 words") {
		t.Errorf("%q", got)
	}
	if got := c.raw("EXEC"); got != "-EXECABORT Transaction discarded because of previous errors.\r\n" {
		t.Errorf("%q", got)
	}

	c.raw("MULTI")
	big := strings.Repeat("x", 100<<10)
	fits := maxQueuedBytes / (100<<10 + 100)
	for range fits {
		if got := c.raw("ECHO " + big); got != "+QUEUED\r\n" {
			t.Fatalf("%.60q", got)
		}
	}
	if n := c.s.keeps(); n < int64(fits)*100<<10 || n > maxQueuedBytes {
		t.Errorf("a transaction of %d bytes counts as %d", fits*100<<10, n)
	}
	if got := c.raw("ECHO " + big); !strings.HasPrefix(got, "-ERR the transaction takes more than 1048576 bytes") {
		t.Errorf("%.80q", got)
	}
	if got := c.raw("DISCARD"); got != "+OK\r\n" || c.s.multi != nil || c.s.keeps() != 0 {
		t.Errorf("%q", got)
	}
}

func TestWatchBounds(t *testing.T) {
	srv := trustedServer()
	c := newTalker(t, srv)
	var keys []string
	for i := range maxWatched {
		keys = append(keys, fmt.Sprint(i))
	}
	line := "WATCH " + strings.Join(keys, " ")
	if got := c.all(line, line); got != "+OK\r\n+OK\r\n" {
		t.Errorf("%q", got)
	}
	if got := c.raw("WATCH more"); !strings.HasPrefix(got, "-ERR 1025 keys to watch: expected at most 1024") {
		t.Errorf("%q", got)
	}
	if n := c.s.keeps(); n < maxWatched*keptPerWatch || n > maxWatched*(keptPerWatch+10) {
		t.Errorf("%d watches count as %d bytes", maxWatched, n)
	}
	if got := c.all("MULTI", "PING", "EXEC"); !strings.HasSuffix(got, "*1\r\n+PONG\r\n") {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("k", maxWatchedBytes/4)
	if got := c.raw(fmt.Sprintf("WATCH 1%s 2%s 3%s 4%s", long, long, long, long)); !strings.HasPrefix(got, "-ERR the keys to watch have 65540 bytes") {
		t.Errorf("%.80q", got)
	}
	if got := c.raw(fmt.Sprintf("WATCH 1%s 2%s 3%s", long, long, long)); got != "+OK\r\n" {
		t.Errorf("%.80q", got)
	}
	c.s.end()
	if len(c.s.watches) != 0 || c.s.keeps() != 0 {
		t.Error("watches outlive their client")
	}
}

// A transaction of commands on keys that tell much does not fill the memory.
func TestExecReplyBound(t *testing.T) {
	const keys, size, asks = 2000, 1000, 10
	c := newTalker(t, trustedServer())
	for i := range keys {
		c.ints(fmt.Sprintf("RL.ACQUIRE %0*d 1/1h 5", size, i))
	}
	c.raw("MULTI")
	for range asks {
		c.raw("KEYS *")
	}
	c.raw("RL.ACQUIRE a 1/1h 5")
	got := c.raw("EXEC")
	if len(got) > maxExecReply+2*keys*size || !strings.Contains(got, "-ERR not run: the transaction's reply has more than 16777216 bytes already\r\n") {
		t.Errorf("%d bytes", len(got))
	}
	if !strings.HasPrefix(got, fmt.Sprintf("*%d\r\n*%d\r\n", asks+1, keys)) || !strings.HasSuffix(got, ":5\r\n") || c.raw("EXISTS a") != ":1\r\n" {
		t.Error("the command that writes was not run")
	}
}

// What goes through keys and names under the locks of a transaction has a bound
// for all of it together; what it told by then stands.
func TestExecLooks(t *testing.T) {
	srv := trustedServer()
	c := newTalker(t, srv)
	for i := range maxExecLooks / 2 {
		c.ints(fmt.Sprintf("RL.ACQUIRE key:%d 1/1h 5", i))
	}
	for i := range 100 {
		c.raw(fmt.Sprintf("RL.LIMIT SET limit:%d 1:2", i))
	}
	tooMuch := "-" + errExecLooks + "\r\n"
	for _, tc := range []struct{ calls, want string }{
		{"KEYS nobody", "*1\r\n*0\r\n"},
		{"KEYS nobody|KEYS nobody", "*2\r\n*0\r\n" + tooMuch},
		{"KEYS nobody|KEYS nobody|SCAN 0|RANDOMKEY|RL.LIMIT LIST|DBSIZE", "*6\r\n*0\r\n" + strings.Repeat(tooMuch, 4) + fmt.Sprintf(":%d\r\n", maxExecLooks/2)},
		{"SCAN 0 COUNT 1000000000 TYPE nosuch|SCAN 0 COUNT 1000000000 TYPE nosuch", "*2\r\n*2\r\n$1\r\n0\r\n*0\r\n" + tooMuch},
		{strings.Repeat("RL.LIMIT LIST MATCH nosuch|", 300) + "PING", "*301\r\n" + strings.Repeat("*0\r\n", 300) + "+PONG\r\n"},
		{strings.Repeat("RL.LIMIT LIST MATCH nosuch|", 328) + "PING", "*329\r\n" + strings.Repeat("*0\r\n", 327) + tooMuch + "+PONG\r\n"},
	} {
		c.raw("MULTI")
		for _, call := range strings.Split(tc.calls, "|") {
			c.raw(call)
		}
		if got := c.raw("EXEC"); got != tc.want {
			t.Errorf("%.100s: got %.300q, want %.300q", tc.calls, got, tc.want)
		}
	}
	c.raw("FLUSHALL")
	for i := range 10 {
		c.ints(fmt.Sprintf("RL.ACQUIRE %s%d 1/1h 5", strings.Repeat("a", 1000), i))
	}
	if got := c.all("MULTI", "KEYS *"+strings.Repeat("a", 500)+"b", "EXEC"); got != "+OK\r\n+QUEUED\r\n*1\r\n"+tooMuch {
		t.Errorf("a pattern that takes long: %q", got)
	}
}

// States that are large are not worked on without end under the locks of a
// transaction. The next one begins anew.
func TestExecState(t *testing.T) {
	c := newTalker(t, trustedServer())
	const records = 4096
	for i := range records {
		c.ints(fmt.Sprintf("RL.ACQUIRE log log:%d/30d %d", records, i*400_000))
	}
	c.raw("MULTI")
	for range records - 1 {
		c.raw("RL.PEEK log")
	}
	c.raw("RL.ACQUIRE other 1/1h 5")
	got := c.raw("EXEC")
	const refusal = "-ERR not run: the transaction has worked on more than 16777216 bytes of states already\r\n"
	ran := strings.Count(got, "*5\r\n")
	if each := maxExecState / max(ran, 1); each < records || each > 8*records || !strings.HasSuffix(got, refusal) {
		t.Errorf("%d of %d commands ran", ran, records)
	}
	for range 2 * ran {
		if got := c.all("MULTI", "RL.PEEK log", "EXEC"); strings.Contains(got, "-ERR") {
			t.Fatalf("%q", got)
		}
	}
}

// A command of a transaction counts once, when it is run, as in Redis.
func TestQueuedCountsOnce(t *testing.T) {
	srv := trustedServer()
	c := newTalker(t, srv)
	count := func(lines ...string) uint64 {
		before := srv.Stats().Commands
		c.all(lines...)
		return srv.Stats().Commands - before
	}
	if n := count("MULTI", "PING", "PING", "EXISTS a", "EXEC"); n != 5 {
		t.Errorf("%d commands are counted, want 5", n)
	}
	if n := count("PING", "MULTI", "PING", "PING", "DISCARD", "PING"); n != 4 {
		t.Errorf("%d commands are counted, want 4", n)
	}
	c.s.Feed(bytes.Repeat(frame("PING"), 3))
	c.s.Feed(append(frame("MULTI"), bytes.Repeat(frame("PING"), 3)...))
	before := srv.Stats().Commands
	c.s.Feed(bytes.Repeat(frame("PING"), 3))
	if n := srv.Stats().Commands - before; n != 0 {
		t.Errorf("%d commands are counted that are only queued", n)
	}
	var sum uint64
	for _, n := range srv.Stats().Duration.Counts {
		sum += n
	}
	if n := srv.Stats().Commands; sum != n {
		t.Errorf("%d durations of %d commands", sum, n)
	}
}

// Others see that a client has a transaction and watches, and what it did last.
func TestClientListTellsOfMulti(t *testing.T) {
	srv := trustedServer()
	c := newTalker(t, srv)
	for _, step := range []struct{ line, want string }{
		{"PING", "flags=N db=0 multi=-1 watch=0 tot-mem=0 cmd=ping"},
		{"WATCH a b", "flags=N db=0 multi=-1 watch=2 tot-mem=0 cmd=watch"},
		{"MULTI", "flags=x db=0 multi=0 watch=2 tot-mem=0 cmd=multi"},
		{"ECHO x", "flags=x db=0 multi=1 watch=2 tot-mem=0 cmd=echo"},
		{"TYPE a", "flags=x db=0 multi=2 watch=2 tot-mem=0 cmd=type"},
		{"EXEC", "flags=N db=0 multi=-1 watch=0 tot-mem=0 cmd=exec"},
		{"MULTI", "flags=x db=0 multi=0 watch=0 tot-mem=0 cmd=multi"},
		{"RESET", "flags=N db=0 multi=-1 watch=0 tot-mem=0 cmd=reset"},
	} {
		c.raw(step.line)
		if got := c.s.seen(c.s.now); !strings.Contains(got, " "+step.want+" ") {
			t.Errorf("after %s: %s, want %s", step.line, got, step.want)
		}
	}
}

// KEYS, SCAN and RANDOMKEY in a transaction see what it did before them.
func TestToursInsideMulti(t *testing.T) {
	c := newTalker(t, trustedServer())
	c.ints("RL.ACQUIRE a 1/1h 5")
	c.all("MULTI", "KEYS *", "DEL a", "KEYS *", "RL.ACQUIRE b 1/1h 5", "RANDOMKEY", "SCAN 0 TYPE hash", "FLUSHALL", "RANDOMKEY", "SCAN 0")
	got := c.raw("EXEC")
	want := "*9\r\n*1\r\n$1\r\na\r\n:1\r\n*0\r\n*5\r\n:1\r\n:0\r\n:4\r\n:3600000\r\n:5\r\n$1\r\nb\r\n*2\r\n$1\r\n0\r\n*1\r\n$1\r\nb\r\n+OK\r\n$-1\r\n*2\r\n$1\r\n0\r\n*0\r\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What EXEC runs that is not about keys works in turns, a command that does so
// itself too, and its reply goes out in parts; the order stands.
func TestExecInTurns(t *testing.T) {
	srv := trustedServer()
	c, other := newTalker(t, srv), newTalker(t, srv)
	docs := "COMMAND DOCS" + strings.Repeat(" client", 300)
	oneDocs, oneInfo := c.raw(docs), c.raw("COMMAND COUNT")
	calls, want := []string{"RL.ACQUIRE a 1/1h 5"}, "*5\r\n:1\r\n:0\r\n:4\r\n:3600000\r\n:5\r\n"
	for range 300 {
		calls = append(calls, "COMMAND COUNT", "EXISTS a")
		want += oneInfo + ":1\r\n"
	}
	calls = append(calls, docs, "EXISTS a a", docs, "PING")
	want += oneDocs + ":2\r\n" + oneDocs + "+PONG\r\n"
	want = fmt.Sprintf("*%d\r\n", len(calls)) + want
	c.raw("MULTI")
	c.all(calls...)

	in := append(frame("EXEC"), frame("ECHO", "after")...)
	want += "$5\r\nafter\r\n"
	var got strings.Builder
	turns := 0
	for taken := 0; taken < len(in) || c.s.full; turns++ {
		taken += c.s.Feed(in[taken:])
		if n := len(c.s.Output()); n > flushAt+len(oneDocs)/300+100 {
			t.Fatalf("%d bytes go out at once", n)
		}
		got.Write(c.s.Output())
		c.s.Written()
		if held := c.s.keeps(); held > 0 != (c.s.turn != nil) {
			t.Errorf("%d bytes are counted", held)
		}
		if got := other.raw("PING"); got != "+PONG\r\n" {
			t.Fatalf("another client gets %q", got)
		}
	}
	if got.String() != want {
		t.Errorf("%d bytes, want %d: %.200q", got.Len(), len(want), got.String())
	}
	if least := len(want) / (flushAt + len(oneDocs)); turns < least {
		t.Errorf("done in %d turns, want at least %d", turns, least)
	}
}

// Passwords guessed in a transaction are answered as late as elsewhere.
func TestExecDelaysWrongPasswords(t *testing.T) {
	srv := trustedServer()
	c := newTalker(t, srv)
	c.raw("ACL SETUSER app on >secret")
	c.all("MULTI", "AUTH app a", "AUTH app b", "AUTH app secret")
	in := frame("EXEC")
	var waited time.Duration
	for taken := 0; taken < len(in) || c.s.full; {
		taken += c.s.Feed(in[taken:])
		waited += c.s.delay
		c.s.Written()
	}
	if want := lateBy(0, wrongPassDelay, maxWrongPassDelay) + lateBy(1, wrongPassDelay, maxWrongPassDelay); waited != want {
		t.Errorf("two wrong passwords are answered after %v, want %v", waited, want)
	}
}

// CLIENT PAUSE WRITE holds up what would change a key: commands to be queued, and
// an EXEC of such commands, but not one that only reads.
func TestPauseHoldsExec(t *testing.T) {
	srv := trustedServer()
	admin, writes, reads := newTalker(t, srv), newTalker(t, srv), newTalker(t, srv)
	writes.all("MULTI", "RL.ACQUIRE a 1/1h 5")
	reads.all("MULTI", "RL.PEEK a 1/1h 5", "PING")
	admin.raw("CLIENT PAUSE 1000000 WRITE")
	if got := reads.raw("EXEC"); !strings.HasPrefix(got, "*2\r\n*5\r\n:1\r\n") {
		t.Errorf("%q", got)
	}
	if writes.s.Feed(frame("EXEC")) != 0 || !writes.s.paused {
		t.Error("an EXEC that writes is not held up")
	}
	admin.raw("CLIENT UNPAUSE")
	if got := writes.raw("EXEC"); !strings.HasPrefix(got, "*1\r\n*5\r\n:1\r\n") {
		t.Errorf("%q", got)
	}
}

// What a transaction and watches keep counts as the client's memory.
func TestMultiCountsAsMemory(t *testing.T) {
	srv := trustedServer()
	c := newTalker(t, srv)
	l := life{srv: srv, s: c.s}
	c.all("WATCH a b", "MULTI", "ECHO "+strings.Repeat("x", 10_000))
	l.holds(100)
	if n := srv.budget.used.Load(); n < 10_100 || n > 11_000 || c.s.held.Load() != n {
		t.Errorf("%d bytes are counted", n)
	}
	c.s.end()
	l.holds(0)
	if n := srv.budget.used.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// A right that is withdrawn between MULTI and EXEC is withdrawn.
func TestExecAsksForRightsAgain(t *testing.T) {
	srv := trustedServer()
	admin, c := newTalker(t, srv), newTalker(t, srv)
	admin.all("ACL SETUSER app on nopass ~* +@all")
	c.all("AUTH app x", "MULTI", "RL.ACQUIRE a 1/1h 5", "PING")
	admin.all("ACL SETUSER app -rl.acquire")
	got := c.raw("EXEC")
	if want := "*2\r\n-NOPERM this user has no permissions to run the 'rl.acquire' command\r\n+PONG\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := srv.store.Len(); n != 0 {
		t.Errorf("%d keys", n)
	}
}

// A fault in a command of a transaction lets go of the keys.
func TestExecFaultUnlocks(t *testing.T) {
	srv := trustedServer()
	srv.table.byName["rl.peek"].run = func(*Session, [][]byte) { panic("a fault") }
	c, other := newTalker(t, srv), newTalker(t, srv)
	c.all("WATCH k", "MULTI", "RL.ACQUIRE k 1/1h 5", "RL.PEEK k", "DBSIZE")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no fault")
			}
		}()
		c.raw("EXEC")
	}()
	c.s.abort()
	c.s.end()
	done := make(chan string)
	go func() { done <- other.all("FLUSHALL", "MULTI", "DBSIZE", "EXEC") }()
	select {
	case got := <-done:
		if got != "+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n:0\r\n" {
			t.Errorf("%q", got)
		}
	case <-time.After(patience):
		t.Fatal("the keys are still locked")
	}
}

// BenchmarkExec is the longest that a transaction can hold the keys: as many
// commands as are queued, of the kinds that do most.
func BenchmarkExec(b *testing.B) {
	for _, bm := range []struct {
		name, line string
		n          int
	}{
		{"two keys", "RL.ACQUIRE a 1/1h 1000000000", 2},
		{"buckets", "RL.ACQUIRE a 1/1h 1000000000", maxQueued},
		{"full logs", "RL.ACQUIRE log log:4096/1h COST 0", maxQueuedWords / 5},
		{"deletions", "DEL " + strings.Repeat("k ", 4000), maxQueuedWords / 4001},
	} {
		b.Run(bm.name, func(b *testing.B) {
			c := newTalker(b, newTestServer(wallClock{time.Now()}))
			for i := range 4096 {
				c.raw(fmt.Sprintf("RL.ACQUIRE log log:4096/1h %d", 1767225600000+i))
			}
			in := frame(strings.Fields(bm.line)...)
			for b.Loop() {
				b.StopTimer()
				c.raw("MULTI")
				for range bm.n {
					c.s.Feed(in)
					c.s.Written()
				}
				b.StartTimer()
				c.s.Feed(frame("EXEC"))
				b.StopTimer()
				c.s.Written()
				b.StartTimer()
			}
		})
	}
}
