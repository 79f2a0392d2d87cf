package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

// TestClientMemoryIsGivenBack: what many clients' unfinished commands took goes back to the system when they are gone,
// also if the server had the time meanwhile to give back all it could.
func TestClientMemoryIsGivenBack(t *testing.T) {
	t.Parallel()
	if underRace() {
		t.Skip("measures a server as it is shipped")
	}
	const clients, held, kept = 120, 100 << 20, 40 << 20 // bytes of RSS more than before
	p := start(t, t.TempDir())
	before := p.memory("VmRSS:")
	part := "*20\r\n" + strings.Repeat("$60000\r\n"+strings.Repeat("x", 60000)+"\r\n", 16)
	var all []*testConn
	for range clients {
		c := dial(t, p.addr)
		if _, err := io.WriteString(c.nc, part); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	p.await("the flood", func() bool { return p.memory("VmRSS:")-before > held })
	time.Sleep(calmTurns*heapEvery + spareEvery) // the calm that is told of
	for _, c := range all {
		c.nc.Close()
	}
	p.await("memory to go back", func() bool { return p.memory("VmRSS:")-before < kept })
}
