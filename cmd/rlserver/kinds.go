package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A kind says how an option's value is written, read and checked.
type kind struct {
	shape  string // what --help and the README show: "0..65535"
	expect string // what a message at the terminal says was expected
	many   bool   // several words are one value: bind
	// parse stores the value of text in v. Its error is the text that Redis's CONFIG SET has for it.
	parse func(v *Values, text string) error
	// format gives back text that parses to the same value.
	format func(v *Values) string
}

const (
	maxBindAddresses = 16  // as Redis
	maxPasswordBytes = 512 // as Redis
	maxPathBytes     = 4096
)

var errNotInteger = errors.New("argument couldn't be parsed into an integer")

// parseInt reads a plain decimal integer within bounds.
func parseInt(text string, lo, hi int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if strings.HasPrefix(text, "+") || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, errNotInteger
	}
	if err != nil || n < lo || n > hi {
		return 0, fmt.Errorf("argument must be between %d and %d inclusive", lo, hi)
	}
	return n, nil
}

func integer(lo, hi int, at func(*Values) *int) kind {
	return kind{
		shape:  fmt.Sprintf("%d..%d", lo, hi),
		expect: fmt.Sprintf("an integer from %d to %d", lo, hi),
		parse: func(v *Values, text string) error {
			n, err := parseInt(text, int64(lo), int64(hi))
			if err == nil {
				*at(v) = int(n)
			}
			return err
		},
		format: func(v *Values) string { return strconv.Itoa(*at(v)) },
	}
}

// octal is a mode of a file.
func octal(hi int, at func(*Values) *int) kind {
	return kind{
		shape:  fmt.Sprintf("0..%o", hi),
		expect: fmt.Sprintf("a mode of a file, octal, from 0 to %o", hi),
		parse: func(v *Values, text string) error {
			n, err := strconv.ParseUint(text, 8, 32)
			if err != nil {
				return errors.New("argument couldn't be parsed as an octal number")
			}
			if n > uint64(hi) {
				return fmt.Errorf("argument must be between 0 and %o inclusive", hi)
			}
			*at(v) = int(n)
			return nil
		},
		format: func(v *Values) string { return strconv.FormatInt(int64(*at(v)), 8) },
	}
}

func powerOfTwo(hi int, at func(*Values) *int) kind {
	k := integer(0, hi, at)
	k.expect = fmt.Sprintf("0 or a power of two up to %d", hi)
	parse := k.parse
	k.parse = func(v *Values, text string) error {
		if n, err := parseInt(text, 0, int64(hi)); err == nil && n&(n-1) != 0 {
			return fmt.Errorf("argument must be 0 or a power of two up to %d", hi)
		}
		return parse(v, text)
	}
	return k
}

// seconds is a time that Redis writes as a whole number of seconds.
func seconds(hi int64, at func(*Values) *time.Duration) kind {
	return kind{
		shape:  fmt.Sprintf("0..%d", hi),
		expect: fmt.Sprintf("whole seconds from 0 to %d, without a unit", hi),
		parse: func(v *Values, text string) error {
			n, err := parseInt(text, 0, hi)
			if err == nil {
				*at(v) = time.Duration(n) * time.Second
			}
			return err
		},
		format: func(v *Values) string { return strconv.FormatInt(int64(*at(v)/time.Second), 10) },
	}
}

// units are those of a duration, largest first.
var units = []struct {
	name string
	is   time.Duration
}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// duration is a time that is ours, not Redis's: a whole number and a unit.
func duration(lo, hi time.Duration, at func(*Values) *time.Duration) kind {
	from, to := formatDuration(lo), formatDuration(hi)
	return kind{
		shape:  from + ".." + to,
		expect: fmt.Sprintf("a time with a unit (ms, s, m, h, d) from %s to %s, such as 1s", from, to),
		parse: func(v *Values, text string) error {
			d, ok := parseDuration(text)
			if !ok {
				return errors.New("argument must be a time with a unit, such as 250ms, 1s or 1m")
			}
			if d < lo || d > hi {
				return fmt.Errorf("argument must be between %s and %s inclusive", from, to)
			}
			*at(v) = d
			return nil
		},
		format: func(v *Values) string { return formatDuration(*at(v)) },
	}
}

func parseDuration(text string) (time.Duration, bool) {
	digits := strings.TrimRight(text, "dhms")
	for _, u := range units {
		if text[len(digits):] == u.name {
			n, err := parseInt(digits, 0, int64(1<<63-1)/int64(u.is))
			return time.Duration(n) * u.is, err == nil
		}
	}
	return 0, text == "0"
}

func formatDuration(d time.Duration) string {
	for _, u := range units {
		if d%u.is == 0 && d != 0 {
			return strconv.FormatInt(int64(d/u.is), 10) + u.name
		}
	}
	return "0s"
}

// sizeUnits are Redis's: with b they are powers of 1024, without powers of 1000.
var sizeUnits = map[string]int64{"": 1, "b": 1, "k": 1e3, "kb": 1 << 10, "m": 1e6, "mb": 1 << 20, "g": 1e9, "gb": 1 << 30}

// size is a number of bytes; CONFIG GET shows it without a unit, as Redis does.
func size[N int | int64](lo, hi N, at func(*Values) *N) kind {
	return kind{
		shape:  fmt.Sprintf("%s..%s", formatSize(int64(lo)), formatSize(int64(hi))),
		expect: fmt.Sprintf("a size from %s to %s, such as 64kb", formatSize(int64(lo)), formatSize(int64(hi))),
		parse: func(v *Values, text string) error {
			digits := strings.TrimRight(text, "bkmgBKMG")
			unit, known := sizeUnits[strings.ToLower(text[len(digits):])]
			n, err := parseInt(digits, 0, 1<<63-1)
			if !known || errors.Is(err, errNotInteger) || strings.HasPrefix(digits, "-") {
				return errors.New("argument must be a memory value")
			}
			if err != nil || n > int64(hi)/unit || n*unit < int64(lo) {
				return fmt.Errorf("argument must be between %d and %d inclusive", lo, hi)
			}
			*at(v) = N(n * unit)
			return nil
		},
		format: func(v *Values) string { return strconv.FormatInt(int64(*at(v)), 10) },
	}
}

func formatSize(n int64) string {
	text := func(n int64, unit string) string { return strconv.FormatInt(n, 10) + unit }
	switch {
	case n > 0 && n%(1<<30) == 0:
		return text(n>>30, "gb")
	case n > 0 && n%(1<<20) == 0:
		return text(n>>20, "mb")
	case n > 0 && n%(1<<10) == 0:
		return text(n>>10, "kb")
	}
	return text(n, "")
}

func boolean(at func(*Values) *bool) kind {
	return kind{
		shape:  "yes|no",
		expect: "yes or no",
		parse: func(v *Values, text string) error {
			yes := strings.EqualFold(text, "yes")
			if !yes && !strings.EqualFold(text, "no") {
				return errors.New("argument must be 'yes' or 'no'")
			}
			*at(v) = yes
			return nil
		},
		format: func(v *Values) string {
			if *at(v) {
				return "yes"
			}
			return "no"
		},
	}
}

func enum(at func(*Values) *string, words ...string) kind {
	return kind{
		shape:  strings.Join(words, "|"),
		expect: "one of " + strings.Join(words, ", "),
		parse: func(v *Values, text string) error {
			for _, w := range words {
				if strings.EqualFold(text, w) {
					*at(v) = w
					return nil
				}
			}
			return errors.New("argument(s) must be one of the following: " + strings.Join(words, ", "))
		},
		format: func(v *Values) string { return *at(v) },
	}
}

func path(at func(*Values) *string) kind {
	return kind{
		shape:  "path",
		expect: "a path",
		parse: func(v *Values, text string) error {
			if text == "" || len(text) > maxPathBytes || strings.Contains(text, "\x00") {
				return errors.New("argument must be a path")
			}
			*at(v) = text
			return nil
		},
		format: func(v *Values) string { return *at(v) },
	}
}

// optionalPath is a path or nothing.
func optionalPath(at func(*Values) *string) kind {
	k := path(at)
	k.expect = `a path, or ""`
	parse := k.parse
	k.parse = func(v *Values, text string) error {
		if text == "" {
			*at(v) = ""
			return nil
		}
		return parse(v, text)
	}
	return k
}

// password is a secret. The mask is refused, so that what CONFIG GET shows cannot be set by mistake.
func password(at func(*Values) *secret) kind {
	return kind{
		shape:  "text",
		expect: fmt.Sprintf("at most %d bytes, and not the mask %s", maxPasswordBytes, mask),
		parse: func(v *Values, text string) error {
			if len(text) > maxPasswordBytes || text == mask {
				return fmt.Errorf("argument must be at most %d bytes, and not the mask %s", maxPasswordBytes, mask)
			}
			*at(v) = secret(text)
			return nil
		},
		format: func(v *Values) string { return string(*at(v)) },
	}
}

var hostname = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`)

func isHost(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil || hostname.MatchString(text)
}

func addresses(at func(*Values) *[]string) kind {
	return kind{
		shape:  "address ...",
		expect: fmt.Sprintf("1 to %d addresses, such as 127.0.0.1 ::1", maxBindAddresses),
		many:   true,
		parse: func(v *Values, text string) error {
			words := strings.Fields(text)
			sound := len(words) > 0 && len(words) <= maxBindAddresses
			for _, w := range words {
				host := strings.TrimPrefix(w, "-")
				sound = sound && (host == "*" || host == "::*" || isHost(host))
			}
			if !sound {
				return fmt.Errorf("argument must be 1 to %d addresses", maxBindAddresses)
			}
			*at(v) = words
			return nil
		},
		format: func(v *Values) string { return strings.Join(*at(v), " ") },
	}
}

func hostPort(at func(*Values) *string) kind {
	return kind{
		shape:  "host:port",
		expect: `host:port, such as 127.0.0.1:9390, or ""`,
		parse: func(v *Values, text string) error {
			if text != "" {
				host, port, err := net.SplitHostPort(text)
				if _, bad := parseInt(port, 0, 65535); err != nil || bad != nil || host != "" && !isHost(host) {
					return errors.New("argument must be host:port, or empty")
				}
			}
			*at(v) = text
			return nil
		},
		format: func(v *Values) string { return *at(v) },
	}
}

// hostAndPort is "host port", as Redis writes it, or nothing.
func hostAndPort(at func(*Values) *string) kind {
	return kind{
		shape:  "host port",
		expect: `host and port, such as 10.0.0.1 6390, or ""`,
		many:   true,
		parse: func(v *Values, text string) error {
			words := strings.Fields(text)
			sound := len(words) == 0
			if len(words) == 2 {
				_, err := parseInt(words[1], 1, 65535)
				sound = err == nil && isHost(words[0])
			}
			if !sound {
				return errors.New("argument must be host and port, or empty")
			}
			*at(v) = strings.Join(words, " ")
			return nil
		},
		format: func(v *Values) string { return *at(v) },
	}
}

var oneWord = regexp.MustCompile(`^[!-~]{0,128}$`)

// word is printable characters without blanks, or nothing.
func word(at func(*Values) *string) kind {
	return kind{
		shape:  "text",
		expect: "at most 128 printable characters without blanks",
		parse: func(v *Values, text string) error {
			if !oneWord.MatchString(text) {
				return errors.New("argument must be at most 128 printable characters without blanks")
			}
			*at(v) = text
			return nil
		},
		format: func(v *Values) string { return *at(v) },
	}
}

// ackCount is a number of replicas, most nodes or all replicas.
func ackCount(at func(*Values) *string) kind {
	k := enum(at, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "majority", "all")
	k.shape = "0..9|majority|all"
	return k
}
