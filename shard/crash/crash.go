// Package crash runs random histories of calls against a store whose disk loses
// its power again and again, and says whether anything was admitted that would
// not have been without: for the tests of those who keep entries on a disk.
//
// Call [Run] with a [Disk]; [Memory] is the simplest. Every choice comes from the
// seed, so a run that fails fails again. What counts is what callers were
// answered. For each key a model keeps the states of servers that never crashed
// and heard what this one has answered; of what it did not answer they may have
// heard or not. If a call is admitted that none of them admits, tokens were
// admitted twice.
package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
)

// ErrPower is what a Disk returns when its power went by itself. The run then
// goes on with Lose.
var ErrPower = errors.New("the power went")

// A Disk keeps a store's entries, and loses its power. It is driven by the run,
// between calls.
type Disk interface {
	// Start makes a store of what is durable. clock and maxTS are as in
	// shard.Store.Loader; drain, if not 0, is for shard.Store.Drain before the load.
	Start(c shard.Config, clock, maxTS, drain int64) (*shard.Store, error)
	// Write goes on writing for a while, or returns ErrPower.
	Write(rng *rand.Rand) error
	// Ask asks for a round to become durable soon.
	Ask(round uint64)
	// Durable is the last round that is durable, with all before it.
	Durable() uint64
	// Lose is the power going. What was durable stays.
	Lose(rng *rand.Rand) error
	// Stop is a clean stop: everything is durable then. Or it returns ErrPower.
	Stop() error
}

// Options say what a history is made of.
type Options struct {
	Seed    uint64
	Lives   int // times that the store is started
	Calls   int // in a life, about
	Promise shard.Promise
	Block   engine.Block // as in shard.Config
	Skew    int64        // ms that a caller's clock may be off by

	Debts     bool // MAXWAIT, FORCE
	Penalties bool
	Refunds   bool
	Resets    bool // of keys, and of all now and then
	Limits    bool // limits that change, named ones while they are in use
	Backwards bool // the wall clock may go back over a stop; buckets and logs only
	Trusted   bool // callers' times have nothing to do with the clock

	Drain    bool // what is lost counts as taken
	Tolerate bool // count what is admitted twice instead of failing
	Exact    bool // what is loaded must be what was answered, to the last byte
}

// A Report says what a run did.
type Report struct {
	Calls, Admitted int64   // made; tokens answered
	AtOnce          int64   // changes that waited for nothing
	Waited          int64   // changes that waited for a round
	Unanswered      int64   // of those: cut off by a crash
	Crashes         int64   //
	Twice           int64   // with Tolerate: tokens that would not have been admitted without a crash
	Lost            int64   // with Tolerate: tokens admitted and then lost by a disk, that Twice may come to
	Taken           float64 // tokens that crashes took from the callers of a bucket whose limit never changes
	TakenMost       float64 // the most in one crash, as a part of the block
}

// Add adds what another run did.
func (r *Report) Add(other Report) {
	r.Calls += other.Calls
	r.Admitted += other.Admitted
	r.AtOnce += other.AtOnce
	r.Waited += other.Waited
	r.Unanswered += other.Unanswered
	r.Crashes += other.Crashes
	r.Twice += other.Twice
	r.Lost += other.Lost
	r.Taken += other.Taken
	r.TakenMost = max(r.TakenMost, other.TakenMost)
}

// A world is a run under way.
type world struct {
	o       Options
	disk    Disk
	rng     *rand.Rand
	clock   int64 // Unix ms
	store   *shard.Store
	keys    []*key
	waiting []*event // not answered yet
	pace    pace
	brisk   bool  // calls follow one another closely
	unclean bool  // so was the last stop
	drained int64 // as the store has it
	report  Report
}

// A pace is how fast a disk writes beside the calls: a third of a Write for each
// call, one, or many.
type pace int

func (p pace) of(rng *rand.Rand) int {
	switch p {
	case 0:
		return max(rng.IntN(3)-1, 0)
	case 1:
		return rng.IntN(3)
	}
	return rng.IntN(30)
}

// epoch is when histories begin, Unix ms.
const epoch = 1_700_000_000_000

// Run runs a history and returns what it did. The error tells the story of a key
// of which more was admitted than without the crashes.
func Run(o Options, disk Disk) (Report, error) {
	w := &world{o: o, disk: disk, rng: rand.New(rand.NewPCG(o.Seed, 11)), clock: epoch}
	w.pace, w.brisk = pace(w.rng.IntN(3)), w.rng.IntN(2) == 0
	w.makeKeys()
	for life := range o.Lives {
		err := w.start(life)
		if err == nil {
			err = w.live()
		}
		if err != nil {
			return w.report, fmt.Errorf("seed %d, life %d: %w", o.Seed, life, err)
		}
	}
	return w.report, nil
}

// start loads what is on disk, after a stop of any length.
func (w *world) start(life int) error {
	w.clock += [...]int64{0, w.rng.Int64N(100), w.rng.Int64N(5000), w.rng.Int64N(200_000)}[w.rng.IntN(4)]
	if w.o.Backwards && life > 0 && w.rng.IntN(3) == 0 {
		w.clock -= w.rng.Int64N(30_000)
	}
	drain := int64(0)
	switch {
	case !w.o.Drain:
	case w.unclean:
		drain = w.latest() + 1
	default: // what a crash before lost is not known by now
		drain = w.drained
	}
	c := shard.Config{Shards: 4, Grace: 2*w.o.Skew + 1000, KeepExpired: w.o.Trusted, Promise: w.o.Promise, Block: w.o.Block}
	var err error
	if w.store, err = w.disk.Start(c, w.clock, w.latest(), drain); err != nil {
		return err
	}
	if life == 0 {
		return w.makeLimits()
	}
	return w.loaded()
}

// latest is the latest time that an entry may have.
func (w *world) latest() int64 { return w.clock + w.o.Skew }

// live is calls, and a stop that is clean now and then.
func (w *world) live() error {
	err := w.calls()
	if err == nil && w.rng.IntN(8) == 0 {
		w.unclean = false
		err = w.disk.Stop()
	} else if err == nil {
		err = ErrPower
	}
	if err == ErrPower {
		w.unclean = true
		w.report.Crashes++
		err = w.disk.Lose(w.rng)
	}
	if err != nil {
		return err
	}
	return w.look()
}

// calls makes calls while the disk writes.
func (w *world) calls() error {
	for range w.o.Calls/2 + w.rng.IntN(w.o.Calls) {
		w.pass()
		w.call()
		for range w.pace.of(w.rng) {
			if err := w.disk.Write(w.rng); err != nil {
				return err
			}
		}
		w.answer()
	}
	return nil
}

// look looks back on a life.
func (w *world) look() error {
	durable := w.disk.Durable()
	w.answer()
	w.report.Unanswered += int64(len(w.waiting))
	w.waiting, w.drained = nil, w.store.DrainedAt()
	for _, k := range w.keys {
		if k.memory = nil; w.unclean {
			k.memory = w.value(k)
		}
		if w.o.Tolerate {
			k.tolerate(durable)
			w.report.Twice, w.report.Lost = w.report.Twice+k.twice, w.report.Lost+k.lost
			if k.credit += k.lost - k.twice; k.credit < -1 { // parts of a token are rounded up

				return fmt.Errorf("key %s: %d more were admitted twice than were lost", k.name, -k.credit)
			}
			k.twice, k.lost = 0, 0
		} else if err := k.settle(w.o.Exact); err != nil {
			return err
		}
	}
	return nil
}

// pass lets time pass: mostly a little, at times a lot.
func (w *world) pass() {
	n := w.rng.IntN(10)
	if w.brisk {
		n += w.rng.IntN(90)
	}
	switch n {
	case 0:
		w.clock += w.rng.Int64N(60_000)
	case 1, 2, 3:
		w.clock += w.rng.Int64N(1000)
	default:
		w.clock += w.rng.Int64N(20)
	}
}

// answer lets go what a disk holds by now.
func (w *world) answer() {
	durable := w.disk.Durable()
	left := w.waiting[:0]
	for _, e := range w.waiting {
		if e.due <= durable {
			w.answered(e)
		} else {
			left = append(left, e)
		}
	}
	w.waiting = left
}

func (w *world) answered(e *event) {
	e.answered = true
	w.report.Admitted += e.took
}
