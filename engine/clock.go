package engine

// MaxNow is the largest time, in Unix ms: the largest integer every client language holds exactly.
const MaxNow int64 = 1<<53 - 1

// A ClockMode says what a caller's own time counts for. The zero value is Bounded.
type ClockMode byte

// The modes of the option caller-clock.
const (
	Bounded ClockMode = iota // a caller's time is clamped into the server's clock ± the skew allowed
	Trusted                  // a caller's time is taken as it is
	Ignored                  // always the server's clock
)

var clockModeNames = [...]string{Bounded: "bounded", Trusted: "trusted", Ignored: "ignored"}

// String returns the mode as the option caller-clock writes it.
func (m ClockMode) String() string { return clockModeNames[m] }

// ParseClockMode reads a value of the option caller-clock.
func ParseClockMode(s string) (ClockMode, error) {
	for m, name := range clockModeNames {
		if s == name {
			return ClockMode(m), nil
		}
	}
	return Bounded, badArgument("caller-clock", []byte(s), "bounded, trusted or ignored")
}

// Now returns the time, in Unix ms, that a call counts at. caller is the time the call brought and counts only if given; server is the
// server's clock and skew >= 0 the difference allowed between the two, both in ms. clamped tells that the caller's time was out of
// bounds and was replaced by the nearest bound. The result lies in [0, MaxNow] whatever comes in.
func (m ClockMode) Now(caller, server, skew int64, given bool) (now int64, clamped bool) {
	server = min(max(server, 0), MaxNow)
	if !given || m == Ignored {
		return server, false
	}
	low, high := int64(0), MaxNow
	if m == Bounded {
		skew = min(max(skew, 0), MaxNow)
		low, high = max(server-skew, 0), min(server+skew, MaxNow)
	}
	now = min(max(caller, low), high)
	return now, now != caller
}
