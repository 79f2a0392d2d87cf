package engine

// An Algorithm is a way of counting. It is also the kind byte of an entry in memory and on disk: a number is never changed or used again,
// and 0, a tombstone there, is never an algorithm. It fits the high nibble of an entry's first byte.
type Algorithm byte

// The algorithms.
const (
	Bucket  Algorithm = 1 // token bucket
	Fixed   Algorithm = 2 // fixed window
	Sliding Algorithm = 3 // sliding window counter
	Log     Algorithm = 4 // sliding log
)

// An algorithm is a row of the table: what is known of it without an entry.
type algorithm struct {
	name     string
	windowed bool  // its limits are a number per Window, not a rate and a burst
	largest  int64 // windowed: the largest limit
}

// algorithms is indexed by Algorithm; a number without a name is no algorithm. What each does is its type in state.
var algorithms = [16]algorithm{
	Bucket:  {name: "bucket"},
	Fixed:   {name: "fixed", windowed: true, largest: maxCount},
	Sliding: {name: "sliding", windowed: true, largest: maxCount},
	Log:     {name: "log", windowed: true, largest: MaxLogCount},
}

// row returns the algorithm's row, nil if there is none.
func (a Algorithm) row() *algorithm {
	if int(a) < len(algorithms) && algorithms[a].name != "" {
		return &algorithms[a]
	}
	return nil
}

// String returns the algorithm's name, as RL.GET shows it.
func (a Algorithm) String() string {
	if r := a.row(); r != nil {
		return r.name
	}
	return "unknown"
}

// state is what an algorithm remembers of a key besides the time: the field that entry.limit.Algorithm names, the others are zero. Time,
// penalty, lateness, name and flags are the same for all and are not here.
//
// Below is all that an algorithm does, each a switch and not a table of functions: what is called directly lets entries stay on the stack,
// which BenchmarkAcquire counts as 0 allocations. A limit has been checked before any of it.
type state struct {
	bucket  bucketState
	fixed   fixedState
	sliding slidingState
	log     *logState // nil unless it may be a log: see logRoom
}

// logRoom returns room for a log's state if the limit's algorithm or the entry's bytes are of one. It is the largest by far: apart, it costs
// the other algorithms nothing, which BenchmarkAcquire measures; inlined, it stays on the stack.
func logRoom(a Algorithm, old []byte) *logState {
	if a == Log || len(old) > 0 && Algorithm(old[0]>>algorithmShift) == Log {
		return new(logState)
	}
	return nil
}

// fresh sets the state of a key that is not there.
func (e *entry) fresh() {
	switch e.limit.Algorithm {
	case Bucket:
		e.state.bucket.fresh(&e.limit)
	case Fixed:
		e.state.fixed.fresh(&e.limit, e.ts)
	case Sliding:
		e.state.sliding.fresh(&e.limit, e.ts)
	}
}

// appendState writes the state.
func (e *entry) appendState(dst []byte) []byte {
	switch e.limit.Algorithm {
	case Bucket:
		return e.state.bucket.append(dst)
	case Fixed:
		return e.state.fixed.append(dst, &e.limit)
	case Sliding:
		return e.state.sliding.append(dst)
	default:
		return e.state.log.append(dst)
	}
}

// readState reads what is left of an entry. It refuses a limit that is not ok, and what is not one whole valid state under it, as far as
// that can be told without looking at more than a call needs.
func (e *entry) readState(b []byte) (ok bool) {
	switch e.limit.Algorithm {
	case Bucket:
		return e.state.bucket.read(b, &e.limit)
	case Fixed:
		return windowLimitOK(&e.limit) && e.state.fixed.read(b, &e.limit, e.ts)
	case Sliding:
		return windowLimitOK(&e.limit) && e.state.sliding.read(b, &e.limit, e.ts)
	case Log:
		return windowLimitOK(&e.limit) && e.state.log.read(b, &e.limit)
	}
	return false
}

// verify completes the checks of readState for bytes that come from elsewhere.
func (e *entry) verify() (ok bool) {
	switch e.limit.Algorithm {
	case Bucket:
		return bucketReduced(&e.limit)
	case Fixed:
		return true
	case Sliding:
		return e.state.sliding.verify(&e.limit)
	default:
		return e.state.log.verify()
	}
}

// carryState brings the state from one limit to another of the same algorithm and from ts to t >= ts, all that time counted at the new
// limit.
func (e *entry) carryState(to *Limit, t int64) error {
	switch e.limit.Algorithm {
	case Bucket:
		return e.state.bucket.carry(&e.limit, to, t-e.ts)
	case Fixed:
		e.state.fixed.carry(to, t, t-e.ts)
		return nil
	case Sliding:
		return e.state.sliding.carry(&e.limit, to, e.ts, t-e.ts)
	default:
		return e.state.log.carry(to, t-e.ts)
	}
}

// moveBack makes ts earlier by ms, and the state says there what it said before.
func (e *entry) moveBack(ms int64) {
	if e.limit.Algorithm == Sliding { // the only one whose share of what was granted depends on where ts lies
		e.state.sliding.merge(&e.limit)
	}
	e.ts -= ms
	if e.blocked != 0 {
		e.blocked -= ms
	}
}

// take decides op. It debits the state if the answer is yes, or FORCE, and leaves it as it is otherwise. It fills in the first two fields
// of d, outlook the others.
func (c *call) take(op *Op, d *Decision) (changed bool, err error) {
	hold := c.hold()
	switch c.limit.Algorithm {
	case Bucket:
		d.Allowed, d.RetryAfter, err = c.state.bucket.take(&c.limit, op, hold, c.late)
	case Fixed:
		d.Allowed, d.RetryAfter = c.state.fixed.take(&c.limit, op.Cost, hold, c.late)
	case Sliding:
		d.Allowed, d.RetryAfter = c.state.sliding.take(&c.limit, op.Cost, hold, c.late)
	default:
		d.Allowed, d.RetryAfter, err = c.state.log.take(&c.limit, op.Cost, hold, c.late)
	}
	if err != nil {
		*d = Decision{}
		return false, err
	}
	return op.Cost > 0 && (d.Allowed > 0 || op.Force), nil
}

// refundState gives tokens >= 0 back.
func (e *entry) refundState(tokens int64) error {
	switch e.limit.Algorithm {
	case Bucket:
		e.state.bucket.refund(&e.limit, tokens)
	case Fixed:
		e.state.fixed.refund(&e.limit, tokens)
	case Sliding:
		e.state.sliding.refund(tokens)
	default:
		return e.state.log.refund(tokens)
	}
	return nil
}

// outlookState returns the whole tokens left and the ms from ts until nothing is missing, which is 0 just if nothing is.
func (e *entry) outlookState() (remaining, reset int64) {
	switch e.limit.Algorithm {
	case Bucket:
		return e.state.bucket.outlook(&e.limit)
	case Fixed:
		return e.state.fixed.outlook(&e.limit)
	case Sliding:
		return e.state.sliding.outlook(&e.limit)
	default:
		return e.state.log.outlook(&e.limit)
	}
}

// usedState is what a window counts at ts, rounded up.
func (e *entry) usedState() int64 {
	switch e.limit.Algorithm {
	case Fixed:
		return e.state.fixed.count
	case Sliding:
		return e.state.sliding.used(&e.limit)
	case Log:
		return e.state.log.total
	default:
		return 0
	}
}
