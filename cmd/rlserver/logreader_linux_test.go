package main

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

// logged starts a server whose log goes into a pipe, and returns the end that somebody should read.
func logged(t *testing.T, args ...string) (p *process, log *os.File) {
	t.Helper()
	log, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	port := freePort(t)
	cmd := program(t, serverArgs(t.TempDir(), append(args, "--port", port))...)
	cmd.Stderr = w
	p = &process{t: t, cmd: cmd, addr: net.JoinHostPort("127.0.0.1", port), exited: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() {
		cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-p.exited
	})
	p.await("PONG", p.answers)
	return p, log
}

// TestLogReaderEnds: the program that the log is piped into ends, and the server goes on without a log.
func TestLogReaderEnds(t *testing.T) {
	t.Parallel()
	p, log := logged(t)
	log.Close()
	c := dial(t, p.addr)
	for range 3 {
		p.signal(syscall.SIGHUP) // a line each
		if got := c.do("PING"); got.text != "PONG" {
			t.Fatalf("PING: %q", got.lines())
		}
	}
	p.stop()
}

// TestLogReaderHangs: the program that the log is piped into reads no more, and the server serves and stops as ever.
func TestLogReaderHangs(t *testing.T) {
	t.Parallel()
	p, _ := logged(t, "--loglevel", "debug")
	for i := range 1500 { // a line each: more than the pipe holds
		nc, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		fmt.Fprint(nc, "*x\r\n")
		nc.Close()
		if i%100 == 0 && !p.answers() {
			t.Fatalf("after %d lines nobody is served", i)
		}
	}
	if !p.answers() {
		t.Fatal("nobody is served")
	}
	p.stop()
}
