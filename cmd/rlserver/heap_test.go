package main

import (
	"log/slog"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

const mb = 1 << 20

func TestGCPercent(t *testing.T) {
	for _, row := range []struct {
		live int64
		want int
	}{
		{0, 100},      // Go's own rule while the heap is small
		{4 * mb, 100}, //
		{16 * mb, 50}, // then 8 MB of garbage
		{64 * mb, 13}, //
		{512 * mb, 4}, // then a 32nd
		{100 << 10 * mb, 4},
	} {
		if got := gcPercent(row.live); got != row.want {
			t.Errorf("with %d MB live: %d, want %d", row.live/mb, got, row.want)
		}
	}
}

func TestGoMemoryLimit(t *testing.T) {
	const gb = 1 << 30
	for name, row := range map[string]struct{ maxmemory, container, live, want int64 }{
		"nobody limits":                {0, 0, 0, math.MaxInt64},
		"maxmemory and its headroom":   {320 * mb, 0, 0, 340*mb + limitRuntime},
		"maxmemory before a container": {320 * mb, gb, 0, 340*mb + limitRuntime},
		"a container, less a tenth":    {0, gb, 0, gb - gb/10},
		"a small one, less 32 MB":      {0, 128 * mb, 0, 96 * mb},
		"a tiny one, half":             {0, 40 * mb, 0, 20 * mb},
		"more is live than allowed":    {32 * mb, 0, 320 * mb, 340*mb + limitRuntime},
	} {
		if got := goMemoryLimit(row.maxmemory, row.container, row.live); got != row.want {
			t.Errorf("%s: %d, want %d", name, got, row.want)
		}
	}
	for _, container := range []int64{64 * mb, 512 * mb, 8 * gb} {
		if need := goMemoryLimit(suggestedMax(container), 0, 0) + outsideLeast; need > container {
			t.Errorf("the maxmemory suggested for %d MB needs %d MB", container/mb, need/mb)
		}
	}
}

// Memory is given back when it is calm and there is enough to give.
func TestGiveBack(t *testing.T) {
	h := &heap{}
	now := time.Unix(0, 0)
	allocated, taken, used := int64(0), int64(100*mb), int64(60*mb)
	turns := func(n int, perTurn int64) (given int) {
		for range n {
			now, allocated = now.Add(heapEvery), allocated+perTurn
			if h.giveBackDue(allocated, taken, used, now) {
				given++
				taken = used + 10*mb // what a collection leaves
				h.beside = taken - used
			}
		}
		return given
	}
	if turns(50, calmBytes+1) != 0 {
		t.Error("while much is allocated")
	}
	if turns(calmTurns, 0) != 1 {
		t.Error("not when it is calm")
	}
	if turns(100, 0) != 0 {
		t.Error("again, with nothing to give")
	}
	taken += spareLeast - 1
	if turns(100, 0) != 0 {
		t.Error("for less than it is worth")
	}
	taken += 1
	if turns(1, 0) != 1 {
		t.Error("not when it is worth it")
	}
	taken += 50 * mb
	if n := turns(int(spareEvery/heapEvery)-1, 0); n != 0 {
		t.Error("too soon")
	}
	used -= 40 * mb // entries went
	if turns(2, 0) != 1 {
		t.Error("not when the keyspace has shrunk")
	}
	h.beside, taken = besideMuch+1, used+besideMuch // what held so much then is gone now, and nobody counted it
	if n := turns(int(lookAgain/heapEvery)-2, 0); n != 0 {
		t.Error("sooner than a minute later, with nothing to give that is known of")
	}
	if turns(5, 0) != 1 {
		t.Error("not after a minute")
	}
}

func TestContainerLimit(t *testing.T) {
	for name, row := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no control groups": {nil, 0},
		"version 2": {map[string]string{
			"/proc/self/cgroup":                 "0::/pod/rl\n",
			"/sys/fs/cgroup/pod/rl/memory.max":  "536870912\n",
			"/sys/fs/cgroup/pod/memory.max":     "max\n",
			"/sys/fs/cgroup/memory/memory.max":  "1\n",
			"/sys/fs/cgroup/pod/rl/memory.high": "1\n",
		}, 512 * mb},
		"the limit of a group above": {map[string]string{
			"/proc/self/cgroup":                "0::/pod/rl\n",
			"/sys/fs/cgroup/pod/rl/memory.max": "536870912\n",
			"/sys/fs/cgroup/pod/memory.max":    "268435456\n",
		}, 256 * mb},
		"a path of the host, seen from inside": {map[string]string{
			"/proc/self/cgroup":         "0::/kubepods/pod1/abc\n",
			"/sys/fs/cgroup/memory.max": "268435456\n",
		}, 256 * mb},
		"version 1": {map[string]string{
			"/proc/self/cgroup": "5:cpu:/x\n4:hugetlb,memory:/docker/abc\n0::/\n",
			"/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "134217728\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes":            "9223372036854771712\n",
		}, 128 * mb},
		"no limit": {map[string]string{
			"/proc/self/cgroup":                           "4:memory:/\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 0},
		"not what it should be": {map[string]string{"/proc/self/cgroup": "memory\n0::\n", "/sys/fs/cgroup/memory.max": "many\n"}, 0},
	} {
		read := func(file string) ([]byte, error) {
			text, ok := row.files[file]
			if !ok {
				return nil, os.ErrNotExist
			}
			return []byte(text), nil
		}
		if got := containerLimit(read); got != row.want {
			t.Errorf("%s: %d, want %d", name, got, row.want)
		}
	}
}

// A container without a maxmemory, or with one too large for it, is warned of.
func TestContainerWarning(t *testing.T) {
	for name, row := range map[string]struct {
		maxmemory, container int64
		warning              string
	}{
		"no container":          {0, 0, ""},
		"a container, no limit": {0, 512 * mb, "maxmemory is 0"},
		"a limit that fits":     {400 * mb, 512 * mb, ""},
		"the suggested one":     {suggestedMax(512 * mb), 512 * mb, ""},
		"one too large":         {500 * mb, 512 * mb, "close to the container's memory"},
	} {
		var text logText
		v := defaults()
		v.MaxMemory = row.maxmemory
		h := &heap{config: newConfig(v), container: row.container}
		h.logStart(newLogger(&text, "text", new(slog.LevelVar)))
		if got := text.String(); row.warning == "" && got != "" || !strings.Contains(got, row.warning) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
