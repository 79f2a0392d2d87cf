package shard

import (
	"math/rand/v2"
	"testing"
)

// Every size has a class, the smallest that holds it, and no slot is much
// larger than what it is for.
func TestClasses(t *testing.T) {
	for n := 1; n <= maxChunkBytes; n++ {
		c := classOf(n)
		size := slotSizes[c]
		if size < n || c > 0 && slotSizes[c-1] >= n {
			t.Fatalf("%d bytes go to a slot of %d", n, size)
		}
		if size > max(n+n/7+slotUnit, minSlotBytes) {
			t.Fatalf("%d bytes waste a slot of %d", n, size)
		}
	}
}

// Slots do not overlap, and what is freed is used again and given back.
func TestArena(t *testing.T) {
	var a arena
	rng := rand.New(rand.NewPCG(1, 1))
	type slot struct {
		r    ref
		size int
		mark byte
	}
	var slots []slot
	write := func(s slot) {
		rec := a.at(s.r)
		for i := range s.size {
			rec[i] = s.mark
		}
		rec[0] = 0
	}
	for step := range 20_000 {
		if len(slots) > 0 && (step > 10_000 || rng.IntN(3) == 0) {
			i := rng.IntN(len(slots))
			s := slots[i]
			for _, b := range a.at(s.r)[1:s.size] {
				if b != s.mark {
					t.Fatal("a slot was overwritten")
				}
			}
			a.free(s.r)
			slots[i] = slots[len(slots)-1]
			slots = slots[:len(slots)-1]
			continue
		}
		size := 13 + rng.IntN(100)
		if rng.IntN(100) == 0 {
			size = 13 + rng.IntN(maxChunkBytes-13)
		}
		s := slot{a.alloc(size), size, byte(step)}
		write(s)
		slots = append(slots, s)
	}
	for _, s := range slots {
		a.free(s.r)
	}
	checkArena(t, &a)
	if a.live != 0 || a.held > len(slotSizes)*maxChunkBytes/2 {
		t.Errorf("%d bytes live, %d held after all were freed", a.live, a.held)
	}
	a.trim()
	if a.held != 0 {
		t.Errorf("%d bytes held after trim", a.held)
	}

	r := a.alloc(20)
	a.at(r)[0] = 0
	a.free(r)
	wantPanic(t, "freed twice", func() { a.free(r) })
}

// Many slots of one size freed leave one empty chunk at most.
func TestArenaGivesBack(t *testing.T) {
	var a arena
	var refs []ref
	for range 10_000 {
		r := a.alloc(48)
		a.at(r)[0] = 0
		refs = append(refs, r)
	}
	for _, r := range refs {
		a.free(r)
	}
	if a.held > maxChunkBytes {
		t.Errorf("%d bytes held after all were freed", a.held)
	}
}

// A value that shrank much does not keep its large slot.
func TestShrink(t *testing.T) {
	s := New(Config{Shards: 1})
	put(s, "a", string(make([]byte, 10_000)))
	put(s, "a", "small")
	if st := s.Stats(); st.UsedBytes != minSlotBytes {
		t.Errorf("%d bytes used for a small entry", st.UsedBytes)
	}
}
