package shard

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// told is a round as a line of text: "!" for cleared, "-key" for a tombstone,
// "key=value" for an entry.
func told(r *Round) string {
	var words []string
	if r.Cleared {
		words = append(words, "!")
	}
	for _, c := range drain(r) {
		if c.Kind == 0 {
			words = append(words, "-"+string(c.Key))
		} else {
			words = append(words, string(c.Key)+"="+string(c.Value))
		}
	}
	return strings.Join(words, " ")
}

func remove(s *Store, key string) {
	k := []byte(key)
	tx := s.Lock(0, k)
	tx.Delete(k)
	tx.Unlock()
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s told %q, want %q", what, got, want)
	}
}

func TestRounds(t *testing.T) {
	s := New(Config{Shards: 1})
	f := s.NewFeed()
	long := strings.Repeat("v", 100)

	put(s, "a", "1")
	put(s, "b", "1")
	put(s, "a", "2")
	if n := f.Pending(); n != 2 {
		t.Errorf("%d pending, want 2", n)
	}
	want(t, "last value wins", told(f.Cut()), "a=2 b=1")
	want(t, "nothing", told(f.Cut()), "")

	remove(s, "a")
	put(s, "a", "3")
	want(t, "the tombstone before the key made again", told(f.Cut()), "-a a=3")

	put(s, "c", "1")
	remove(s, "c")
	want(t, "came and went", told(f.Cut()), "-c")

	put(s, "a", "4")
	put(s, "a", long)
	want(t, "a record moved", told(f.Cut()), "a="+long)
	check(t, s)

	// What changes after the cut is told as it was at the cut, whether it is
	// overwritten, moved, deleted or deleted and made again.
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		put(s, key, "5")
	}
	r := f.Cut()
	put(s, "a", "6")
	put(s, "b", long)
	remove(s, "c")
	remove(s, "d")
	put(s, "d", "6")
	check(t, s)
	want(t, "the cut", told(r), "e=5 a=5 b=5 c=5 d=5")
	want(t, "after the cut", told(f.Cut()), "a=6 b="+long+" -c -d d=6")
	check(t, s)

	wantPanic(t, "before the one before it was drained", func() { f.Cut(); f.Cut() })
	wantPanic(t, "after the first change", func() { s.NewFeed() })
	fresh := New(Config{})
	fresh.NewFeed()
	fresh.NewFeed()
	wantPanic(t, "more than two", func() { fresh.NewFeed() })
}

func TestClear(t *testing.T) {
	s := New(Config{Shards: 1})
	f := s.NewFeed()
	put(s, "a", "1")
	put(s, "b", "1")
	r := f.Cut()
	put(s, "a", "2")
	s.Clear()
	put(s, "b", "3")
	s.Clear()
	put(s, "c", "4")
	want(t, "the round before", told(r), "b=1 a=1")
	want(t, "the round of the clear", told(f.Cut()), "! c=4")
	put(s, "c", "5")
	want(t, "the round after", told(f.Cut()), "c=5")
	s.Clear()
	want(t, "a clear alone", told(f.Cut()), "!")
	if s.Len() != 0 {
		t.Errorf("%d keys after Clear", s.Len())
	}
	check(t, s)
}

// A Cut returns when nobody can add to its round any more.
func TestCutWaits(t *testing.T) {
	s := New(Config{})
	f := s.NewFeed()
	key := []byte("a")
	tx := s.Lock(0, key)
	var returned atomic.Bool
	cut := make(chan *Round)
	go func() {
		r := f.Cut()
		returned.Store(true)
		cut <- r
	}()
	for f.Round() == 1 {
		runtime.Gosched()
	}
	for range 1000 {
		runtime.Gosched()
	}
	if returned.Load() {
		t.Error("Cut returned while a Tx was in its round")
	}
	tx.Put(key, 1, []byte("1"), 0)
	if tx.Round() != 1 {
		t.Errorf("the Tx went from round 1 to %d", tx.Round())
	}
	tx.Unlock()
	put(s, "a", "2")
	want(t, "the cut", told(<-cut), "a=1")
	want(t, "after the cut", told(f.Cut()), "a=2")
}

// Each feed hears everything, at its own pace.
func TestTwoFeeds(t *testing.T) {
	s := New(Config{Shards: 1})
	f, g := s.NewFeed(), s.NewFeed()
	put(s, "a", "1")
	put(s, "b", "1")
	want(t, "first", told(f.Cut()), "a=1 b=1")
	r := g.Cut()
	put(s, "a", "2")
	remove(s, "b")
	want(t, "first", told(f.Cut()), "a=2 -b")
	put(s, "b", "3")
	want(t, "second", told(r), "a=1 b=1")
	want(t, "second", told(g.Cut()), "a=2 -b b=3")
	want(t, "first", told(f.Cut()), "b=3")
	check(t, s)
	if st := s.Stats(); st.UsedBytes != 2*minSlotBytes {
		t.Errorf("%d bytes in use for 2 entries", st.UsedBytes)
	}
}

// A Next is short of max and of the bytes it may hold.
func TestNextBounds(t *testing.T) {
	s := New(Config{Shards: 2})
	f := s.NewFeed()
	for i := range 200 {
		put(s, fmt.Sprint(i), strings.Repeat("v", 50_000))
	}
	r := f.Cut()
	for i := range 100 { // half of them from copies
		put(s, fmt.Sprint(i), "short")
	}
	n := 0
	for batch := r.Next(1000); batch != nil; batch = r.Next(1000) {
		if len(batch)*50_000 > drainBytes+50_000 {
			t.Errorf("%d changes of 50,000 bytes at once", len(batch))
		}
		n += len(batch)
	}
	if n != 200 {
		t.Errorf("%d changes told of 200", n)
	}
	for i := range 5000 {
		put(s, fmt.Sprint(i), "")
	}
	r = f.Cut()
	for batch := r.Next(300); batch != nil; batch = r.Next(300) {
		if len(batch) > 300 {
			t.Errorf("%d changes told, at most 300 wanted", len(batch))
		}
	}
}

// Money moves between accounts while rounds are cut and drained, the sweep runs
// and entries are iterated: the replay of every round has all of it.
func TestAtomicRounds(t *testing.T) {
	const accounts, start, movers = 300, 1000, 4
	s := New(Config{Shards: 8, KeepExpired: true})
	feeds := []*Feed{s.NewFeed(), s.NewFeed()}
	account := func(i int) []byte { return fmt.Appendf(nil, "account:%d", i) }
	amount := func(v uint64, pad int) []byte {
		return append(binary.LittleEndian.AppendUint64(nil, v), make([]byte, pad)...)
	}
	for i := range accounts {
		put(s, string(account(i)), string(amount(start, 0)))
	}

	transfers := 50_000
	if raceEnabled || testing.Short() {
		transfers = 5_000
	}
	var done atomic.Int64
	stop := make(chan struct{})
	var others, followers sync.WaitGroup
	for g := range movers {
		others.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 2))
			for {
				select {
				case <-stop:
					return
				default:
				}
				transfer(s, rng, account(rng.IntN(accounts)), account(rng.IntN(accounts)), amount)
				done.Add(1)
			}
		})
	}
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s.Sweep(0, time.Millisecond)
			}
		}
	})
	for _, f := range feeds {
		followers.Go(func() {
			state := map[string]Entry{}
			for done.Load() < int64(transfers) {
				for r := f.Cut(); ; {
					batch := r.Next(100)
					replay(state, batch)
					if batch == nil {
						break
					}
				}
				sum := uint64(0)
				for _, e := range state {
					sum += binary.LittleEndian.Uint64(e.Value)
				}
				if sum != accounts*start {
					t.Errorf("round %d holds %d of %d", f.Round()-1, sum, accounts*start)
				}
			}
		})
	}
	followers.Wait()
	close(stop)
	others.Wait()
	check(t, s)
}

// transfer moves something between two accounts; now and then an emptied
// account is deleted, and values change their length.
func transfer(s *Store, rng *rand.Rand, from, to []byte, amount func(v uint64, pad int) []byte) {
	if string(from) == string(to) {
		return
	}
	tx := s.Lock(0, from, to)
	defer tx.Unlock()
	have := func(key []byte) uint64 {
		e, ok := tx.Get(key)
		if !ok {
			return 0
		}
		return binary.LittleEndian.Uint64(e.Value)
	}
	a, b := have(from), have(to)
	n := a
	if rng.IntN(4) > 0 && a > 0 {
		n = rng.Uint64N(a)
	}
	if n == a {
		tx.Delete(from)
	} else {
		tx.Put(from, 1, amount(a-n, rng.IntN(60)), 0)
	}
	tx.Put(to, 1, amount(b+n, rng.IntN(60)), 0)
}

// TestBacklog: the bytes that wait are about those of the records, and none when they were told or dropped.
func TestBacklog(t *testing.T) {
	s := New(Config{Shards: 4})
	f := s.NewFeed()
	long := strings.Repeat("v", 1000)
	for i := range 100 {
		put(s, fmt.Sprint("key", i), "short")
		put(s, fmt.Sprint("key", i), long)
	}
	if n, bytes := f.Backlog(); n < 100 || bytes < 100*len(long) || bytes > 110*len(long) {
		t.Errorf("%d changes of %d bytes wait", n, bytes)
	}
	told(f.Cut())
	put(s, "one", long)
	if _, bytes := f.Backlog(); bytes < len(long) || bytes > len(long)+100 {
		t.Errorf("%d bytes wait of one", bytes)
	}
	s.Clear()
	if _, bytes := f.Backlog(); bytes != 0 {
		t.Errorf("%d bytes wait after a clear", bytes)
	}
}
