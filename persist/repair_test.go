package persist

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rlserver/rlserver/shard"
)

const newDir = "/new"

// repaired repairs what a file system holds and loads the result.
func repaired(t testing.TB, fs *vfs.MemFS) (state, *RepairReport, error) {
	t.Helper()
	r, err := Repair(dir, newDir, fs, nil)
	if err != nil {
		return nil, nil, err
	}
	w, err := opened(t, Options{FS: fs, Dir: newDir, Mode: Shutdown})
	if err != nil {
		t.Fatalf("a start on what was repaired: %v", err)
	}
	st := w.state()
	if w.info.Clean != r.Clean || w.info.Warning != "" {
		t.Errorf("start %+v, repair %+v", w.info, r)
	}
	w.close()
	return st, r, nil
}

// TestRepairOfWhatIsWell: nothing is lost, and nothing changed.
func TestRepairOfWhatIsWell(t *testing.T) {
	h := newHistory(t)
	for _, image := range []image{h.earlier, h.unsealed, h.crashed, h.clean} {
		fs := written(t, image.files)
		got, r, err := repaired(t, fs)
		if err != nil || r.Lost.Total > 0 {
			t.Fatalf("%s: %+v, %v", image.what, r, err)
		}
		wantState(t, got, image.want)
		if r.Entries+r.Limits != len(got) || r.Clean != (image.what == h.clean.what) {
			t.Errorf("%s: %+v", image.what, r)
		}
		if after := files(t, fs, dir); !maps.EqualFunc(after, image.files, slices.Equal) {
			t.Errorf("%s: the old directory was changed", image.what)
		}
	}
}

// A damage is one way in which a file has gone bad.
type damage struct {
	what string
	do   func(b []byte) (_ []byte, gone bool)
}

// damages are so many flips of bytes at equal distances, and what can happen to a whole file.
func damages(name string, size, flips int) (all []damage) {
	for at := len(name) % 7; at < size && flips > 0; at += 1 + size/flips {
		all = append(all, damage{fmt.Sprintf("byte %d of %d", at, size), func(b []byte) ([]byte, bool) { b[at] ^= 0x10; return b, false }})
	}
	return append(all,
		damage{"missing", func(b []byte) ([]byte, bool) { return nil, true }},
		damage{"empty", func(b []byte) ([]byte, bool) { return nil, false }},
		damage{"halved", func(b []byte) ([]byte, bool) { return b[:len(b)/2], false }},
		damage{"cut by one", func(b []byte) ([]byte, bool) { return b[:max(0, len(b)-1)], false }},
		damage{"zeroed", func(b []byte) ([]byte, bool) { return make([]byte, len(b)), false }},
		damage{"longer", func(b []byte) ([]byte, bool) { return append(b, make([]byte, 5000)...), false }},
		damage{"twice", func(b []byte) ([]byte, bool) { return append(b, b...), false }},
	)
}

// each calls f with the image under each damage.
func (im image) each(flips int, f func(what string, damaged map[string][]byte)) {
	n, step := 0, thin|1 // odd, so that each kind of damage has its turn
	for _, name := range slices.Sorted(maps.Keys(im.files)) {
		if name == dir+"/"+lockFile {
			continue // a file system in memory empties it; TestToolsOnDisk looks at a real one
		}
		for _, d := range damages(name, len(im.files[name]), flips) {
			if n++; n%step != 0 {
				continue
			}
			damaged := maps.Clone(im.files)
			b, gone := d.do(slices.Clone(im.files[name]))
			if damaged[name] = b; gone {
				delete(damaged, name)
			}
			f(fmt.Sprintf("%s, %s %s", im.what, name, d.what), damaged)
		}
	}
}

// TestRepair: whatever is damaged, what is saved is right, or a state that the entry had before, and no more is missing than is said.
func TestRepair(t *testing.T) {
	h := newHistory(t)
	for _, image := range []image{h.clean, h.crashed, h.unsealed} {
		testRepair(t, h.rounds, image, fewFlips())
	}
	long, rounds := longHistory(t)
	for _, image := range long {
		testRepair(t, rounds, image, fewFlips())
	}
}

// fewFlips is flips for what takes longer.
func fewFlips() int {
	if soaking {
		return flips()
	}
	return max(1, 4/thin)
}

func testRepair(t *testing.T, rounds []state, image image, flips int) {
	whole, some, uncounted := 0, 0, 0
	image.each(flips, func(what string, damaged map[string][]byte) {
		fs := written(t, damaged)
		got, r, err := repaired(t, fs)
		if after := files(t, fs, dir); !maps.EqualFunc(after, damaged, slices.Equal) {
			t.Fatalf("%s: the repair changed the directory", what)
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		missing, earlier, wrong := image.compare(rounds, got)
		switch {
		case wrong > 0:
			t.Errorf("%s: %d entries that never were; %+v", what, wrong, r)
		case missing+earlier == 0:
			whole++
		case image.before != nil && maps.Equal(got, image.before):
			some++ // which a start would take for a crash, too
		case !r.Uncounted && missing+earlier > r.Most() || r.Lost.Total == 0:
			t.Errorf("%s: %d missing, %d earlier: %+v", what, missing, earlier, r)
		default:
			if some++; r.Uncounted {
				uncounted++
			}
		}
	})
	t.Logf("%s: %d files, %d times all was saved, %d times less, %d of them uncounted", image.what, len(image.files), whole, some, uncounted)
}

// longHistory are images of a directory that Pebble has compacted, in which keys came and went, and the states at the end of its rounds.
func longHistory(t *testing.T) (images []image, rounds []state) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		w := open(t, Options{FS: mem, Interval: time.Hour, tune: tuning{mergeEntries: 500}})
		save := func() {
			w.save()
			rounds = append(rounds, w.state())
			time.Sleep(time.Second)
			synctest.Wait()
		}
		compact := func() {
			time.Sleep(2 * mergeEvery)
			err := w.db.h.run(func(db *pebble.DB) error { return db.Compact(t.Context(), []byte{0}, []byte{255}, false) })
			if err != nil {
				t.Fatal(err)
			}
		}
		key := func(i int) string { return fmt.Sprintf("key:%04d", i) }
		for i := range 1500 {
			w.debit(key(i))
		}
		w.limit("a:*", 5)
		save()
		compact()
		for i := range 300 {
			w.forget(key(3 * i))
			w.debit(key(4*i+1), "hot")
		}
		w.limit("b", 6)
		save()
		time.Sleep(2 * mergeEvery)
		for i := range 600 {
			w.debit(key(2*i), "hot")
		}
		w.limit("a:*", 7)
		save()
		time.Sleep(2 * mergeEvery)
		for i := range 100 {
			w.debit(key(7*i), "hot")
			w.forget(key(11 * i))
		}
		save()
		synctest.Wait()
		images = append(images, image{what: "a long life and a crash", files: files(t, mem, dir), want: w.state()})
		w.close()
		images = append(images, image{what: "a long life", files: files(t, mem, dir), want: w.state()})
	})
	return images, rounds
}

// compare says how many entries of the image are missing, in a state that they had earlier, or in one that they never had.
func (im image) compare(rounds []state, got state) (missing, earlier, wrong int) {
	for k, n := range got {
		switch {
		case n == im.want[k]:
		case slices.ContainsFunc(rounds, func(s state) bool { return s[k] == n }):
			earlier++
		default:
			wrong++
		}
	}
	for k := range im.want {
		if _, ok := got[k]; !ok {
			missing++
		}
	}
	return missing, earlier, wrong
}

// sabotage changes records of a generation behind the back of everybody.
func sabotage(t *testing.T, fs vfs.FS, change func(b *pebble.Batch, db *pebble.DB) error) {
	t.Helper()
	h, err := openHandle(fs, dir+"/"+generationName(1), 1, false, &site{})
	if err != nil {
		t.Fatal(err)
	}
	err = h.run(func(db *pebble.DB) error {
		b := db.NewBatch()
		defer b.Close()
		if err := change(b, db); err != nil {
			return err
		}
		return b.Commit(pebble.Sync)
	})
	if err == nil {
		err = h.close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// flipped has a bit of the record of a key flipped.
func flipped(key []byte) func(*pebble.Batch, *pebble.DB) error {
	return func(b *pebble.Batch, db *pebble.DB) error {
		value, closer, err := db.Get(key)
		if err != nil {
			return err
		}
		defer closer.Close()
		value = slices.Clone(value)
		value[len(value)/2] ^= 4
		return b.Set(key, value, nil)
	}
}

func deleted(key []byte) func(*pebble.Batch, *pebble.DB) error {
	return func(b *pebble.Batch, _ *pebble.DB) error { return b.Delete(key, nil) }
}

func set(key, value []byte) func(*pebble.Batch, *pebble.DB) error {
	return func(b *pebble.Batch, _ *pebble.DB) error { return b.Set(key, value, nil) }
}

// TestRepairOfRecords: what is wrong with a record although Pebble finds nothing. The directory has "old" in the table and three rounds in
// the journal: a and b, b and c, c and d, debited together; and a named limit.
func TestRepairOfRecords(t *testing.T) {
	var image map[string][]byte
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewCrashableMem()
		w := open(t, Options{FS: mem, Interval: time.Hour})
		w.debit("old", "older", "b")
		w.limit("name", 5)
		w.save()
		time.Sleep(2 * mergeEvery)
		for _, pair := range []string{"ab", "bc", "cd"} {
			w.debit(pair[:1], pair[1:])
			w.save()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		image = files(t, mem, dir)
		w.close()
	})
	whole := state{"old": 1, "older": 1, "a": 1, "b": 3, "c": 2, "d": 1, "@name": 5}
	old := appendTableKey(nil, shard.KeySpace, []byte("old"))
	for _, c := range []struct {
		what      string
		do        func(*pebble.Batch, *pebble.DB) error
		found     string
		lost      state // the keys whose state is another, 0 if there is none
		most      int
		uncounted bool
	}{
		{"an entry", flipped(old), `entry of key "old": checksum`, state{"old": 0}, 1, false},
		{"an entry of another key", set(old, appendEntry(nil, shard.Change{Key: []byte("odd"), Kind: 1, Value: []byte{1}})), "checksum", state{"old": 0}, 1, false},
		{"an entry that is none", set(old, appendEntry(nil, shard.Change{Key: []byte("old"), Kind: 1, Value: []byte{1}})), "malformed", state{"old": 0}, 1, false},
		{"an entry in the wrong partition", set([]byte{tableSpace, old[1] + 1, 'x'}, appendEntry(nil, shard.Change{Key: []byte("x"), Kind: 1, Value: []byte{1}})), "partition", nil, 1, false},
		{"a named limit", set([]byte("nname"), appendEntry(nil, shard.Change{Key: []byte("name"), Kind: 1, Value: []byte("fast")})), `named limit "name"`, state{"@name": 0}, 1, false},
		{"a chunk", flipped(journalKey(3, 0)), "round 3 of the journal: chunk 0: checksum does not match; it had 2 changes", state{"b": 2}, 2, false},
		{"a chunk of the last round", flipped(journalKey(4, 0)), "round 4 of the journal", state{"c": 1, "d": 0}, 2, false},
		{"a missing chunk", deleted(journalKey(2, 0)), "round 2 of the journal: it has 0 chunks", state{"a": 0}, 2, false},
		{"a commit record", flipped(journalKey(3, commitChunk)), "round 3 of the journal: commit record: checksum", state{"b": 2}, 0, true},
		{"a missing commit record", deleted(journalKey(3, commitChunk)), "round 3 of the journal: its commit record is missing", state{"b": 2}, 0, true},
		{"the last commit record", deleted(journalKey(4, commitChunk)), "round 4 was synced", state{"c": 1, "d": 0}, 0, true},
		{"a step", deleted(stepKey(1)), "part 1 of", nil, 0, true},
		{"a stranger", set([]byte("jonas"), nil), "not a journal key", nil, 0, false},
		{"a round that is too old", set(journalKey(1, 0), []byte{1}), "round 1 is in the journal though", nil, 0, false},
	} {
		fs := written(t, image)
		sabotage(t, fs, c.do)
		r, err := Check(dir, fs)
		if err != nil || !strings.Contains(strings.Join(r.Damage.Lines, "; "), c.found) {
			t.Errorf("%s: the check finds %q, %v", c.what, r.Damage.Lines, err)
		}
		if _, _, err := stateOn(t, written(t, files(t, fs, dir))); err == nil {
			t.Errorf("%s: a start takes it", c.what)
		}
		got, p, err := repaired(t, fs)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		want := maps.Clone(whole)
		for k, n := range c.lost {
			if want[k] = n; n == 0 {
				delete(want, k)
			}
		}
		if !maps.Equal(got, want) || p.Most() != c.most || p.Uncounted != c.uncounted || p.Lost.Total == 0 || p.Clean {
			t.Errorf("%s: saved %v, want %v; %+v", c.what, got, want, p)
		}
	}
}
