package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// TestRoomForFiles: the table of open files has its size before the clients come.
func TestRoomForFiles(t *testing.T) {
	t.Parallel()
	const clients = 3000
	p := start(t, t.TempDir(), "--maxclients", strconv.Itoa(clients))
	size := regexp.MustCompile(`FDSize:\s*(\d+)`)
	p.await("a table for all clients", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.Atoi(string(size.FindSubmatch(text)[1]))
		return n >= clients
	})
}
