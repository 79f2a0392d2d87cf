package persist

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// touch debits n keys of 16 bytes out of total, spread evenly; pass makes them others each time.
func touch(b *testing.B, s *shard.Store, n, total, pass int) {
	key := make([]byte, 0, 16)
	var room [64]byte
	for i := range n {
		k := (i*total/n + pass*7919) % total
		key = fmt.Appendf(key[:0], "user:%011d", k)
		tx := s.Lock(start, key)
		e, _ := tx.Get(key)
		v, d, err := engine.Acquire(room[:0], slow, e.Value, start, engine.Op{Cost: 1})
		if err != nil {
			b.Fatal(err)
		}
		tx.Put(key, byte(engine.Bucket), v, d.ResetAfter)
		tx.Unlock()
	}
}

// BenchmarkRound is one round of changed keys on the real disk, from the request until it is durable. cpu-us/key is the whole process's,
// merges and compactions included, without making the changes.
func BenchmarkRound(b *testing.B) {
	for _, c := range []struct{ dirty, keys int }{{1000, 1_000_000}, {50_000, 1_000_000}, {50_000, 50_000}, {100_000, 100_000}} {
		b.Run(fmt.Sprintf("%d_of_%d", c.dirty, c.keys), func(b *testing.B) {
			w := open(b, Options{Dir: filepath.Join(b.TempDir(), "data"), Mode: Shutdown})
			touch(b, w.store, c.keys, c.keys, 0)
			w.save()
			w.db.Wait(w.db.Save())
			for w.db.Stats().Merges == 0 && c.keys > mergeEntries {
				time.Sleep(10 * time.Millisecond)
			}
			pass := 0
			var making time.Duration
			begin := cpuTime()
			for b.Loop() {
				b.StopTimer()
				before := cpuTime()
				pass++
				touch(b, w.store, c.dirty, c.keys, pass)
				making += cpuTime() - before
				b.StartTimer()
				w.save()
			}
			b.StopTimer()
			st := w.db.Stats()
			w.close()
			cpu := cpuTime() - begin - making
			b.ReportMetric(float64(cpu.Microseconds())/float64(pass*c.dirty), "cpu-us/key")
			b.ReportMetric(st.MaxDuration*1000, "max-ms")
			b.ReportMetric(float64(st.Bytes)/float64(st.Entries), "B/key")
		})
	}
}

// BenchmarkLoad is a start on a million keys after a clean stop.
func BenchmarkLoad(b *testing.B) {
	const keys = 1_000_000
	d := filepath.Join(b.TempDir(), "data")
	w := open(b, Options{Dir: d, Mode: Shutdown})
	touch(b, w.store, keys, keys, 0)
	w.close()
	for b.Loop() {
		w = open(b, Options{Dir: d, Mode: Shutdown})
		b.StopTimer()
		if w.info.Keys != keys {
			b.Fatalf("%+v", w.info)
		}
		w.close()
		b.StartTimer()
	}
	b.ReportMetric(keys/(b.Elapsed().Seconds()/float64(b.N)), "keys/s")
}

// BenchmarkMerge brings a journal of ten rounds into the table, each of 20,000 keys at random of a million.
func BenchmarkMerge(b *testing.B) {
	const rounds, keys = 10, 20_000
	for b.Loop() {
		b.StopTimer()
		h, err := newGeneration(vfs.NewMem(), dir, 1, point{}, new(site))
		if err != nil {
			b.Fatal(err)
		}
		var j journal
		distinct := new(sketch)
		for range rounds {
			w := newRoundWriter(h, tuning{}.withDefaults(), j.last, distinct)
			for range keys {
				if err := w.add(shard.Change{Key: fmt.Appendf(nil, "user:%011d", rand.IntN(1_000_000)), Kind: 1, Value: make([]byte, 13), Deadline: 1e12}); err != nil {
					b.Fatal(err)
				}
			}
			c, err := w.commit(start, 1_000_000)
			if err != nil {
				b.Fatal(err)
			}
			j.add(c)
		}
		m := newMerger(j, distinct.count, 2*mergeEntries)
		b.StartTimer()
		for done := false; !done; {
			if err := h.run(func(db *pebble.DB) (err error) { done, err = m.step(db, mergeLines); return err }); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		h.abandon()
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/rounds/keys, "ns/line")
}
