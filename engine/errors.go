package engine

import (
	"errors"
	"strconv"
)

// shownBytes is how much of a bad argument an error repeats.
const shownBytes = 64

// ErrMalformed is returned for bytes that are not an entry of this package.
var ErrMalformed = errors.New("the entry's bytes are malformed")

// ErrAlgorithm is returned when a limit of one algorithm meets an entry of another.
var ErrAlgorithm = errors.New("the entry is kept by another algorithm")

// An ArgumentError says which argument is wrong, what came and what was expected. Its text is fit to be shown to the caller.
type ArgumentError struct {
	Argument string // the argument's name in the contract: rate, burst, now, COST, ...
	Got      string // what came, quoted and escaped, shortened to 64 bytes
	Want     string // what was expected, with an example
}

// Error implements error.
func (e *ArgumentError) Error() string { return e.Argument + " " + e.Got + ": expected " + e.Want }

// A RangeError says that a well-formed call needs a number too large to be held exactly. Nothing was changed.
type RangeError struct {
	Argument string // the argument that is too large and its value: "COST 12"
	Max      int64  // the largest value that would have been accepted, -1 if there is none
	Reason   string // why
}

// Error implements error.
func (e *RangeError) Error() string {
	if e.Max < 0 {
		return e.Argument + ": " + e.Reason
	}
	return e.Argument + ": " + e.Reason + "; at most " + strconv.FormatInt(e.Max, 10)
}

// badArgument makes an ArgumentError that shows what came in one line of printable ASCII.
func badArgument(name string, got []byte, want string) error {
	return &ArgumentError{Argument: name, Got: shown(got), Want: want}
}

// outOfRange is badArgument for a number that never was text.
func outOfRange(name string, got, largest int64) error {
	return badArgument(name, strconv.AppendInt(nil, got, 10), "a number from 0 to "+strconv.FormatInt(largest, 10))
}

// shown quotes at most shownBytes of b and says how long b was if that is not all.
func shown(b []byte) string {
	if len(b) <= shownBytes {
		return strconv.QuoteToASCII(string(b))
	}
	return strconv.QuoteToASCII(string(b[:shownBytes])) + "... (" + strconv.Itoa(len(b)) + " bytes)"
}
