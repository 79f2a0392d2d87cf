package persist

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rlserver/rlserver/shard"
)

// A Mode says when rounds are written.
type Mode byte

const (
	// Interval writes what changed every Options.Interval, and whenever somebody asks.
	Interval Mode = iota
	// Shutdown writes only when somebody asks, and on Close.
	Shutdown
	// Always writes as Interval does; that every change is asked for, and waited for, is up to who answers for it.
	Always
	// Reserve is as Always, of a store that hands over more than what changed: see shard.Ahead.
	Reserve
)

// modeNames are the texts of the option `durability`.
var modeNames = [...]string{Interval: "interval", Shutdown: "shutdown", Always: "always", Reserve: "reserve"}

// ParseMode reads the value of the option `durability`.
func ParseMode(s string) (Mode, error) {
	if i := slices.Index(modeNames[:], s); i >= 0 {
		return Mode(i), nil
	}
	return 0, fmt.Errorf("durability %.64q: expected interval, always, reserve or shutdown", s)
}

// String is the text that ParseMode reads.
func (m Mode) String() string { return modeNames[m] }

// Promise is what replies wait for in this mode.
func (m Mode) Promise() shard.Promise {
	switch m {
	case Always:
		return shard.Changes
	case Reserve:
		return shard.Ahead
	}
	return shard.Nothing
}

// meanwhile is what goes on while nothing can be written, for the log.
func (m Mode) meanwhile() string {
	switch m.Promise() {
	case shard.Changes:
		return "changes are refused meanwhile, all else is answered; nothing that was answered is lost"
	case shard.Ahead:
		return "what must be synced is refused meanwhile, calls within a block go on; nothing admitted is admitted twice"
	}
	return "decisions go on from memory and a restart would forget them"
}

// periodic says whether rounds are written without being asked for.
func (m Mode) periodic() bool { return m != Shutdown }

// Options say where and how to keep the entries. Dir is required.
type Options struct {
	Dir      string        // created with mode 0700 if absent
	Mode     Mode          //
	Interval time.Duration // between rounds that nobody asks for; 0 means DefaultInterval
	FS       vfs.FS        // nil means the disk
	Log      *slog.Logger  // nil means no log

	tune tuning // for tests; zero fields mean the constants below
}

// DefaultInterval is the time between rounds that nobody asks for.
const DefaultInterval = time.Second

// Pebble's memory. A memtable starts at 256 KiB and doubles up to memTableBytes; up to maxMemTables of them wait to be flushed. With 4 MiB
// each, 2 to 4 MiB more are resident after a million new keys, at 1 or 2 % less CPU time; with 1 MiB 1 MiB less, at 5 to 9 % more. The
// cache only serves compactions and the load: nothing is ever read while commands are served.
const (
	memTableBytes = 2 << 20
	maxMemTables  = 3
	cacheBytes    = 1 << 20
	maxOpenFiles  = 256
)

// On a file system smaller than smallDisk the journal, the memtables and with them the log are kept small.
const (
	smallDisk          = 512 << 20
	smallMemTableBytes = 1 << 20
	smallMergeBytes    = 2 << 20
)

// The table is only read as a whole, at start-up, so many small files on its top level cost little, and merging them late saves most of
// the compactions. Pebble counts each table that lies on top of others twice: the limit is 24 of them. With 50,000 of a million keys
// changed a second 3 compactions write 77 MB in 40 s, at a limit of 8 it was 5 and 123 MB; a load takes the same CPU time.
const (
	l0Compaction      = 48
	smallL0Compaction = 16 // on a small file system: they take room
	l0StopWrites      = 128
)

// pebbleFormat is the newest format of the Pebble version in go.mod, written out so that it never changes without a decision: from
// FormatWALSyncChunks on, damage in the middle of the log is noticed.
const pebbleFormat = pebble.FormatValueSeparation

const (
	// chunkRecords is how many changes make a chunk of the journal, and a batch of a merge: the size at which Pebble is fastest.
	chunkRecords = 1000
	// chunkBytes ends a chunk early, far below half a memtable, where Pebble would treat it as a special case.
	chunkBytes = 256 << 10
	// mergeBytes, mergeEntries and mergeEvery bound the journal; the first reached starts a merge. mergeEntries counts distinct keys,
	// because a merge remembers 21 to 43 bytes of each, of at most twice as many.
	mergeBytes   = 32 << 20
	mergeEntries = 1 << 17
	mergeEvery   = time.Minute
	// mergeLines is how many lines of the journal are merged at a time: 0.4 ms.
	mergeLines = 256
	// sealEvery is the least time between two seals, so that a burst of urgent rounds does not sync three times each.
	sealEvery = 250 * time.Millisecond
	// urgentGap is the least time from one round to the next that nobody waits for.
	urgentGap = 20 * time.Millisecond
	// lookEvery is how often it is asked whether anything is waiting for a round. The lag is told with this error.
	lookEvery = time.Second
	// figuresEvery is how often the size on disk is asked of Pebble, and memoryEvery how often at most that in memory, which takes 10 us.
	figuresEvery = 10 * time.Second
	memoryEvery  = time.Second
	// memoryFade is by what part of it a peak of that is forgotten each time.
	memoryFade = 8
	// retryFirst and retryMost bound the pause between attempts to write a new generation. A full disk is looked at every retryFirst
	// and tried at once when there seems to be room.
	retryFirst = time.Second
	retryMost  = 30 * time.Second
	// retryPromised is retryMost where changes are refused meanwhile.
	retryPromised = 5 * time.Second
	// roomSpare is the space that must be free beyond the expected size before an attempt is made, in bytes.
	roomSpare = 4 << 20
	// logEvery is how often the same trouble is logged.
	logEvery = time.Minute
	// slowDisk is how long an operation may take before it is called slow.
	slowDisk = 5 * time.Second
)

// tuning are constants that tests make small.
type tuning struct {
	chunkRecords, mergeEntries, mergeBytes, mergeLines int
}

func (t tuning) withDefaults() tuning {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	set(&t.chunkRecords, chunkRecords)
	set(&t.mergeEntries, mergeEntries)
	set(&t.mergeBytes, mergeBytes)
	set(&t.mergeLines, mergeLines)
	return t
}
