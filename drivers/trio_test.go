package drivers

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

const (
	masterName      = "mymaster"
	downAfter       = 2 * time.Second
	failoverTimeout = 3 * time.Second // twice that is the least time between two failovers
)

// Bounds of waiting. They are reached only when something is wrong, and a Sentinel that finds itself late on a busy machine
// does nothing for 30 s.
const (
	startWithin    = 60 * time.Second
	failoverWithin = 120 * time.Second
	slow           = 8 * time.Second // what takes longer is told
)

const sentinelConf = `port %s
bind 127.0.0.1
dir %s
sentinel monitor mymaster 127.0.0.1 %s 2
sentinel down-after-milliseconds mymaster %d
sentinel failover-timeout mymaster %d
`

// built is the server, made by the first test that asks for it.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	logging.Disable() // go-redis tells of every dial that fails, and many are meant to
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// serverDir is the directory that the server's program is in.
func serverDir(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "rlserver-drivers"); built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(built.dir, "rlserver"), "../cmd/rlserver")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

// A process is one that a test started. It is ended with the test.
type process struct {
	cmd    *exec.Cmd
	addr   string
	mu     sync.Mutex
	said   bytes.Buffer
	exited chan struct{}
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// launch starts a command.
func launch(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, exited: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p
	}
	cmd.Stderr = p
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; `make tools` installs what the tests need", err)
	}
	t.Cleanup(p.kill)
	return p
}

// reap waits for the end, once nobody reads its output any more.
func (p *process) reap() {
	p.cmd.Wait()
	close(p.exited)
}

// kill ends the process as a crash does.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.exited
}

// A trio is three servers, the first of which leads, watched by three stock Sentinels.
type trio struct {
	t         *testing.T
	password  string // of the servers; empty: none
	nodes     []*process
	sentinels []string
	drivers   []*driver
}

var readyLine = regexp.MustCompile(`(?m)^rlserver .* is ready on (\S+?),?( .*)?$`)

func (tr *trio) server(args ...string) *process {
	t := tr.t
	t.Helper()
	args = append([]string{"--port", "0", "--http-addr", "", "--dir", t.TempDir()}, args...)
	p := launch(t, exec.Command(filepath.Join(serverDir(t), "rlserver"), args...))
	go p.reap()
	tr.nodes = append(tr.nodes, p)
	tr.within(startWithin, "a server is ready", func() bool {
		m := readyLine.FindStringSubmatch(p.output())
		if m != nil {
			p.addr = m[1]
		}
		return m != nil
	})
	return p
}

func startTrio(t *testing.T, password string, args ...string) *trio {
	t.Helper()
	tr := &trio{t: t, password: password}
	args = append(args, "--requirepass", password, "--masterauth", password)
	first := tr.server(args...)
	_, port, err := net.SplitHostPort(first.addr)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		tr.server(append(args, "--replicaof", "127.0.0.1 "+port)...)
	}
	tr.within(startWithin, "the replicas follow", func() bool {
		return strings.Count(tr.ask(first.addr, "INFO", "replication"), "state=online") == 2
	})
	for range 3 {
		tr.sentinel(port)
	}
	tr.met(first.addr)
	return tr
}

// met waits until Sentinels, replicas and the primary know one another.
func (tr *trio) met(primary string) {
	tr.t.Helper()
	for _, s := range tr.sentinels {
		tr.within(startWithin, "the Sentinels know all", func() bool {
			about := tr.ask(s, "SENTINEL", "MASTER", masterName)
			return strings.Contains(about, "num-other-sentinels:2") && strings.Contains(about, "num-slaves:2")
		})
	}
	tr.within(startWithin, "the primary knows the Sentinels", func() bool {
		about := tr.ask(primary, "INFO", "replication")
		return strings.Contains(about, "rl_sentinels:3") && strings.Count(about, "state=online") == 2
	})
}

func (tr *trio) sentinel(primaryPort string) {
	dir, port := tr.t.TempDir(), freePort(tr.t)
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf(sentinelConf, port, dir, primaryPort, downAfter.Milliseconds(), failoverTimeout.Milliseconds())
	if tr.password != "" {
		text += "sentinel auth-pass mymaster " + tr.password + "\n"
	}
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		tr.t.Fatal(err)
	}
	go launch(tr.t, exec.Command("redis-sentinel", conf)).reap()
	tr.sentinels = append(tr.sentinels, "127.0.0.1:"+port)
}

// within polls a condition and returns how long it took to come true.
func (tr *trio) within(most time.Duration, what string, ok func() bool) time.Duration {
	tr.t.Helper()
	began := time.Now()
	for ; !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > most || tr.t.Failed() {
			for _, n := range tr.nodes {
				tr.t.Log(n.addr, n.output())
			}
			for _, d := range tr.drivers {
				calls := d.all()
				tr.t.Logf("%s: %+v", d.name, calls[max(0, len(calls)-3):])
			}
			tr.t.Fatalf("after %v, of at most %v, it had not come to be that %s", time.Since(began), most, what)
		}
	}
	took := time.Since(began)
	if took > slow {
		tr.t.Logf("it took %.1f s that %s", took.Seconds(), what)
	}
	return took
}

// ask sends one command on a connection of its own. The answer is as text, with a colon between the two of a pair; empty if
// there is none.
func (tr *trio) ask(addr string, words ...any) string {
	password := tr.password
	if slices.Contains(tr.sentinels, addr) {
		password = ""
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr, Password: password, Protocol: 2, MaxRetries: -1, PoolSize: 1, DialTimeout: time.Second, ReadTimeout: time.Second, DialerRetries: 1})
	defer rdb.Close()
	v, err := rdb.Do(context.Background(), words...).Result()
	if err != nil {
		return ""
	}
	items, ok := v.([]any)
	if !ok {
		return fmt.Sprint(v)
	}
	var b strings.Builder
	for i, item := range items {
		b.WriteString(fmt.Sprint(item) + [...]string{":", "\n"}[i%2])
	}
	return b.String()
}

// leader is the node that the first Sentinel names.
func (tr *trio) leader() *process {
	named := strings.TrimSpace(tr.ask(tr.sentinels[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName))
	for _, n := range tr.nodes {
		if n.addr == named {
			return n
		}
	}
	return nil
}

// freePort is a port that nobody listened on a moment ago, from below those that the system gives to clients.
func freePort(t *testing.T) string {
	t.Helper()
	const lowest, count, tries = 10_000, 20_000, 100
	var err error
	for range tries {
		port := strconv.Itoa(lowest + rand.IntN(count))
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal(err)
	return ""
}
