package drivers

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// A limit is a key's bucket.
type limit struct {
	key   string
	rate  string  // as it is sent
	each  float64 // tokens a second
	burst int
}

// A grant is a call that was allowed: it was decided between the two times.
type grant struct{ sent, got time.Time }

// clockGrain is what the times of a grant and the now that a caller sends may be off: they are whole milliseconds.
const clockGrain = 5 * time.Millisecond

// excess is how many more grants of a key came than its bucket lets through, at most over all spans of time. Where a primary
// was lost in a span, lost(span) of them are forgiven.
func excess(l limit, all []grant, lost func(from, to time.Time) float64) int {
	bySent := slices.Clone(all)
	slices.SortFunc(bySent, func(a, b grant) int { return a.sent.Compare(b.sent) })
	worst := 0
	for i := range bySent {
		from := bySent[i].sent
		var ends []time.Time
		for _, g := range bySent[i:] {
			ends = append(ends, g.got)
		}
		slices.SortFunc(ends, time.Time.Compare)
		for n, to := range ends {
			most := float64(l.burst) + l.each*(to.Sub(from)+clockGrain).Seconds() + lost(from, to)
			worst = max(worst, n+1-int(math.Floor(most)))
		}
	}
	return worst
}

// forgiven is what the loss of a primary at a time may admit once more of a key: what its bucket holds and gains in the lag,
// and no more than was granted in it.
func forgiven(l limit, all []grant, at time.Time, lag time.Duration) float64 {
	n := 0
	for _, g := range all {
		if g.got.After(at.Add(-lag)) && g.sent.Before(at) {
			n++
		}
	}
	return min(float64(l.burst)+l.each*lag.Seconds(), float64(n))
}

// TestLaw: the oracle sees one grant too many, and forgives no more than what was lost.
func TestLaw(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	grants := func(ms ...int) (all []grant) {
		for _, n := range ms {
			all = append(all, grant{at(n), at(n + 1)})
		}
		return all
	}
	none := func(time.Time, time.Time) float64 { return 0 }
	once := limit{burst: 3}
	steady := limit{each: 10, burst: 2}
	for _, c := range []struct {
		name string
		l    limit
		all  []grant
		lost func(from, to time.Time) float64
		want int
	}{
		{"the burst", once, grants(0, 1, 5000), none, 0},
		{"one more", once, grants(0, 1, 5000, 90_000), none, 1},
		{"one more, forgiven", once, grants(0, 1, 5000, 90_000), func(time.Time, time.Time) float64 { return 1 }, 0},
		{"in any order", once, grants(90_000, 5000, 1, 0), none, 1},
		{"as it refills", steady, grants(0, 0, 100, 200, 300), none, 0},
		{"sooner", steady, grants(0, 0, 100, 200, 210, 220), none, 2},
		{"sooner in the middle only", steady, grants(0, 5000, 5001, 5002, 5003, 9000), none, 2},
		{"slow answers", steady, []grant{{at(0), at(500)}, {at(0), at(500)}, {at(0), at(500)}}, none, 0},
	} {
		if got := excess(c.l, c.all, c.lost); got != c.want {
			t.Errorf("%s: %d too many, want %d", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		l    limit
		want float64
	}{{limit{burst: 10}, 2}, {limit{burst: 1}, 1}, {limit{burst: 1, each: 0.5}, 1.5}} {
		if got := forgiven(c.l, grants(0, 500, 1500, 1999, 2000), at(2000), time.Second); got != c.want {
			t.Errorf("%+v: %v forgiven, want %v", c.l, got, c.want)
		}
	}
}

// limits are the buckets that the drivers ask for: some gain nothing to speak of, and are spent sooner or later, so that each
// token that is there twice is seen; the others are always being refilled.
func limits() (all []limit) {
	const each, perSecond = 15, 20
	for i := range each {
		all = append(all,
			limit{key: fmt.Sprintf("once:%d", i), rate: "1/30d", each: 1 / (30 * 24 * time.Hour).Seconds(), burst: 100 * (i + 1)},
			limit{key: fmt.Sprintf("steady:%d", i), rate: fmt.Sprint(perSecond), each: perSecond, burst: 10})
	}
	return all
}

// gap is the longest time without an answer between two times, of the calls given in any order.
func gap(answers []call, from, to time.Time) time.Duration {
	longest, last := time.Duration(0), from
	slices.SortFunc(answers, func(a, b call) int { return cmp.Or(a.got.Compare(b.got), a.sent.Compare(b.sent)) })
	for _, c := range answers {
		if c.got.After(from) && c.got.Before(to) {
			longest, last = max(longest, c.got.Sub(last)), c.got
		}
	}
	return max(longest, to.Sub(last))
}
