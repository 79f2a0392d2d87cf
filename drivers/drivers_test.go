// Package drivers holds no code, only a test: drivers of three languages, as they are installed from where their users get
// them, follow a failover by stock Sentinels and admit no more than the law allows.
//
// `make tools` installs them into .tools. load.py and load.js do in their language what askGo does.
package drivers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// How each driver asks.
const (
	workers     = 4
	pause       = 15 * time.Millisecond // of a worker after a call
	callTimeout = 500 * time.Millisecond
)

// A load is what a driver is told to do, as JSON for those in another language. They print a line a call: when it was sent and
// when answered, in µs since the epoch, the key, and the first integer of the decision or what the driver says went wrong.
type load struct {
	Name      string   `json:"name"`
	Password  string   `json:"password"`
	Sentinels [][2]any `json:"sentinels"` // host, port
	Keys      [][3]any `json:"keys"`      // key, rate, burst
	Workers   int      `json:"workers"`
	PauseMs   int64    `json:"pause_ms"`
	TimeoutMs int64    `json:"timeout_ms"` // of a call
}

// A call is one that returned. It was decided if there is no error.
type call struct {
	sent, got time.Time
	key       string
	allowed   bool
	err       string
}

// A driver is one under load.
type driver struct {
	name  string
	mu    sync.Mutex
	calls []call
	end   func() // ends the load and waits for its last call
}

func (d *driver) add(c call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, c)
}

// all are the calls so far.
func (d *driver) all() []call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// decided are those of the calls that were.
func decided(calls []call) []call {
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.err != "" })
}

// since counts the decisions on calls sent after a time.
func (d *driver) since(after time.Time) (n int) {
	for _, c := range decided(d.all()) {
		if c.sent.After(after) {
			n++
		}
	}
	return n
}

func newLoad(tr *trio) load {
	l := load{Name: masterName, Password: tr.password, Workers: workers, PauseMs: pause.Milliseconds(), TimeoutMs: callTimeout.Milliseconds()}
	for _, s := range tr.sentinels {
		host, port, _ := net.SplitHostPort(s)
		n, _ := strconv.Atoi(port)
		l.Sentinels = append(l.Sentinels, [2]any{host, n})
	}
	for _, k := range limits() {
		l.Keys = append(l.Keys, [3]any{k.key, k.rate, k.burst})
	}
	return l
}

// askGo is go-redis under load, in this process.
func askGo(tr *trio) *driver {
	l := newLoad(tr)
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: l.Name, SentinelAddrs: tr.sentinels, Password: l.Password,
		MaxRetries:  -1,   // a retry might debit twice
		PoolSize:    1000, // as many failed dials, and it dials once a second only
		DialTimeout: callTimeout, ReadTimeout: callTimeout, WriteTimeout: callTimeout,
	})
	d := &driver{name: "go-redis"}
	ctx, cancel := context.WithCancel(tr.t.Context())
	var all sync.WaitGroup
	for w := range l.Workers {
		all.Go(func() {
			for i := w; ctx.Err() == nil; i++ {
				k := l.Keys[(i*7+w)%len(l.Keys)]
				sent := time.Now()
				c := call{sent: sent, key: k[0].(string)}
				v, err := rdb.Do(context.Background(), "RL.ACQUIRE", k[0], k[1], k[2], sent.UnixMilli()).Int64Slice()
				if c.got = time.Now(); err != nil {
					c.err = err.Error()
				} else {
					c.allowed = v[0] == 1
				}
				d.add(c)
				time.Sleep(pause)
			}
		})
	}
	d.end = sync.OnceFunc(func() {
		cancel()
		all.Wait()
		rdb.Close()
	})
	tr.t.Cleanup(d.end)
	return d
}

// ask is a driver of another language under load.
func ask(tr *trio, name, program, script string, env ...string) *driver {
	t := tr.t
	t.Helper()
	if _, err := os.Stat(".tools"); err != nil {
		t.Fatalf("%s is not installed; `make tools` installs what the tests need", name)
	}
	text, err := json.Marshal(newLoad(tr))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, script, string(text))
	cmd.Env = append(os.Environ(), env...)
	in, err1 := cmd.StdinPipe()
	out, w, err2 := os.Pipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	cmd.Stdout = w
	p := launch(t, cmd)
	w.Close()
	d := &driver{name: name}
	go func() {
		defer p.reap()
		defer out.Close()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c, err := parseCall(lines.Text())
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			d.add(c)
		}
	}()
	d.end = func() {
		in.Close()
		select {
		case <-p.exited:
		case <-time.After(startWithin):
			t.Errorf("%s does not end", name)
		}
		if text := p.output(); text != "" {
			t.Errorf("%s: %s", name, text)
		}
	}
	return d
}

func parseCall(line string) (c call, err error) {
	w := strings.SplitN(line, " ", 4)
	if len(w) < 4 {
		return c, fmt.Errorf("not a call: %q", line)
	}
	sent, err1 := strconv.ParseInt(w[0], 10, 64)
	got, err2 := strconv.ParseInt(w[1], 10, 64)
	if err1 != nil || err2 != nil {
		return c, fmt.Errorf("not a call: %q", line)
	}
	c = call{sent: time.UnixMicro(sent), got: time.UnixMicro(got), key: w[2]}
	switch w[3] {
	case "1":
		c.allowed = true
	case "0":
	default:
		c.err = w[3]
	}
	return c, nil
}

// TestFailover: three drivers ask without a pause while an operator has Sentinel fail over, and while the primary is killed.
func TestFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("starts twelve servers for half a minute")
	}
	for _, mode := range []struct {
		acks     string
		password string
		lag      time.Duration // age of what a replica may lack, at most: what is granted in it may be granted once more
	}{{"0", "", time.Second}, {"all", "a-long-password", 0}} {
		t.Run("repl-ack "+mode.acks, func(t *testing.T) {
			tr := startTrio(t, mode.password, "--repl-ack", mode.acks, "--repl-ack-on-timeout", "refuse")
			tr.drivers = []*driver{
				askGo(tr),
				ask(tr, "redis-py", ".tools/python/bin/python", "load.py"),
				ask(tr, "ioredis", "node", "load.js", "NODE_PATH=.tools/node/node_modules"),
			}
			settled := func(what string, after time.Time) {
				for _, d := range tr.drivers {
					tr.within(startWithin, d.name+" goes on "+what, func() bool { return d.since(after) > 100 })
				}
			}
			settled("at first", time.Time{})

			planned := time.Now()
			tr.failOver("planned", func(*process) {
				tr.within(startWithin, "a Sentinel takes the order", func() bool { return tr.ask(tr.sentinels[0], "SENTINEL", "FAILOVER", masterName) == "OK" })
			})
			settled("after the planned failover", time.Now())
			tr.within(failoverWithin, "the old primary follows", func() bool {
				return strings.Count(tr.ask(tr.leader().addr, "INFO", "replication"), "state=online") == 2
			})
			time.Sleep(time.Until(planned.Add(2*failoverTimeout + time.Second))) // before that Sentinel begins no other

			killed := time.Now()
			tr.gaps("planned", planned, killed)
			lost := tr.failOver("kill -9", (*process).kill)
			settled("after the crash", time.Now())
			time.Sleep(afterwards)
			settled("in the end", time.Now())
			tr.gaps("kill -9", killed, time.Now())
			for _, d := range tr.drivers {
				d.end()
			}
			checkLaw(t, tr.drivers, lost, mode.lag)
		})
	}
}

// afterwards is how long the drivers are still looked at after the crash: what comes of it may come late.
const afterwards = 4 * time.Second

// failOver does something to the primary and waits until a Sentinel names another one and every driver is answered again. It
// returns when that was done.
func (tr *trio) failOver(what string, do func(old *process)) time.Time {
	t := tr.t
	t.Helper()
	old := tr.leader()
	if old == nil {
		t.Fatal("the Sentinel names none of the nodes")
	}
	began := time.Now()
	do(old)
	done := time.Now()
	named := tr.within(failoverWithin, what+": another one leads", func() bool { n := tr.leader(); return n != nil && n != old })
	t.Logf("%s: Sentinel names another primary after %.2f s", what, (done.Sub(began) + named).Seconds())
	switched := time.Now()
	for _, d := range tr.drivers {
		tr.within(failoverWithin, what+": "+d.name+" is answered", func() bool { return d.since(switched) > 0 })
	}
	return done
}

// gaps logs how long each driver had no answer in a span of time.
func (tr *trio) gaps(what string, from, to time.Time) {
	tr.t.Helper()
	for _, d := range tr.drivers {
		calls, errors := d.all(), map[string]int{}
		for _, c := range calls {
			if c.err != "" && c.got.After(from) && c.got.Before(to) {
				errors[c.err[:min(len(c.err), 90)]]++
			}
		}
		tr.t.Logf("%s: %s had no answer for %.2f s, and errors: %v", what, d.name, gap(decided(calls), from, to).Seconds(), errors)
	}
}

// checkLaw holds the grants of all drivers together against each key's bucket.
func checkLaw(t *testing.T, drivers []*driver, killed time.Time, lag time.Duration) {
	t.Helper()
	grants, calls := map[string][]grant{}, 0
	for _, d := range drivers {
		for _, c := range d.all() {
			calls++
			if c.allowed {
				grants[c.key] = append(grants[c.key], grant{c.sent, c.got})
			}
		}
	}
	spent, over, allowed := 0, 0, 0.0
	for _, l := range limits() {
		all := grants[l.key]
		once := forgiven(l, all, killed, lag)
		raw := excess(l, all, func(time.Time, time.Time) float64 { return 0 })
		over, allowed = over+raw, allowed+once
		beyond := excess(l, all, func(from, to time.Time) float64 {
			if from.Before(killed) && to.After(killed) {
				return once
			}
			return 0
		})
		if beyond > 0 {
			t.Errorf("%s %s %d: %d grants more than the law allows, of %d", l.key, l.rate, l.burst, beyond, len(all))
		}
		if len(all) >= l.burst {
			spent++
		}
	}
	t.Logf("%d calls, %d of %d keys at their limit; %d grants beyond it, where %.0f would be lawful", calls, spent, len(limits()), over, allowed)
	if spent == 0 {
		t.Error("no key came to its limit: nothing was proved")
	}
}
