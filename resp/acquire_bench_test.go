package resp

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

type wallClock struct{ start time.Time }

func (c wallClock) NowNs() int64 { return 1767225600e9 + int64(time.Since(c.start)) }

// noDisk is durability that is always done: these tests are about the wire.
type noDisk struct{}

func (noDisk) Save() uint64               { return 1 }
func (noDisk) Wait(uint64) error          { return nil }
func (noDisk) Ready(uint64) (bool, error) { return true, nil }
func (noDisk) Durable() uint64            { return math.MaxUint64 }
func (noDisk) Notify(func())              {}
func (noDisk) Trouble() error             { return nil }
func (noDisk) LastSave() int64            { return 0 }
func (noDisk) Urgent() uint64             { return 1 }

type noOptions struct{}

func (noOptions) Get(string) [][2]string { return nil }
func (noOptions) Set([][2]string) error  { return nil }

func newTestServer(clock Clock) *Server {
	srv := New(Config{
		Store: shard.New(shard.Config{Grace: 3000}), Clock: clock, Durability: noDisk{}, Options: noOptions{},
		Settings: Settings{MaxSkew: 1000, MaxClients: 100, MaxBulk: 512 << 10, CallerClock: engine.Bounded},
		Log:      slog.New(slog.DiscardHandler), Version: "test", Shutdown: func(bool) {}, Extra: func() []any { return nil },
	})
	srv.SetLoading(false)
	return srv
}

// pipeline is n RL.ACQUIRE commands on n keys.
func pipeline(n int) []byte {
	var b strings.Builder
	for i := range n {
		key := fmt.Sprintf("key:%012d", i)
		fmt.Fprintf(&b, "*4\r\n$10\r\nRL.ACQUIRE\r\n$%d\r\n%s\r\n$2\r\n10\r\n$2\r\n20\r\n", len(key), key)
	}
	return []byte(b.String())
}

// BenchmarkAcquire is a pipeline of 32 through a session: parse, decide, store
// and answer, without a socket. It must not allocate.
func BenchmarkAcquire(b *testing.B) {
	srv := newTestServer(wallClock{time.Now()})
	s := srv.newSession("test", "test")
	const depth = 32
	in := pipeline(100_000)
	size := len(in) / 100_000
	b.ReportAllocs()
	at := 0
	for i := 0; i < b.N; i += depth {
		s.Feed(in[at : at+depth*size])
		s.Written()
		at = (at + depth*size) % (len(in) - depth*size)
		at -= at % size
	}
}
