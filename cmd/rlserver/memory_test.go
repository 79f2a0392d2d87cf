package main

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/persist"
	"github.com/rlserver/rlserver/shard"
)

// At the limit what is past its deadline goes, and its memory serves new keys,
// whether rounds are written or not.
func TestMemoryOfExpiredKeys(t *testing.T) {
	for _, mode := range []persist.Mode{persist.Interval, persist.Shutdown} {
		t.Run(mode.String(), func(t *testing.T) {
			const keys, deadline = 20_000, 10_000
			store := shard.New(shard.Config{Shards: 4})
			feed := store.NewFeed()
			db, err := persist.Open(persist.Options{Dir: t.TempDir(), Mode: mode, Interval: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Load(store, 0, 0); err != nil {
				t.Fatal(err)
			}
			db.Start(feed, store)
			lim := engine.Limit{Algorithm: engine.Bucket, P: 1, Q: deadline, Capacity: 1}
			put := func(key string, clock int64) bool {
				k := []byte(key)
				state, d, err := engine.Acquire(nil, lim, nil, clock, engine.Op{Cost: 1})
				if err != nil {
					t.Fatal(err)
				}
				tx := store.Lock(clock, k)
				defer tx.Unlock()
				if !tx.Room(k, len(state)) {
					return false
				}
				tx.Put(k, byte(engine.Bucket), state, d.ResetAfter)
				return true
			}
			for i := range keys {
				put(fmt.Sprint("old:", i), 0)
			}
			if err := db.Wait(db.Save()); err != nil {
				t.Fatal(err)
			}
			m := &memory{store: store, db: db, clients: func() int64 { return 0 }, leave: func(int64) {}, log: newLogger(io.Discard, "text", new(slog.LevelVar))}
			limit, keyspace := m.used(), store.Used()
			if m.set(limit); put("new, of a size of its own: it finds no free slot and needs a chunk", 0) {
				t.Fatal("room at the limit")
			}
			m.turn(deadline-1, time.Now())
			if store.Len() != keys {
				t.Fatalf("%d of %d keys are left before their deadline", store.Len(), keys)
			}
			var now time.Time
			for end := time.Now().Add(readyWithin); store.Len() > 0 || store.Used() > keyspace/4; time.Sleep(time.Millisecond) {
				now = now.Add(relieveEvery)
				m.turn(deadline, now)
				if time.Now().After(end) {
					t.Fatalf("%d keys and %d bytes are left of %d", store.Len(), store.Used(), keyspace)
				}
			}
			m.set(keyspace + heapNeeds(keyspace) + m.others()) // writing took some, which is much beside so few keys
			for i := range keys / 2 {
				if !put(fmt.Sprint("new:", i), deadline) {
					t.Fatalf("no room for key %d in place of %d", i, keys)
				}
			}
			if peak := m.stats().Peak; peak < limit {
				t.Errorf("peak %d", peak)
			}
		})
	}
}

// What the keyspace may take and what it is said to take are the same.
func TestKeyspaceIn(t *testing.T) {
	for n, want := range map[int64]int64{
		0: 0, 9 * mb: 8 * mb, 72 * mb: 64 * mb, 100 * mb: 92 * mb, 264 * mb: 256 * mb, 330 * mb: 320 * mb, 33 << 10 * mb: 32 << 10 * mb,
	} {
		got := keyspaceIn(n)
		if off := got + heapNeeds(got) - n; got != want || off < -1 || off > 1 {
			t.Errorf("of %d MB the keyspace has %.3f, want %d; with what the heap needs they are %d bytes more", n/mb, float64(got)/mb, want/mb, off)
		}
	}
	if keyspaceIn(-5*mb) > 0 {
		t.Error("a keyspace of nothing")
	}
}

// soakEnv makes TestMaxMemory the long form, as in make soak.
const soakEnv = "RLSERVER_SOAK"

// TestMaxMemory floods a server with more new keys than its maxmemory holds. At
// no time is more resident than an empty server takes and the limit and a tenth
// of it; what used_memory says is about that; every bucket that was spent is
// still spent, then and after a restart; keys refused are refused with OOM.
func TestMaxMemory(t *testing.T) {
	if underRace() || testing.Short() {
		t.Skip("measures a server as it is shipped")
	}
	limit, keys, form, some := int64(250*mb), 1_150_000, "k:%0190d", 8 // 192 bytes: fewer keys, and so less time
	if os.Getenv(soakEnv) != "" {
		limit, keys, form, some = 300*mb, 6_000_000, "user:%011d", 1
	}
	dir := t.TempDir()
	p := start(t, dir, "--maxmemory", fmt.Sprint(limit))
	admin := dial(t, p.addr)
	admin.do("SAVE")
	empty := p.memory("VmRSS:")
	f := newFlood(keys, form)
	taken, refused := f.run(t, p.addr)
	if refused == 0 || taken+refused != keys {
		t.Fatalf("%d keys were taken and %d refused of %d", taken, refused, keys)
	}
	most := p.memory("VmHWM:") - empty
	t.Logf("%d keys taken, %d refused; %.1f MB resident above an empty server's %.1f, at most %.1f", taken, refused,
		float64(p.memory("VmRSS:")-empty)/mb, float64(empty)/mb, float64(most)/mb)
	if most > limit+limit/10 {
		t.Errorf("%.1f MB more were resident than in an empty server, at most a tenth above %d are allowed", float64(most)/mb, limit/mb)
	}
	used, grown := infoInt(t, admin, "used_memory"), p.memory("VmRSS:")-empty
	if off := float64(used-grown) / float64(grown); off > 0.15 || off < -0.15 {
		t.Errorf("used_memory is %d, and %d are resident", used, grown)
	}
	if used > limit+limit/20 { // writing to disk took more when the keys were there
		t.Errorf("used_memory is %d with a maxmemory of %d", used, limit)
	}
	if n := infoInt(t, admin, "rl_refused_keys"); n != int64(refused) {
		t.Errorf("rl_refused_keys is %d, %d were refused", n, refused)
	}
	f.wantSpent(t, p.addr, 1)
	held := infoInt(t, admin, "rl_keys")
	p.stop()

	// A lower limit at the next start takes nothing away.
	p = start(t, dir, "--maxmemory", fmt.Sprint(limit/2))
	if n := infoInt(t, dial(t, p.addr), "rl_keys"); n != held || held < int64(taken) {
		t.Errorf("%d keys after a restart, there were %d", n, held)
	}
	f.wantSpent(t, p.addr, some)
	if most := p.memory("VmHWM:") - empty; most > limit+limit/10 {
		t.Errorf("%.1f MB were resident during the load", float64(most)/mb)
	}
}

// Clients have what is left, and some in any case.
func TestRoomForClients(t *testing.T) {
	for _, row := range []struct{ maxmemory, rest, want int64 }{
		{100 * mb, 0, 100 * mb},
		{100 * mb, 60 * mb, 40 * mb},
		{100 * mb, 95 * mb, clientLeast},
		{100 * mb, 300 * mb, clientLeast},
		{1 << 30, 1 << 30, 64 * mb},
		{1, 0, clientLeast},
	} {
		if got := roomForClients(row.maxmemory, row.rest); got != row.want {
			t.Errorf("%d MB beside %d MB: %d, want %d", row.maxmemory/mb, row.rest/mb, got, row.want)
		}
	}
}

// TestMaxMemoryOfClients: what clients send and never finish does not take more than maxmemory either, and who holds little
// is served meanwhile.
func TestMaxMemoryOfClients(t *testing.T) {
	if underRace() || testing.Short() {
		t.Skip("measures a server as it is shipped")
	}
	const limit, headroom, clients = 16 * mb, 20 * mb, 200
	p := start(t, t.TempDir(), "--maxmemory", fmt.Sprint(limit))
	other := dial(t, p.addr)
	empty := p.memory("VmRSS:")
	piece := "$60000\r\n" + strings.Repeat("x", 60_000) + "\r\n"
	for range clients {
		nc, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(readyWithin))
		io.WriteString(nc, "*20\r\n"+strings.Repeat(piece, 17)) // fails when it is closed
		if got := other.do("RL.ACQUIRE", "user:1", "10", "20"); len(got.items) != 5 {
			t.Fatalf("the other client: %q", got.lines())
		}
	}
	if closed := infoInt(t, other, "evicted_clients"); closed < clients/2 {
		t.Errorf("%d of %d clients were closed", closed, clients)
	}
	if most := p.memory("VmHWM:") - empty; most > limit+headroom {
		t.Errorf("%.1f MB were resident above an empty server, at most %d are allowed", float64(most)/mb, (limit+headroom)/mb)
	}
}

// memory is a line of the process's status, in bytes.
func (p *process) memory(name string) int64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), name)
	var kb int64
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		p.t.Fatalf("%s: %v", name, err)
	}
	return kb << 10
}

// A flood is many keys, each a bucket of one token that comes back in 30 days.
type flood struct {
	form  string // of a key, by its number
	taken []atomic.Bool
}

func newFlood(keys int, form string) *flood {
	return &flood{form: form, taken: make([]atomic.Bool, keys)}
}

const (
	floodClients = 8
	floodDepth   = 100 // calls in a pipeline
)

// run asks a token of every key, once, and notes which keys were taken in.
func (f *flood) run(t *testing.T, addr string) (taken, refused int) {
	t.Helper()
	var in, out atomic.Int64
	f.each(t, addr, 1, func(key int, oom bool, allowed string) error {
		switch {
		case oom:
			out.Add(1)
		case allowed == ":1":
			in.Add(1)
			f.taken[key].Store(true)
		default:
			return fmt.Errorf("key %d: %q", key, allowed)
		}
		return nil
	})
	return int(in.Load()), int(out.Load())
}

// wantSpent asks one key in so many again: those taken in are spent, the others
// are refused or, if there is room for them now, taken in.
func (f *flood) wantSpent(t *testing.T, addr string, oneIn int) {
	t.Helper()
	f.each(t, addr, oneIn, func(key int, oom bool, allowed string) error {
		if f.taken[key].Load() && allowed != ":0" {
			return fmt.Errorf("key %d was spent and gets %q (OOM %v)", key, allowed, oom)
		}
		f.taken[key].Store(!oom)
		return nil
	})
}

// each calls RL.ACQUIRE for one key in so many and tells the replies: oom, or
// the first number of the decision.
func (f *flood) each(t *testing.T, addr string, oneIn int, told func(key int, oom bool, allowed string) error) {
	t.Helper()
	var wg sync.WaitGroup
	for first := range floodClients {
		wg.Go(func() {
			if err := f.client(addr, first*oneIn, floodClients*oneIn, told); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// client calls for the keys from one on, in steps.
func (f *flood) client(addr string, key, step int, told func(key int, oom bool, allowed string) error) error {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	r := bufio.NewReaderSize(nc, 64<<10)
	var out []byte
	for key < len(f.taken) {
		out = out[:0]
		from := key
		for range floodDepth {
			if key < len(f.taken) {
				out = append(out, frame("RL.ACQUIRE", fmt.Sprintf(f.form, key), "1/30d", "1")...)
				key += step
			}
		}
		nc.SetDeadline(time.Now().Add(exitWithin))
		if _, err := nc.Write(out); err != nil {
			return err
		}
		for ; from < key; from += step {
			oom, allowed, err := readDecision(r)
			if err == nil {
				err = told(from, oom, allowed)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// readDecision reads a decision, or the error OOM, which it takes at its word.
func readDecision(r *bufio.Reader) (oom bool, allowed string, err error) {
	line, err := r.ReadString('\n')
	switch {
	case err != nil:
		return false, "", err
	case line == "-OOM command not allowed when used memory > 'maxmemory'.\r\n":
		return true, "", nil
	case line != "*5\r\n":
		return false, "", fmt.Errorf("reply %q", line)
	}
	for i := range 5 {
		line, err := r.ReadString('\n')
		if err != nil {
			return false, "", err
		}
		if i == 0 {
			allowed = strings.TrimSpace(line)
		}
	}
	return false, allowed, nil
}
