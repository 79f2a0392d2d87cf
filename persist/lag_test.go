package persist

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestLagIsNeverTooSmall: what the figures say that a crash now could lose is never less than it could, at whatever moment of a round they
// are asked for.
func TestLagIsNeverTooSmall(t *testing.T) {
	const interval = 4 * time.Millisecond
	w := open(t, Options{FS: vfs.NewMem(), Interval: interval})
	type change struct {
		at    time.Time // it was done by then
		round uint64
	}
	var last atomic.Pointer[change]
	last.Store(&change{})
	long := time.Second
	if os.Getenv(plantEnv) != "" {
		long *= 20 // it ends when it sees what it waits for
	}
	end := time.Now().Add(long)
	var stop atomic.Bool
	var writer sync.WaitGroup
	defer w.close()
	defer writer.Wait()
	defer stop.Store(true)
	writer.Go(func() { // a change, and the next when it is durable
		for key := []byte("a"); !stop.Load(); runtime.Gosched() {
			if last.Load().round > w.db.Durable() {
				continue
			}
			tx := w.store.Lock(start, key)
			tx.Put(key, 1, []byte{1}, 0)
			round := tx.Round()
			tx.Unlock()
			last.Store(&change{time.Now(), round})
		}
	})
	looks, old := 0, 0
	for ; time.Now().Before(end); looks++ {
		c, asked := last.Load(), time.Now()
		st := w.db.Stats()
		age := asked.Sub(c.at).Milliseconds()
		if age > 1 {
			old++
		}
		if durable := w.db.Durable(); c.round > durable && st.LagMs < age-1 {
			t.Errorf("a change %d ms old is in round %d, round %d is durable, and the lag is said to be %d ms", age, c.round, durable, st.LagMs)
			return
		}
	}
	t.Logf("%d looks, %d of them at old changes", looks, old)
}
