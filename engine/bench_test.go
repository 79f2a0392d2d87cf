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
