package main

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// rssMB is the server's resident memory, MB.
func rssMB(t *testing.T, c *testConn) int64 {
	t.Helper()
	return infoInt(t, c, "used_memory_rss") >> 20
}

// TestHugeCommands: clients that build up commands of any size are stopped at
// the bound of one command, and do not fill the memory together.
func TestHugeCommands(t *testing.T) {
	t.Parallel()
	const clients, mostMB = 100, 400 // 1 MiB each, twice while a buffer grows, and the collector's slack
	p := start(t, t.TempDir())
	watcher := dial(t, p.addr)
	chunk := "$60000\r\n" + strings.Repeat("x", 60000) + "\r\n"
	var attack sync.WaitGroup
	refused := make([]string, clients)
	for i := range clients {
		c := dial(t, p.addr)
		attack.Go(func() {
			io.WriteString(c.nc, "*1000\r\n$6\r\nNOSUCH\r\n")
			for range 40 { // 2.4 MB
				if _, err := io.WriteString(c.nc, chunk); err != nil {
					break
				}
			}
			got, err := readReply(c.r)
			refused[i] = got.text
			if err != nil {
				refused[i] = err.Error()
			}
		})
	}
	over := make(chan struct{})
	go func() { attack.Wait(); close(over) }()
	for most := int64(0); ; {
		if most = max(most, rssMB(t, watcher)); most > mostMB {
			t.Fatalf("%d MB are resident", most)
		}
		select {
		case <-over:
			t.Logf("at most %d MB were resident", most)
			for _, text := range refused {
				if !strings.HasPrefix(text, "ERR Protocol error") && !strings.Contains(text, "reset") {
					t.Errorf("a command of 2.4 MB gets %q", text)
				}
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestDeafClients: who sends and never reads is no longer read from; the
// others are served meanwhile.
func TestDeafClients(t *testing.T) {
	t.Parallel()
	const clients, mostMB = 50, 200
	p := start(t, t.TempDir())
	watcher := dial(t, p.addr)
	pipeline := []byte(strings.Repeat(frame("ECHO", strings.Repeat("x", 1000)), 200))
	var attack sync.WaitGroup
	for range clients {
		c := dial(t, p.addr)
		attack.Go(func() {
			c.nc.SetWriteDeadline(time.Now().Add(time.Second))
			for range 500 { // 100 MB each, if anybody took it
				if _, err := c.nc.Write(pipeline); err != nil {
					return
				}
			}
			t.Error("100 MB were taken from a client that reads nothing")
		})
	}
	attack.Wait()
	if got := rssMB(t, watcher); got > mostMB {
		t.Errorf("%d MB are resident with %d clients that do not read", got, clients)
	}
	if got := watcher.do("RL.ACQUIRE", "k", "1/m", "10").ints(); len(got) != 5 || got[2] != 9 {
		t.Errorf("another client gets %v", got)
	}
}

// TestBrokenStreams sends well-formed conversations with some bytes changed:
// each costs its own connection at most, and no handler fails.
func TestBrokenStreams(t *testing.T) {
	t.Parallel()
	const tries = 3000
	srv := startTest(t, nil)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	var words []string
	for _, list := range places {
		for _, p := range list {
			words = append(words, p.call...)
		}
	}
	names := []string{"RL.ACQUIRE", "RL.PEEK", "RL.REFUND", "RL.PENALIZE", "RL.RESET", "RL.GET", "DEL", "EXISTS", "TTL", "HELLO", "CLIENT", "CONFIG", "COMMAND", "INFO", "AUTH", "SELECT"}
	for range tries {
		var send bytes.Buffer
		for range 1 + rng.IntN(4) {
			call := []string{names[rng.IntN(len(names))]}
			for range rng.IntN(6) {
				call = append(call, words[rng.IntN(len(words))])
			}
			if rng.IntN(3) == 0 {
				send.WriteString(strings.Join(call, " ") + "\r\n")
			} else {
				send.WriteString(frame(call...))
			}
		}
		b := send.Bytes()
		for range rng.IntN(4) {
			b[rng.IntN(len(b))] = byte(rng.IntN(256))
		}
		converse(t, "tcp", srv.addr, string(b))
	}
	if got := dial(t, srv.addr).do("RL.ACQUIRE", "k2", "1/m", "10").ints(); len(got) != 5 || got[2] != 9 {
		t.Errorf("afterwards, with seed %d: %v", seed, got)
	}
	if n := srv.node.srv.Stats().Panics; n != 0 {
		t.Errorf("%d faults in handlers, with seed %d", n, seed)
	}
}
