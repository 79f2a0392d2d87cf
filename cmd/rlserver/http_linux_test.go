package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestVisitors: who connects to http-addr again and again, and never ends a request, takes few files of the server and
// keeps nobody from /readyz. Each file that it takes is one less for clients and for the disk.
func TestVisitors(t *testing.T) {
	t.Parallel()
	const visitors, most = 400, 100
	site := net.JoinHostPort("127.0.0.1", freePort(t))
	p := start(t, t.TempDir(), "--http-addr", site)
	before := p.files()
	for i := range visitors {
		c, err := net.Dial("tcp", site)
		if err != nil {
			t.Fatalf("visitor %d: %v", i, err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET /metrics HTTP/1.1\r\nHost: x\r\nX-A: ")
	}
	if text := body(t, "http://"+site+"/readyz"); !strings.Contains(text, "ready") {
		t.Errorf("/readyz: %q", text)
	}
	if now := p.files(); now > before+most {
		t.Errorf("%d visitors take %d files, at most %d are allowed", visitors, now-before, most)
	}
	dial(t, p.addr).do("PING")
}

// files are how many the process has open.
func (p *process) files() int {
	p.t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	return len(all)
}

// body is what a page says.
func body(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Timeout: readyWithin, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
