package crash_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/rlserver/rlserver/engine"
	"github.com/rlserver/rlserver/shard"
	"github.com/rlserver/rlserver/shard/crash"
)

// soaking says that many more histories are tried, as in make soak.
var soaking = os.Getenv("RLSERVER_SOAK") != ""

// everything is a history with all that a caller may do, under durability reserve.
func everything() crash.Options {
	return crash.Options{Lives: 8, Calls: 200, Skew: 1000, Promise: shard.Ahead, Block: engine.DefaultBlock,
		Debts: true, Penalties: true, Refunds: true, Resets: true, Limits: true}
}

// run runs so many histories, of seeds from 0 on, or from RLSERVER_SEED.
func run(t *testing.T, o crash.Options, seeds int) (sum crash.Report) {
	t.Helper()
	from, _ := strconv.Atoi(os.Getenv("RLSERVER_SEED"))
	if soaking {
		seeds *= 50
	} else if testing.Short() {
		seeds /= 4
	}
	for seed := range seeds {
		o.Seed = uint64(from + seed)
		r, err := crash.Run(o, &crash.Memory{})
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(r)
	}
	t.Logf("seeds %d to %d: %+v", from, from+seeds-1, sum)
	return sum
}

// TestReserve: under reserve nothing is admitted twice, and a crash takes at most
// a block from the callers of a key, but for what they gave back just before.
func TestReserve(t *testing.T) {
	if r := run(t, everything(), 60); r.AtOnce == 0 || r.Unanswered == 0 || r.Crashes == 0 {
		t.Errorf("%+v", r)
	}
	o := everything()
	o.Refunds, o.Resets = false, false
	if r := run(t, o, 40); r.Taken == 0 || r.TakenMost > 1+1e-9 {
		t.Errorf("a crash took %v blocks", r.TakenMost)
	}
	o.Penalties = false // now windows change their lengths
	run(t, o, 40)
	o.Block = engine.Block{Part: 1, Time: 60_000}
	run(t, o, 40)
}

// TestReserveClocks: so it is whatever the clocks say.
func TestReserveClocks(t *testing.T) {
	o := everything()
	o.Trusted = true
	run(t, o, 40)
	o = everything()
	o.Backwards, o.Penalties = true, false // what was left of a penalty is left when its time is brought back
	run(t, o, 40)
	o = everything()
	o.Skew = 0
	run(t, o, 40)
}

// TestExact: under always, and under reserve with blocks that hold nothing but
// what is taken, a crash takes nothing.
func TestExact(t *testing.T) {
	o := everything()
	o.Exact, o.Promise = true, shard.Changes
	run(t, o, 40)
	o.Promise, o.Block, o.Resets = shard.Ahead, engine.Block{}, false // resets do not wait under reserve
	if r := run(t, o, 40); r.AtOnce != 0 {
		t.Errorf("%d changes waited for nothing", r.AtOnce)
	}
}

// TestRefundAndDrain: under interval tokens are admitted twice, at most as many
// as were lost; unless what is lost counts as taken.
func TestRefundAndDrain(t *testing.T) {
	o := crash.Options{Lives: 8, Calls: 200, Tolerate: true}
	if r := run(t, o, 40); r.Twice == 0 || r.Twice > r.Lost {
		t.Errorf("%d tokens were admitted twice, %d lost", r.Twice, r.Lost)
	}
	o = crash.Options{Lives: 8, Calls: 200, Skew: 1000, Drain: true, Refunds: true, Resets: true, Limits: true}
	run(t, o, 60)
	o.Refunds = false
	run(t, o, 40)
}
