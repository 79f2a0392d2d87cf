package engine

// An Algorithm is a way of counting. It is also the kind byte of an entry in memory and on disk: a number is never changed or used again,
// and 0, a tombstone there, is never an algorithm. It fits the high nibble of an entry's first byte.
type Algorithm byte

// The algorithms.
const (
	Bucket Algorithm = 1 // token bucket
)

// state is what an algorithm remembers of a key besides the time.
type state struct {
	credit int64 // bucket: units of 1/Q token at ts; negative in debt
}

// An algorithm is a row of the table: all that differs from one way of counting to another. Time, penalty, lateness and flags are not here;
// they are the same for all. Functions are given valid limits and never keep or change what they are given.
type algorithm struct {
	name string
	// checkLimit says whether the parameters are in range; it is cheap.
	checkLimit func(l Limit) bool
	// reduced says whether a limit in range is also the one way to write it.
	reduced func(l Limit) bool
	// appendState writes a state. readState reads what is left of an entry; it is not ok on anything but one whole valid state under l, nor
	// if l is out of range.
	appendState func(dst []byte, s state) []byte
	readState   func(b []byte, l Limit) (s state, ok bool)
	// fresh is the state of a key that is not there.
	fresh func(l Limit) state
	// carry brings a state from one limit to another and elapsed ms on, all of them counted at the new limit.
	carry func(from, to Limit, s state, elapsed int64) (state, error)
	// checkOp refuses operations that the algorithm does not have or that contradict each other.
	checkOp func(op Op) error
	// take decides. hold is how many ms the penalty still lasts and late how far the caller is behind, both >= 0. The state returned
	// differs from s only if something was debited. retry is measured from the caller's time, late included.
	take func(l Limit, s state, op Op, hold, late int64) (next state, allowed, retry int64, err error)
	// refund gives tokens >= 0 back.
	refund func(l Limit, s state, tokens int64) state
	// outlook returns the whole tokens left and the ms until nothing is missing.
	outlook func(l Limit, s state) (remaining, reset int64)
	// tokens is what Inspect shows.
	tokens func(l Limit, s state) string
}

// algorithms is indexed by Algorithm; a number without a name is no algorithm.
var algorithms = [16]algorithm{
	Bucket: {
		name:        "bucket",
		checkLimit:  bucketLimitOK,
		reduced:     bucketReduced,
		appendState: appendBucket,
		readState:   readBucket,
		fresh:       bucketFresh,
		carry:       bucketCarry,
		checkOp:     bucketCheckOp,
		take:        bucketTake,
		refund:      bucketRefund,
		outlook:     bucketOutlook,
		tokens:      func(l Limit, s state) string { return tokensText(s.credit, l.Q) },
	},
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
