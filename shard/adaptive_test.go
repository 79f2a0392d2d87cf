package shard

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/rlserver/rlserver/engine"
)

const reportsAt int64 = 1_700_000_000_000 // Unix ms

func setNamed(t testing.TB, s *Store, name, expr string) {
	t.Helper()
	n := NamedLimit{Name: name}
	if err := n.Parse([]byte(expr)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Limits().SetNamed(n); err != nil {
		t.Fatal(err)
	}
}

// report tells so many OKs of a limit, a ms apart, and returns the rate after them.
func report(t testing.TB, s *Store, name string, from int64, oks int) string {
	t.Helper()
	var r Rate
	for i := range oks {
		var err error
		if r, _, err = s.Limits().Feedback([]byte(name), true, 0, reportsAt+from+int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	return engine.RateText(r.Limit)
}

func rateOf(t testing.TB, s *Store, name string) string {
	t.Helper()
	lim, ok := s.Limits().Resolve([]byte(name))
	if !ok || lim.Name != name {
		t.Fatalf("%s resolves to %v, %v", name, lim, ok)
	}
	return engine.RateText(lim)
}

func TestAdaptiveLimit(t *testing.T) {
	s := New(Config{})
	l := s.Limits()
	if _, _, err := l.Feedback([]byte("up"), true, 0, reportsAt); err != ErrNoLimit {
		t.Fatal(err)
	}
	setNamed(t, s, "fixed", "10:20")
	if _, _, err := l.Feedback([]byte("fixed"), true, 0, reportsAt); err != ErrNotAdaptive {
		t.Fatal(err)
	}
	setNamed(t, s, "up:*", "adaptive:100..1000:20")
	if n, ok := l.Get([]byte("up:*")); !ok || n.Expression() != "adaptive:100..1000:20" {
		t.Fatal(n, ok)
	}
	if got := rateOf(t, s, "up:list"); got != "100" {
		t.Fatal("at first", got)
	}
	if got := report(t, s, "up:list", 0, 2200); got != "400" {
		t.Fatal("after two epochs", got)
	}
	if got := rateOf(t, s, "up:any"); got != "400" {
		t.Fatal("another name of the group", got)
	}
	r, _, err := l.Feedback([]byte("up:list"), false, 5000, reportsAt+2200)
	if err != nil || r.PausedUntil != reportsAt+7200 {
		t.Fatal(r, err)
	}
	if l.PausedUntil("up:any") != r.PausedUntil || l.PausedUntil("fixed") != 0 || l.PausedUntil("") != 0 || l.PausedUntil("none") != 0 {
		t.Fatal("paused until", l.PausedUntil("up:any"))
	}
	setNamed(t, s, "up:*", "adaptive:50..300:20")
	if got := rateOf(t, s, "up:any"); got != "300" {
		t.Fatal("under lower bounds", got)
	}
	setNamed(t, s, "up:*", "10:20")
	if got := rateOf(t, s, "up:any"); got != "10" || l.PausedUntil("up:any") != 0 {
		t.Fatal("as a fixed limit", got)
	}
	setNamed(t, s, "up:*", "adaptive:100..1000:20")
	if got := rateOf(t, s, "up:any"); got != "100" {
		t.Fatal("adaptive again", got)
	}
	report(t, s, "up:list", 0, 2200)
	s.Clear()
	if got := rateOf(t, s, "up:any"); got != "100" {
		t.Fatal("after Clear", got)
	}
}

// toldLimits drains a round and keeps what it tells of named limits.
func toldLimits(f *Feed, into map[string]Change) (lines []string) {
	r := f.Cut()
	for batch := r.Next(3); batch != nil; batch = r.Next(3) {
		for _, c := range batch {
			if c.Space != LimitSpace {
				continue
			}
			lines = append(lines, string(c.Key))
			c.Key, c.Value = []byte(string(c.Key)), []byte(string(c.Value))
			into[string(c.Key)] = c
			if c.Kind == 0 {
				lines[len(lines)-1] += " gone"
				delete(into, string(c.Key))
			}
		}
	}
	return lines
}

func TestAdaptiveFeed(t *testing.T) {
	s := New(Config{})
	f := s.NewFeed()
	disk := map[string]Change{}
	expect := func(what, want string) {
		t.Helper()
		pending := f.Pending()
		if what == "Clear" {
			pending-- // that all keys are gone
		}
		lines := toldLimits(f, disk)
		if got := strings.Join(lines, ", "); got != want || pending != len(lines) {
			t.Errorf("%s: told %q, %d pending, want %q", what, got, pending, want)
		}
	}
	setNamed(t, s, "up", "adaptive:100..1000:20")
	expect("set", "up")
	report(t, s, "up", 0, 2200)
	expect("many reports", "#up")
	expect("no reports", "")

	again := New(Config{})
	var changes []Change
	for _, c := range disk {
		changes = append(changes, c)
	}
	if err := again.Limits().Load(changes); err != nil {
		t.Fatal(err)
	}
	if got := rateOf(t, again, "up"); got != "400" {
		t.Error("loaded", got)
	}
	if got := len(s.Limits().Changes()); got != 2 {
		t.Error("all changes are", got)
	}

	setNamed(t, s, "up", "adaptive:100..500:20")
	expect("another expression keeps what was found", "up")
	report(t, s, "up", 2200, 1)
	s.Clear()
	expect("Clear", "#up gone")
	report(t, s, "up", 2300, 1)
	expect("a report after Clear", "#up")
	if _, _, err := s.Limits().Delete([]byte("up")); err != nil {
		t.Fatal(err)
	}
	setNamed(t, s, "up", "adaptive:100..500:20")
	report(t, s, "up", 2400, 1)
	expect("deleted and made again in one round", "#up gone, up, #up")
	setNamed(t, s, "up", "10:20")
	expect("fixed", "#up gone, up")
	if _, _, err := s.Limits().Delete([]byte("up")); err != nil {
		t.Fatal(err)
	}
	expect("deleted", "up gone")
	if len(disk) != 0 {
		t.Error("left:", disk)
	}
}

func TestAdaptiveLoad(t *testing.T) {
	s := New(Config{})
	f := s.NewFeed()
	limit := Change{Space: LimitSpace, Key: []byte("up"), Kind: byte(FromCommand), Value: []byte("adaptive:100..1000:20")}
	for _, bad := range []Change{
		{Space: LimitSpace, Key: []byte("#up"), Kind: searchKind, Value: []byte("?")},
		{Space: LimitSpace, Key: []byte("#up"), Kind: searchKind},
		{Space: LimitSpace, Key: []byte("#up"), Kind: byte(FromCommand), Value: []byte("10:20")},
	} {
		if err := s.Limits().Load([]Change{limit, bad}); err == nil || s.Limits().Len() != 0 {
			t.Error(bad, "was loaded", err)
		}
	}
	state, _, _, err := engine.Feedback(nil, &engine.Adaptive{Min: expression(t, "100:20"), Max: expression(t, "1000:20"), Increase: 10_000, Decrease: 125},
		nil, false, 60_000, reportsAt)
	if err != nil {
		t.Fatal(err)
	}
	found := Change{Space: LimitSpace, Key: []byte("#up"), Kind: searchKind, Value: state}
	orphan := Change{Space: LimitSpace, Key: []byte("#down"), Kind: searchKind, Value: state}
	if err := s.Limits().Load([]Change{found, orphan, limit}); err != nil {
		t.Fatal(err)
	}
	if got := s.Limits().PausedUntil("up"); got != reportsAt+60_000 {
		t.Error("paused until", got)
	}
	disk := map[string]Change{}
	if lines := toldLimits(f, disk); lines != nil {
		t.Error("the feed heard of a load:", lines)
	}
	s.Limits().Rebase(reportsAt)
	if lines := toldLimits(f, disk); lines != nil {
		t.Error("nothing was ahead:", lines)
	}
	s.Limits().Rebase(reportsAt - 10_000)
	if got := s.Limits().PausedUntil("up"); got != reportsAt+50_000 {
		t.Error("paused until", got)
	}
	if lines := toldLimits(f, disk); len(lines) != 1 {
		t.Error("told", lines)
	}
	if _, err := s.Limits().SetFile([]NamedLimit{{Name: "other", Limit: expression(t, "1:1")}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Limits().Load([]Change{{Space: LimitSpace, Key: []byte("#up")}}); err != nil || s.Limits().PausedUntil("up") != 0 {
		t.Error("a tombstone of a state", err, s.Limits().PausedUntil("up"))
	}
}

func TestAdaptiveAllocates(t *testing.T) {
	s := New(Config{})
	setNamed(t, s, "up:*", "adaptive:100..1000:20")
	name := []byte("up:list")
	report(t, s, "up:list", 0, 10)
	if n := testing.AllocsPerRun(100, func() {
		lim, ok := s.Limits().Resolve(name)
		if !ok || s.Limits().PausedUntil(lim.Name) != 0 {
			t.Fatal(lim, ok)
		}
	}); n != 0 {
		t.Errorf("%v allocations to resolve", n)
	}
	now := reportsAt
	if n := testing.AllocsPerRun(100, func() {
		now++
		if _, _, err := s.Limits().Feedback(name, false, 0, now); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations to report", n)
	}
}

// TestAdaptiveRace: reports, resolves, changes of the limit and rounds at once.
// What the feed told in the end is what is there.
func TestAdaptiveRace(t *testing.T) {
	s := New(Config{})
	f := s.NewFeed()
	setNamed(t, s, "up", "adaptive:100..1000:20")
	disk := map[string]Change{}
	var work sync.WaitGroup
	for w := range 4 {
		work.Go(func() {
			for i := range 2000 {
				_, _, err := s.Limits().Feedback([]byte("up"), i%10 != 0, int64(i%3), reportsAt+int64(i))
				if err != nil && !errors.Is(err, ErrNoLimit) {
					t.Error(err)
				}
				if lim, ok := s.Limits().Resolve([]byte("up")); ok {
					s.Limits().PausedUntil(lim.Name)
				}
				switch {
				case w == 0 && i%100 == 50:
					setNamed(t, s, "up", "adaptive:100..2000:20")
				case w == 1 && i%200 == 50:
					s.Limits().Delete([]byte("up"))
				case w == 1 && i%200 == 60:
					setNamed(t, s, "up", "adaptive:100..1000:20")
				case w == 2 && i%500 == 50:
					s.Clear()
				}
			}
		})
	}
	work.Go(func() {
		for range 200 {
			toldLimits(f, disk)
		}
	})
	work.Wait()
	toldLimits(f, disk)
	want := map[string]string{}
	for _, c := range s.Limits().Changes() {
		want[string(c.Key)] = string(c.Value)
	}
	for key, c := range disk {
		if want[key] != string(c.Value) {
			t.Errorf("%s was told as %x, it is %x", key, c.Value, want[key])
		}
	}
	if len(disk) != len(want) {
		t.Errorf("told: %d, there are %d", len(disk), len(want))
	}
}
