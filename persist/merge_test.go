package persist

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rlserver/rlserver/shard"
)

// TestRoundsDuringAMerge: rounds written between the steps of a merge, a clear among them, are left for the next one, and what the
// flusher believes of the journal is what is in it.
func TestRoundsDuringAMerge(t *testing.T) {
	for _, remember := range []int{0, 1000} {
		h, err := newGeneration(vfs.NewMem(), dir, 1, point{}, new(site))
		if err != nil {
			t.Fatal(err)
		}
		var j journal
		table := map[string]string{}
		round := func(cleared bool, from, to int) {
			t.Helper()
			w := newRoundWriter(h, tuning{chunkRecords: 2}.withDefaults(), j.last, new(sketch))
			if w.c.cleared = cleared; cleared {
				clear(table)
			}
			for i := from; i < to; i++ {
				c := shard.Change{Key: []byte(fmt.Sprint(i)), Kind: 1, Value: fmt.Append(nil, j.last.round)}
				if table[string(c.Key)] = string(c.Value); i%5 == 4 {
					c.Kind, c.Value = 0, nil
					delete(table, string(c.Key))
				}
				if err := w.add(c); err != nil {
					t.Fatal(err)
				}
			}
			c, err := w.commit(start, 100)
			if err != nil {
				t.Fatal(err)
			}
			j.add(c)
		}
		steps := 0
		merge := func(between func()) {
			t.Helper()
			m := newMerger(j, 100, remember)
			for done := false; !done; between = nil {
				if err := h.run(func(db *pebble.DB) (err error) { done, err = m.step(db, 3); return err }); err != nil {
					t.Fatal(err)
				}
				if steps++; between != nil {
					between()
				}
			}
			j.merged(m.journal)
			err := h.run(func(db *pebble.DB) error {
				there, err := readJournal(db, new(sketch))
				if there != j {
					t.Errorf("the journal is %+v, believed to be %+v", there, j)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		round(false, 0, 20)
		round(false, 10, 30)
		merge(func() { round(false, 5, 15); round(true, 12, 18); round(false, 17, 22) })
		if j.cleared == 0 || j.changes != 10+6+5 {
			t.Errorf("after the first merge: %+v", j)
		}
		merge(nil)
		if steps < 8 || j != (journal{base: j.last, last: j.last, steps: j.steps}) || j.steps.last == 0 {
			t.Errorf("after %d steps: %+v", steps, j)
		}
		if got := tableOf(t, h); !maps.Equal(got, table) {
			t.Errorf("got %v, want %v", got, table)
		}
		h.abandon()
	}
}

func tableOf(t *testing.T, h *handle) map[string]string {
	m := map[string]string{}
	err := h.run(func(db *pebble.DB) error {
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: tableBound(0), UpperBound: tableBound(partitions)})
		if err != nil {
			return err
		}
		defer it.Close()
		for ok := it.First(); ok; ok = it.Next() {
			c, err := decodeEntry(it.Key()[2:], it.Value())
			if err != nil {
				return err
			}
			m[string(c.Key)] = string(c.Value)
		}
		return it.Error()
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSketch(t *testing.T) {
	s := new(sketch)
	for range 3 {
		for i := range mergeEntries {
			s.add(fmt.Appendf(nil, "user:%d", i))
		}
	}
	if s.count > mergeEntries || s.count < mergeEntries*9/10 {
		t.Errorf("%d distinct keys counted as %d", mergeEntries, s.count)
	}
}

// TestMergeGivenUp: a handle that dies in the middle of a merge is closed all the same, and nothing of Pebble's is left.
func TestMergeGivenUp(t *testing.T) {
	h, err := newGeneration(vfs.NewMem(), dir, 1, point{}, new(site))
	if err != nil {
		t.Fatal(err)
	}
	d := &DB{h: h}
	d.o.tune = tuning{chunkRecords: 2, mergeLines: 1}.withDefaults()
	w := newRoundWriter(h, d.o.tune, point{}, &d.distinct)
	for i := range 20 {
		if err := w.add(shard.Change{Key: fmt.Append(nil, i), Kind: 1}); err != nil {
			t.Fatal(err)
		}
	}
	c, err := w.commit(start, 20)
	if err != nil {
		t.Fatal(err)
	}
	d.journal.add(c)
	if err := d.mergeStep(); err != nil || d.merging == nil {
		t.Fatal("no merge is under way", err)
	}
	h.guard.fail(errors.New("the disk is gone"))
	if err := h.closeFrozen(); err != nil {
		t.Error(err)
	}
}

// TestMissingStep: a table that lacks one of the batches it was written in is not taken for whole.
func TestMissingStep(t *testing.T) {
	o := Options{FS: vfs.NewMem(), Dir: dir, Mode: Shutdown, tune: tuning{chunkRecords: 20, mergeLines: 20}}
	w := open(t, o)
	for i := range 100 {
		w.debit(fmt.Sprint(i))
	}
	w.save()
	w.close()
	last := w.db.journal.steps.last
	if last < 3 {
		t.Fatalf("the table was written in %d batches", last)
	}
	h, err := openHandle(o.FS, w.db.generationDir(1), 1, false, new(site))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.run(func(db *pebble.DB) error { return db.Delete(stepKey(last-1), pebble.Sync) }); err != nil {
		t.Fatal(err)
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := opened(t, o); err == nil || !strings.Contains(err.Error(), "is missing") || !helpful(err) {
		t.Errorf("a start without batch %d of %d: %v", last-1, last, err)
	}
}

// TestSeen: a set tells each hash for new once, also when there are many more than it expects.
func TestSeen(t *testing.T) {
	for _, expected := range []int{0, 100, 5000} {
		s := newSeen(expected)
		for round := range 2 {
			for i := range 5000 {
				h := s.hash(shard.KeySpace, fmt.Append(nil, i))
				s.touch([][2]uint64{h})
				if s.add(h) != (round == 0) {
					t.Fatalf("expecting %d: key %d in round %d", expected, i, round)
				}
			}
		}
		if n := s.memory(); n < 5000*16*4/3 || n > 5000*16*8/3 {
			t.Errorf("expecting %d: %d bytes", expected, n)
		}
	}
	if n := (*seen)(nil).memory(); n != 0 {
		t.Errorf("no set takes %d bytes", n)
	}
}
