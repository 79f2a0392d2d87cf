package engine

import "math"

// Info is what an entry says, for people.
type Info struct {
	Limit        Limit  // with its name
	Tokens       string // bucket: credit at TS in decimal, exact if it is finite, else rounded down to 12 fractional digits
	Used         int64  // windows: what counts at TS, rounded up
	TS           int64  // Unix ms up to which time has been counted
	BlockedUntil int64  // Unix ms the penalty ends, 0 if there is none
}

// StoredLimit returns the limit that an entry carries, with its name. The only error is ErrMalformed.
func StoredLimit(old []byte) (Limit, error) {
	var e entry
	e.state.log = logRoom(0, old)
	if err := e.read(old); err != nil {
		return Limit{}, err
	}
	e.limit.Name = string(e.name)
	return e.limit, nil
}

// Name returns the name of the limit that the entry was made under, nil if it has none. It aliases old, and looks at no more than it needs:
// what follows the name may be malformed.
func Name(old []byte) []byte {
	if len(old) == 0 || old[0]&flagNamed == 0 {
		return nil
	}
	_, at := uvarint(old, 1)
	if old[0]&flagAhead != 0 {
		_, at = uvarint(old, at)
	}
	if old[0]&flagBlocked != 0 {
		_, at = uvarint(old, at)
	}
	name, _ := readName(old, at)
	return name
}

// Inspect returns what an entry says. The only error is ErrMalformed.
func Inspect(old []byte) (Info, error) {
	var e entry
	e.state.log = logRoom(0, old)
	if err := e.read(old); err != nil {
		return Info{}, err
	}
	e.limit.Name = string(e.name)
	return e.info(), nil
}

// InspectUnder is Inspect under lim, the limit now in force for an entry that carries an earlier one of the same algorithm, else
// ErrAlgorithm: what is there at the entry's own time. It may be a *RangeError too: the state cannot be held under lim.
func InspectUnder(lim Limit, old []byte) (Info, error) {
	var e entry
	e.state.log = logRoom(0, old)
	if err := e.read(old); err != nil {
		return Info{}, err
	}
	switch {
	case !lim.ok():
		return Info{}, errLimit
	case e.limit.Algorithm != lim.Algorithm:
		return Info{}, ErrAlgorithm
	}
	if err := e.carryState(&lim, e.ts); err != nil {
		return Info{}, err
	}
	e.limit = lim
	return e.info(), nil
}

func (e *entry) info() Info {
	info := Info{Limit: e.limit, Used: e.usedState(), TS: e.ts, BlockedUntil: e.blocked}
	if e.limit.Algorithm == Bucket {
		info.Tokens = tokensText(e.state.bucket.credit, e.limit.Q)
	}
	return info
}

// Reset returns the ms from clock (Unix ms) until the entry says no more than an absent key would: nothing missing under the limit it
// carries, no penalty, and its time not ahead of the clock. 0 means that it may be dropped. Bytes that cannot be read are never idle:
// math.MaxInt64.
func Reset(old []byte, clock int64) (resetAfter int64) {
	var e entry
	e.state.log = logRoom(0, old)
	if err := e.read(old); err != nil {
		return math.MaxInt64
	}
	return e.resetAfter(clock)
}

// ResetUnder is Reset under lim, the limit now in force for an entry that carries an earlier one: all that follows its time counts at lim.
// An entry of another algorithm says nothing to lim and may be dropped: 0. What cannot be held under lim is never idle: math.MaxInt64.
func ResetUnder(lim Limit, old []byte, clock int64) (resetAfter int64) {
	var e entry
	e.state.log = logRoom(0, old)
	if err := e.read(old); err != nil || !lim.ok() {
		return math.MaxInt64
	}
	if e.limit.Algorithm != lim.Algorithm {
		return 0
	}
	t := e.ts
	var err error
	if e.certain != 0 && !e.sameTerms(&lim) {
		t, err = e.carryAhead(&lim, e.certain)
	} else {
		err = e.carryState(&lim, t)
	}
	if err != nil {
		return math.MaxInt64
	}
	e.limit, e.ts = lim, t
	return e.resetAfter(clock)
}

func (e *entry) resetAfter(clock int64) int64 {
	_, wait := e.outlookState()
	return max(max(e.ts+wait, e.blocked)-max(clock, 0), 0)
}

// Rebase checks bytes that come from elsewhere, down to the last bit, and appends the entry with ts at most maxTS (Unix ms in [0, MaxNow])
// to dst: a time that the clock has not reached would hold callers up. What was left of a penalty at ts is left at the new one, and what
// was counted then counts there. One that is ahead is certain from maxTS on. The only error is ErrMalformed.
func Rebase(dst, old []byte, maxTS int64) ([]byte, error) {
	var e entry
	e.state.log = logRoom(0, old)
	if err := e.read(old); err != nil {
		return nil, err
	}
	if !e.verify() {
		return nil, ErrMalformed
	}
	maxTS = max(maxTS, 0)
	e.certain = min(e.certain, maxTS)
	if ahead := e.ts - maxTS; ahead > 0 {
		e.moveBack(ahead)
	}
	return appendEntry(dst, &e), nil
}
