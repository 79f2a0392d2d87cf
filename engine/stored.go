package engine

import "math"

// Info is what an entry says, for people.
type Info struct {
	Limit        Limit
	Tokens       string // credit at TS in decimal: exact if it is finite, else rounded down to 12 fractional digits
	TS           int64  // Unix ms up to which time has been counted
	BlockedUntil int64  // Unix ms the penalty ends, 0 if there is none
}

// StoredLimit returns the limit that an entry carries. The only error is ErrMalformed.
func StoredLimit(old []byte) (Limit, error) {
	var e entry
	if err := e.read(old); err != nil {
		return Limit{}, err
	}
	return e.limit, nil
}

// Inspect returns what an entry says. The only error is ErrMalformed.
func Inspect(old []byte) (Info, error) {
	var e entry
	if err := e.read(old); err != nil {
		return Info{}, err
	}
	return Info{Limit: e.limit, Tokens: algorithms[e.limit.Algorithm].tokens(e.limit, e.state), TS: e.ts, BlockedUntil: e.blocked}, nil
}

// Reset returns the ms from clock (Unix ms) until the entry says no more than an absent key would: full under the limit it carries, no
// penalty, and its time not ahead of the clock. 0 means that it may be dropped. Bytes that cannot be read are never idle: math.MaxInt64.
func Reset(old []byte, clock int64) (resetAfter int64) {
	var e entry
	if err := e.read(old); err != nil {
		return math.MaxInt64
	}
	_, wait := algorithms[e.limit.Algorithm].outlook(e.limit, e.state)
	return max(max(e.ts+wait, e.blocked)-max(clock, 0), 0)
}

// Rebase checks bytes that come from elsewhere, down to the last bit, and appends the entry with ts at most maxTS (Unix ms in [0, MaxNow])
// to dst: a time that the clock has not reached would hold callers up. What was left of a penalty at ts is left at the new one. The only
// error is ErrMalformed.
func Rebase(dst, old []byte, maxTS int64) ([]byte, error) {
	var e entry
	if err := e.read(old); err != nil {
		return nil, err
	}
	if !algorithms[e.limit.Algorithm].reduced(e.limit) {
		return nil, ErrMalformed
	}
	if ahead := e.ts - max(maxTS, 0); ahead > 0 {
		e.ts -= ahead
		if e.blocked != 0 {
			e.blocked -= ahead
		}
	}
	return appendEntry(dst, &e), nil
}
