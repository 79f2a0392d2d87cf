package main

import (
	"net"
	"strings"
	"testing"
	"time"
)

// TestUnreadOutput: the kernel does not pile up the answers of a client that never reads.
func TestUnreadOutput(t *testing.T) {
	t.Parallel()
	const most = 1 << 20 // bytes, what the client's own kernel takes included
	srv := startTest(t, nil)
	c := dial(t, srv.addr)
	c.nc.(*net.TCPConn).SetReadBuffer(64 << 10)
	c.nc.SetWriteDeadline(time.Now().Add(2 * time.Second))
	for pipeline := []byte(strings.Repeat(frame("ECHO", strings.Repeat("x", 1000)), 200)); ; {
		if _, err := c.nc.Write(pipeline); err != nil {
			break
		}
	}
	if got := infoInt(t, dial(t, srv.addr), "total_net_output_bytes"); got > most {
		t.Errorf("%d bytes were written to a client that reads none, may be %d", got, most)
	}
}
