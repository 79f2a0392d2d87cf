package main

import (
	pathpkg "path"
	"strconv"
	"strings"
)

// containerLimit is the memory limit of the container that this process runs
// in, bytes: the smallest of its control group's and of those above it. 0 means
// that there is none or that nobody tells.
func containerLimit(read func(string) ([]byte, error)) int64 {
	groups, err := read("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := int64(0)
	for line := range strings.Lines(string(groups)) {
		// 0::/path for version 2, 4:memory:/path for version 1.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		root, file := "/sys/fs/cgroup", "memory.max"
		if parts[0] != "0" {
			if !strings.Contains(","+parts[1]+",", ",memory,") {
				continue
			}
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		for dir := pathpkg.Clean("/" + parts[2]); ; dir = pathpkg.Dir(dir) {
			if n := limitIn(read, root+pathpkg.Join(dir, file)); n > 0 && (least == 0 || n < least) {
				least = n
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}

// noLimitFrom is a limit that no machine has: version 1 says "none" by a number
// near 2^63.
const noLimitFrom = 1 << 60

func limitIn(read func(string) ([]byte, error), file string) int64 {
	text, err := read(file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is none
	if err != nil || n >= noLimitFrom {
		return 0
	}
	return n
}
