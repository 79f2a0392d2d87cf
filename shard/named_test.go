package shard

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlserver/rlserver/engine"
)

func expression(t testing.TB, text string) engine.Limit {
	t.Helper()
	lim, err := engine.ParseExpression([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

func setLimit(t testing.TB, s *Store, name, text string) {
	t.Helper()
	if _, err := s.Limits().Set([]byte(name), expression(t, text)); err != nil {
		t.Fatal(err)
	}
}

func TestLimitNames(t *testing.T) {
	long := strings.Repeat("n", MaxLimitName)
	for _, name := range []string{"a", "*", "wb:*", "wb:orders:list", "a::b", "a:", ":", ":*", "a@b", `"\{}`, long, long[2:] + ":*"} {
		if err := CheckLimitName([]byte(name)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "@a", "#a", "a b", "a\tb", "a\n", "\x00", "é", "wb*", "*wb", "wb:*:list", "**", "wb:**", long + "n"} {
		err := CheckLimitName([]byte(name))
		if err == nil {
			t.Errorf("%q is a name", name)
		} else if !strings.Contains(err.Error(), "wb:orders:list") || len(err.Error()) > 240 {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestResolve(t *testing.T) {
	s := New(Config{})
	l := s.Limits()
	if _, ok := l.Resolve([]byte("a")); ok {
		t.Error("an empty set resolves a name")
	}
	capacity := map[string]string{"*": "1", "wb:*": "2", "wb:orders:*": "3", "wb:orders:list": "4", "wb": "5", "a::*": "6"}
	for name, n := range capacity {
		setLimit(t, s, name, "1:"+n)
	}
	for name, want := range map[string]int64{
		"wb:orders:list": 4, "wb:orders:get": 3, "wb:orders:list:old": 3, "wb:orders:": 3, "wb:orders": 2, "wb:": 2, "wb": 5, "other": 1,
		"other:orders:list": 1, "wbx:orders": 1, "a::b": 6, "a:b": 1, "a:": 1, "wb:orders:*": 3, "wb:stock:*": 2, "*": 1,
	} {
		lim, ok := l.Resolve([]byte(name))
		if !ok || lim.Capacity != want {
			t.Errorf("%q resolves to the one of capacity %d, %v, want %d", name, lim.Capacity, ok, want)
		}
	}
	for _, name := range []string{"", "a b", "x*", strings.Repeat("n", MaxLimitName+1)} {
		if _, ok := l.Resolve([]byte(name)); ok {
			t.Errorf("%q, which is no name, resolves", name)
		}
	}
	for _, gone := range []string{"wb:orders:list", "wb:orders:*", "wb:*", "*"} {
		before, _ := l.Resolve([]byte("wb:orders:list"))
		if _, found, err := l.Delete([]byte(gone)); !found || err != nil {
			t.Fatal(gone, found, err)
		}
		if after, ok := l.Resolve([]byte("wb:orders:list")); ok != (gone != "*") || after.Capacity >= before.Capacity {
			t.Errorf("without %q: capacity %d after %d, %v", gone, after.Capacity, before.Capacity, ok)
		}
	}
	name := []byte("wb:orders:list:of:many:segments")
	setLimit(t, s, "*", "10:20")
	if n := testing.AllocsPerRun(100, func() { l.Resolve(name) }); n != 0 {
		t.Errorf("Resolve allocates %v times", n)
	}
}

func TestLimitsAreBounded(t *testing.T) {
	s := New(Config{})
	var list []NamedLimit
	for i := range MaxLimits {
		list = append(list, NamedLimit{Name: fmt.Sprint("n", i), Limit: expression(t, "10:20")})
	}
	l := s.Limits()
	if _, err := l.SetFile(list); err != nil {
		t.Fatal(err)
	}
	l.Release()
	_, err := l.Set([]byte("one:more"), list[0].Limit)
	if err == nil || !strings.Contains(err.Error(), "10000") || l.Len() != MaxLimits {
		t.Errorf("%d limits, %v", l.Len(), err)
	}
	setLimit(t, s, "n7", "1:1") // one that is there may still be changed
	if _, err := l.SetFile([]NamedLimit{{Name: "of:file", Limit: list[0].Limit}}); err == nil || l.Len() != MaxLimits {
		t.Errorf("%d limits, %v", l.Len(), err)
	}
	if _, found, err := l.Delete([]byte("n8")); !found || err != nil {
		t.Fatal(found, err)
	}
	setLimit(t, s, "one:more", "1:1")
}

func TestLimitsOfFile(t *testing.T) {
	s := New(Config{})
	l := s.Limits()
	file := func(want FileChange, pairs ...string) {
		t.Helper()
		var list []NamedLimit
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, NamedLimit{Name: pairs[i], Limit: expression(t, pairs[i+1])})
		}
		got, err := l.SetFile(list)
		if err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	setLimit(t, s, "mine", "1:1")
	setLimit(t, s, "taken", "1:1")
	file(FileChange{Set: 3, Taken: 1}, "a", "10:20", "b:*", "10:20", "taken", "1:1")
	file(FileChange{}, "a", "10:20", "b:*", "10:20", "taken", "1:1")
	for _, name := range []string{"a", "b:*", "taken"} {
		if _, err := l.Set([]byte(name), expression(t, "5:5")); !errors.Is(err, ErrOfFile) {
			t.Errorf("Set of %q: %v", name, err)
		}
		if _, found, err := l.Delete([]byte(name)); !found || !errors.Is(err, ErrOfFile) {
			t.Errorf("Delete of %q: %v, %v", name, found, err)
		}
	}
	setLimit(t, s, "mine", "2:2")
	file(FileChange{Set: 1, Removed: 2}, "a", "10:30")
	if _, ok := l.Resolve([]byte("b:c")); ok {
		t.Error("a group removed from the file still resolves")
	}
	if _, err := l.SetFile([]NamedLimit{{Name: "fine", Limit: expression(t, "1:1")}, {Name: "b c"}}); err == nil || l.Len() != 2 {
		t.Errorf("%d limits, %v", l.Len(), err)
	}
	if n := l.Release(); n != 1 {
		t.Errorf("%d released", n)
	}
	setLimit(t, s, "a", "5:5")
	file(FileChange{})
	if got := names(l); got != "a=5:5 mine=2:2" {
		t.Error(got)
	}
}

// names shows the limits in one line.
func names(l *Limits) string {
	var words []string
	for _, n := range l.List() {
		words = append(words, n.Name+"="+n.Limit.String())
	}
	return strings.Join(words, " ")
}

// TestLimitsInFeeds changes limits and entries at random and demands that each
// feed tells, round by round, what was in force at the cut, whatever happens
// while a round is drained; Clear leaves the limits.
func TestLimitsInFeeds(t *testing.T) {
	type follower struct {
		feed  *Feed
		state map[string]string
	}
	text := func(cs []Change) map[string]string {
		m := map[string]string{}
		for _, c := range cs {
			m[string(c.Key)] = fmt.Sprint(c.Kind, " ", string(c.Value))
		}
		return m
	}
	rng := rand.New(rand.NewPCG(1, 2))
	s := New(Config{Shards: 4})
	followers := []*follower{{s.NewFeed(), map[string]string{}}, {s.NewFeed(), map[string]string{}}}
	step := func() {
		name := fmt.Sprint("n", rng.IntN(30))
		switch rng.IntN(10) {
		case 0, 1, 2, 3:
			setLimit(t, s, name, fmt.Sprint("1:", 1+rng.IntN(1000)))
		case 4, 5, 6:
			s.Limits().Delete([]byte(name))
		case 7:
			s.Clear()
		default:
			tx := s.Lock(0, []byte(name))
			tx.Put([]byte(name), 1, []byte("entry"), 1000)
			tx.Unlock()
		}
	}
	for range 2000 {
		for range rng.IntN(20) {
			step()
		}
		f := followers[rng.IntN(2)]
		r := f.feed.Cut()
		want := text(s.Limits().Changes())
		entries := false
		for cs := r.Next(1 + rng.IntN(10)); cs != nil; cs = r.Next(1 + rng.IntN(10)) {
			for _, c := range cs {
				switch {
				case c.Space == KeySpace:
					entries = true
				case entries:
					t.Fatal("a limit is told after an entry")
				case c.Kind == 0:
					delete(f.state, string(c.Key))
				default:
					f.state[string(c.Key)] = fmt.Sprint(c.Kind, " ", string(c.Value))
				}
			}
			step()
		}
		if !maps.Equal(f.state, want) {
			t.Fatalf("the feed tells %v, want %v", f.state, want)
		}
	}
	again := New(Config{})
	if err := again.Limits().Load(s.Limits().Changes()); err != nil {
		t.Fatal(err)
	}
	same := func(a, b *NamedLimit) bool { return *a == *b }
	if got, want := again.Limits().List(), s.Limits().List(); !slices.EqualFunc(got, want, same) || len(got) == 0 {
		t.Errorf("loaded %v, want %v", got, want)
	}
	if n := again.Stats(); n.Changes != 0 || n.Limits != int64(len(again.Limits().List())) {
		t.Errorf("%+v", n)
	}
}

func TestLoadLimitsRefuses(t *testing.T) {
	good := Change{Space: LimitSpace, Key: []byte("a"), Kind: byte(FromCommand), Value: []byte("10:20")}
	for want, c := range map[string]Change{
		`"a b"`:     {Key: []byte("a b"), Kind: 1, Value: []byte("10:20")},
		`"ten:20"`:  {Key: []byte("b"), Kind: 1, Value: []byte("ten:20")},
		"origin 99": {Key: []byte("c"), Kind: 99, Value: []byte("10:20")},
	} {
		s := New(Config{})
		err := s.Limits().Load([]Change{good, c})
		if err == nil || !strings.Contains(err.Error(), want) && want != `"ten:20"` || s.Limits().Len() != 0 {
			t.Errorf("%s: %v, %d limits", want, err, s.Limits().Len())
		}
	}
}

// BenchmarkResolve is the look-up that a call with @name costs, exact and by
// the last group of the chain, among 1000 limits.
func BenchmarkResolve(b *testing.B) {
	s := New(Config{})
	var list []NamedLimit
	for i := range 1000 {
		list = append(list, NamedLimit{Name: fmt.Sprintf("wb:service%d:*", i), Limit: expression(b, "10:20")})
	}
	list = append(list, NamedLimit{Name: "wb:orders:list", Limit: expression(b, "10:20")}, NamedLimit{Name: "*", Limit: expression(b, "1:1")})
	if _, err := s.Limits().SetFile(list); err != nil {
		b.Fatal(err)
	}
	for what, name := range map[string]string{"exact": "wb:orders:list", "group": "ms:orders:list"} {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Limits().Resolve([]byte(name))
			}
		})
	}
}

// BenchmarkSetLimit is a change among as many as there can be.
func BenchmarkSetLimit(b *testing.B) {
	s := New(Config{})
	var list []NamedLimit
	for i := range MaxLimits {
		list = append(list, NamedLimit{Name: fmt.Sprintf("wb:service%d:list", i), Limit: expression(b, "10:20")})
	}
	s.Limits().SetFile(list)
	s.Limits().Release()
	b.ReportAllocs()
	for b.Loop() {
		setLimit(b, s, "wb:service7:list", "10:30")
	}
}

// TestNamedLimitJudges empties a key under 10/s and then names another limit:
// past the old deadline the key is what the new limit says, for a command, for
// the sweep and for a load.
func TestNamedLimitJudges(t *testing.T) {
	const clock, hour = int64(1_000_000_000), int64(3_600_000)
	key := []byte("user:1")
	for _, c := range []struct {
		what, name, limit string // "" deletes the limit
		kept              bool
		deadline          int64 // after the sweep
	}{
		{"as it was", "wb:list", "10:100", false, 0},
		{"slower", "wb:list", "100/1h:100", true, clock + hour},
		{"a group is slower", "wb:*", "100/1h:100", true, clock + hour},
		{"larger, not slower", "wb:list", "10:200", true, clock + 20_000},
		{"another algorithm", "wb:list", "log:5/15m", false, 0},
		{"deleted", "wb:list", "", false, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := New(Config{})
			asked := []byte("wb:list")
			setLimit(t, s, c.name, "10:100")
			lim, ok := s.Limits().Resolve(asked)
			if !ok || lim.Name != "wb:list" {
				t.Fatalf("%+v, %v", lim, ok)
			}
			value, d, err := engine.Acquire(nil, lim, nil, clock, engine.Op{Cost: 100})
			if err != nil {
				t.Fatal(err)
			}
			asked[0] = 'x' // the entry's name is a copy
			tx := s.Lock(clock, key)
			tx.Put(key, byte(lim.Algorithm), value, d.ResetAfter)
			tx.Unlock()
			stored := Change{Key: key, Kind: byte(lim.Algorithm), Value: value, Deadline: clock + d.ResetAfter}
			if c.limit != "" {
				setLimit(t, s, c.name, c.limit)
			} else if _, found, err := s.Limits().Delete([]byte(c.name)); !found || err != nil {
				t.Fatal(found, err)
			}
			later := stored.Deadline + 1
			tx = s.Lock(later, key)
			_, found := tx.Get(key)
			tx.Unlock()
			if found != c.kept {
				t.Errorf("found %v past the old deadline, want %v", found, c.kept)
			}
			if dropped, _ := s.Sweep(later, time.Second); (dropped == 0) != c.kept {
				t.Errorf("the sweep dropped %d", dropped)
			}
			tx = s.Lock(later, key)
			e, _ := tx.Get(key)
			tx.Unlock()
			if e.Deadline != c.deadline {
				t.Errorf("deadline %d after the sweep, want %d", e.Deadline, c.deadline)
			}
			again := New(Config{})
			if err := again.Limits().Load(s.Limits().Changes()); err != nil {
				t.Fatal(err)
			}
			if kept, err := load(again, later, later, stored); kept != c.kept || err != nil {
				t.Errorf("the load keeps it: %v, %v, want %v", kept, err, c.kept)
			}
		})
	}
}

// TestLimitsUnderRace changes limits while entries are judged by them and
// rounds are cut.
func TestLimitsUnderRace(t *testing.T) {
	s := New(Config{Shards: 4})
	feed := s.NewFeed()
	setLimit(t, s, "*", "10:100")
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := int64(0); ; i++ {
				select {
				case <-done:
					return
				default:
				}
				key, name := fmt.Appendf(nil, "user:%d", i%50), fmt.Appendf(nil, "n%d", i%5)
				lim, ok := s.Limits().Resolve(name)
				if !ok {
					t.Error("no limit")
				}
				tx := s.Lock(i, key)
				e, _ := tx.Get(key)
				if v, d, err := engine.Acquire(nil, lim, e.Value, i, engine.Op{Cost: 1}); err != nil {
					t.Error(err)
				} else if v != nil {
					tx.Put(key, e.Kind|byte(lim.Algorithm), v, d.ResetAfter)
				}
				tx.Unlock()
			}
		})
	}
	for i := range 300 {
		name := fmt.Sprint("n", i%5)
		if i%3 == 0 {
			s.Limits().Delete([]byte(name))
		} else {
			setLimit(t, s, name, fmt.Sprint(1+i, ":100"))
		}
		s.Sweep(int64(i)*1000, time.Millisecond)
		for r := feed.Cut(); r.Next(100) != nil; {
		}
		s.Stats()
		feed.Pending()
	}
	close(done)
	wg.Wait()
	check(t, s)
}

// TestListIsSorted: whatever is set, changed and deleted, List has all by name,
// and one that was returned stays as it was.
func TestListIsSorted(t *testing.T) {
	l := New(Config{}).Limits()
	rng := rand.New(rand.NewPCG(1, 2))
	want := map[string]string{}
	for range 2000 {
		before := l.List()
		copied := slices.Clone(before)
		name, expr := fmt.Sprintf("limit:%d", rng.IntN(100)), fmt.Sprintf("%d:10", 1+rng.IntN(5))
		if rng.IntN(3) == 0 {
			l.Delete([]byte(name))
			delete(want, name)
		} else {
			n := NamedLimit{Name: name}
			if err := n.Parse([]byte(expr)); err != nil {
				t.Fatal(err)
			}
			if _, err := l.SetNamed(n); err != nil {
				t.Fatal(err)
			}
			want[name] = expr
		}
		if !slices.Equal(before, copied) {
			t.Fatal("a list changed after it was returned")
		}
		var names []string
		for _, n := range l.List() {
			if n.Expression() != want[n.Name] {
				t.Fatalf("%s is %s, want %s", n.Name, n.Expression(), want[n.Name])
			}
			names = append(names, n.Name)
		}
		if !slices.Equal(names, slices.Sorted(maps.Keys(want))) {
			t.Fatalf("listed %q", names)
		}
	}
}
