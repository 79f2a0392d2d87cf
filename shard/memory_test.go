package shard

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rlserver/rlserver/engine"
)

// memoryEnv makes TestMemory the child that is measured: "store 1000000".
const memoryEnv = "RLSERVER_SHARD_MEMORY"

// maxBytesPerKey is what the design allows, and maxMiscount how far, as a share,
// the store's own count may be from it.
const (
	maxBytesPerKey = 80
	maxMiscount    = 0.15
)

// TestMemory measures what a key of 16 bytes costs, as resident memory of a
// process with the keys minus that of the same process before, with the
// garbage collector as it is by default. Each entry is a bucket that was
// debited once, and a feed has heard of all of them in rounds, as in a server.
// What the store itself counts must be about that.
func TestMemory(t *testing.T) {
	if job := os.Getenv(memoryEnv); job != "" {
		memoryChild(t, job)
		return
	}
	if raceEnabled || testing.Short() || runtime.GOOS != "linux" {
		t.Skip("needs /proc and a build as it is shipped")
	}
	for _, job := range []string{"store 1000000", "store 3000000"} {
		got, counted := measure(t, job)
		t.Logf("%s: %.1f bytes a key, %.1f counted", job, got, counted)
		if got > maxBytesPerKey {
			t.Errorf("%s: %.1f bytes a key, at most %d are allowed", job, got, maxBytesPerKey)
		}
		if counted < got*(1-maxMiscount) || counted > got*(1+maxMiscount) {
			t.Errorf("%s: the store counts %.1f bytes a key, resident are %.1f", job, counted, got)
		}
	}
}

// BenchmarkMemory compares with what else could hold the entries.
func BenchmarkMemory(b *testing.B) {
	for _, job := range []string{"store 1000000", "store 2000000", "store 3000000", "map 1000000", "map 3000000"} {
		b.Run(job, func(b *testing.B) {
			for b.Loop() {
				got, _ := measure(b, job)
				b.ReportMetric(got, "bytes/key")
			}
		})
	}
}

// measure runs the job in a child process and returns bytes per key: resident
// ones, and those of the store's own count (0 if there is no store).
func measure(t testing.TB, job string) (resident, counted float64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestMemory$", "-test.v")
	cmd.Env = append(os.Environ(), memoryEnv+"="+job)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("child: %v\n%s", err, out)
	}
	_, rest, _ := strings.Cut(string(out), "bytes per key: ")
	if n, err := fmt.Sscanf(rest, "%f, counted: %f", &resident, &counted); n != 2 {
		t.Fatalf("child said %q: %v", out, err)
	}
	return resident, counted
}

func memoryChild(t *testing.T, job string) {
	kind, count, _ := strings.Cut(job, " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		t.Fatal(err)
	}
	lim, err := engine.ParseLimit([]byte("10"), []byte("100"))
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]byte, 0, 16)
	var room [engine.EntryRoom]byte
	each := func(put func(key, value []byte, reset int64)) {
		for i := range n {
			keys = fmt.Appendf(keys[:0], "user:%011d", i)
			value, d, err := engine.Acquire(room[:0], lim, nil, 1_790_000_000_000+int64(i), engine.Op{Cost: 1})
			if err != nil {
				t.Fatal(err)
			}
			put(keys, value, d.ResetAfter)
		}
	}
	runtime.GC()
	before := resident(t)
	switch kind {
	case "store":
		s := New(Config{Grace: 3000})
		f := s.NewFeed()
		i := 0
		each(func(key, value []byte, reset int64) {
			tx := s.Lock(1_790_000_000_000, key)
			tx.Put(key, 1, value, reset)
			tx.Unlock()
			if i++; i%100_000 == 0 {
				for r := f.Cut(); r.Next(1000) != nil; {
				}
			}
		})
		fmt.Printf("bytes per key: %.2f, counted: %.2f\n", float64(resident(t)-before)/float64(n), float64(s.Used())/float64(n))
	case "map":
		m := map[string][]byte{}
		each(func(key, value []byte, reset int64) { m[string(key)] = append([]byte(nil), value...) })
		fmt.Printf("bytes per key: %.2f, counted: 0\n", float64(resident(t)-before)/float64(n))
		runtime.KeepAlive(m)
	}
}

// resident is the memory of this process that is in RAM, in bytes.
func resident(t *testing.T) int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
