package engine

import "testing"

// The time of a benchmark's first call; later calls go on from it.
const benchNow int64 = 1_700_000_000_000

func BenchmarkParseLimit(b *testing.B) {
	for _, c := range [...]struct{ rate, burst string }{
		{"10", "20"}, {"0.000000001", "20"}, {"123456.789", "1000000"}, {"5/1m", "10"}, {"1000000007/1h", "100"},
	} {
		rate, burst := []byte(c.rate), []byte(c.burst)
		b.Run(c.rate, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseLimit(rate, burst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAcquire is the hot path: read the entry, decide, write it.
func BenchmarkAcquire(b *testing.B) {
	for _, c := range [...]struct {
		name, limit string
		step        int64 // ms between calls
	}{{"granted", "1000:1000", 1}, {"denied", "1/1d:1", 0}, {"per-minute", "5/1m:10", 12_000}, {"refilled", "10:20", 60_000}} {
		lim, err := ParseExpression([]byte(c.limit))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			op := Op{Cost: 1}
			old, next := make([]byte, 0, 64), make([]byte, 0, 64)
			now := benchNow
			for b.Loop() {
				out, _, err := Acquire(next[:0], lim, old, now, op)
				if err != nil {
					b.Fatal(err)
				}
				if out != nil {
					old, next = out, old
				}
				now += c.step
			}
		})
	}
}

// algorithmLimits are the same 100 a minute under each algorithm.
var algorithmLimits = []string{"100/1m:100", "fixed:100/1m", "fixed-aligned:100/1m", "sliding:100/1m", "log:100/1m"}

// BenchmarkAlgorithms is a decision of each algorithm under traffic a third above its limit, so that both answers occur, one call each
// 450 ms. B/entry is the size of what is stored in the end, without the key.
func BenchmarkAlgorithms(b *testing.B) {
	for _, expr := range append(algorithmLimits, "log:4096/1h") {
		lim, step := must(b, expr), int64(450)
		if lim.Capacity > 100 {
			step = 660
		}
		b.Run(expr, func(b *testing.B) {
			b.ReportAllocs()
			old, next := make([]byte, 0, 64<<10), make([]byte, 0, 64<<10)
			now, granted := benchNow, 0
			for i := range 3 * lim.Capacity { // into the steady state
				if out, _, _ := Acquire(next[:0], lim, old, now+i*step, Op{Cost: 1}); out != nil {
					old, next = out, old
				}
			}
			now += 3 * lim.Capacity * step
			for b.Loop() {
				out, _, err := Acquire(next[:0], lim, old, now, Op{Cost: 1})
				if err != nil {
					b.Fatal(err)
				}
				if out != nil {
					old, next = out, old
					granted++
				}
				now += step
			}
			b.ReportMetric(float64(len(old)), "B/entry")
			b.ReportMetric(100*float64(granted)/float64(b.N), "%granted")
		})
	}
}

// BenchmarkDenied is a call that is refused, with nothing going out of the window.
func BenchmarkDenied(b *testing.B) {
	for _, expr := range append(algorithmLimits, "log:4096/1h") {
		lim := must(b, expr)
		b.Run(expr, func(b *testing.B) {
			b.ReportAllocs()
			var old []byte
			for i := range lim.Capacity {
				out, _, err := Acquire(nil, lim, old, benchNow+i, Op{Cost: 1})
				if err != nil || out == nil {
					b.Fatal(err)
				}
				old = out
			}
			now := benchNow + lim.Capacity
			for b.Loop() {
				if out, _, err := Acquire(nil, lim, old, now, Op{Cost: 1}); out != nil || err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(old)), "B/entry")
		})
	}
}

func BenchmarkReset(b *testing.B) {
	lim, err := ParseExpression([]byte("10:20"))
	if err != nil {
		b.Fatal(err)
	}
	old, _, err := Acquire(nil, lim, nil, benchNow, Op{Cost: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		Reset(old, benchNow)
	}
}
