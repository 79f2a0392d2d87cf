package resp

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Bounds of what one user can have.
const (
	maxPasswords   = 32
	maxKeyPatterns = 256
	maxChannels    = 256
)

// The faults of a rule, in Redis's words where it has them.
var (
	errRule       = errors.New("Syntax error")
	errRuleWhat   = errors.New("Unknown command or category name in ACL")
	errRuleHash   = errors.New("The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters")
	errRuleNoPass = errors.New("The password you are trying to remove from the user does not exist")
	errRuleKeys   = errors.New("Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. " +
		"Try 'resetkeys' to start with an empty list of patterns")
	errRuleChannels = errors.New("Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. " +
		"Try 'resetchannels' to start with an empty list of channels")
	errRuleSelector = errors.New("selectors are not supported: expected one set of rules for each user")
	errRuleLong     = fmt.Errorf("a pattern is at most %d bytes long", maxPattern)
)

// plainRules are the rules that are one word. The last ones are about what does
// not exist here: they stand in files that Redis wrote.
var plainRules = map[string]func(r *rights, t *table){
	"on":                    func(r *rights, t *table) { r.on = true },
	"off":                   func(r *rights, t *table) { r.on = false },
	"nopass":                func(r *rights, t *table) { r.nopass, r.passwords = true, nil },
	"resetpass":             func(r *rights, t *table) { r.nopass, r.passwords = false, nil },
	"allkeys":               func(r *rights, t *table) { r.allKeys, r.keys = true, nil },
	"resetkeys":             func(r *rights, t *table) { r.allKeys, r.keys = false, nil },
	"allchannels":           func(r *rights, t *table) { r.allChannels, r.channels = true, nil },
	"resetchannels":         func(r *rights, t *table) { r.allChannels, r.channels = false, nil },
	"allcommands":           func(r *rights, t *table) { r.commands(t, true) },
	"nocommands":            func(r *rights, t *table) { r.commands(t, false) },
	"reset":                 func(r *rights, t *table) { *r = *noRights(t) },
	"clearselectors":        func(r *rights, t *table) {},
	"sanitize-payload":      func(r *rights, t *table) {},
	"skip-sanitize-payload": func(r *rights, t *table) {},
}

// apply changes r by one rule, which may hold a password. The error does not
// repeat the rule.
func (r *rights) apply(t *table, rule string) error {
	if rule == "" {
		return nil // as Redis
	}
	if plain := plainRules[strings.ToLower(rule)]; plain != nil {
		plain(r, t)
		return nil
	}
	switch rest := rule[1:]; rule[0] {
	case '>':
		return r.addPassword(sha256.Sum256([]byte(rest)))
	case '<':
		return r.dropPassword(sha256.Sum256([]byte(rest)))
	case '#', '!':
		p, err := parseHash(rest)
		switch {
		case err != nil:
			return err
		case rule[0] == '#':
			return r.addPassword(p)
		}
		return r.dropPassword(p)
	case '~', '%':
		return r.addKeys(rule)
	case '&':
		return r.addChannels(rest)
	case '+', '-':
		return r.command(t, strings.ToLower(rest), rule[0] == '+')
	case '(':
		return errRuleSelector
	}
	return errRule
}

func parseHash(text string) (p password, err error) {
	if len(text) != 2*len(p) || strings.Trim(text, "0123456789abcdef") != "" {
		return p, errRuleHash
	}
	_, err = hex.Decode(p[:], []byte(text))
	return p, err
}

func (r *rights) addPassword(p password) error {
	r.nopass = false
	switch {
	case slices.Contains(r.passwords, p):
		return nil
	case len(r.passwords) == maxPasswords:
		return fmt.Errorf("a user has at most %d passwords", maxPasswords)
	}
	r.passwords = append(r.passwords, p)
	return nil
}

func (r *rights) dropPassword(p password) error {
	i := slices.Index(r.passwords, p)
	if i < 0 {
		return errRuleNoPass
	}
	r.passwords = slices.Delete(r.passwords, i, i+1)
	return nil
}

// addKeys is ~glob, %R~glob, %W~glob and %RW~glob.
func (r *rights) addKeys(rule string) error {
	how, glob, ok := strings.Cut(rule, "~")
	a, known := accessOf(how)
	switch {
	case !ok || !known || !oneWord(glob):
		return errRule
	case len(glob) > maxPattern:
		return errRuleLong
	case r.allKeys && (glob != "*" || a != accessAll):
		return errRuleKeys
	}
	i := slices.IndexFunc(r.keys, func(p keyPattern) bool { return p.glob == glob })
	if i >= 0 {
		a |= r.keys[i].access
	}
	switch {
	case glob == "*" && a == accessAll:
		r.allKeys, r.keys = true, nil
	case i >= 0:
		r.keys[i].access = a
	case len(r.keys) == maxKeyPatterns:
		return fmt.Errorf("a user has at most %d patterns of keys", maxKeyPatterns)
	default:
		r.keys = append(r.keys, keyPattern{glob, compile(glob), a})
	}
	return nil
}

// accessOf reads what stands before the ~ of a pattern: nothing, %R, %W, %RW.
func accessOf(how string) (a access, known bool) {
	if how == "" {
		return accessAll, true
	}
	for _, ch := range how[1:] {
		switch ch {
		case 'R', 'r':
			a |= accessRead
		case 'W', 'w':
			a |= accessWrite
		default:
			return 0, false
		}
	}
	return a, a != 0
}

// addChannels is &glob.
func (r *rights) addChannels(glob string) error {
	switch {
	case !oneWord(glob):
		return errRule
	case len(glob) > maxPattern:
		return errRuleLong
	case glob == "*":
		r.allChannels, r.channels = true, nil
	case r.allChannels:
		return errRuleChannels
	case slices.Contains(r.channels, glob):
	case len(r.channels) == maxChannels:
		return fmt.Errorf("a user has at most %d patterns of channels", maxChannels)
	default:
		r.channels = append(r.channels, glob)
	}
	return nil
}

// blanks part the words of a line of the aclfile.
const blanks = " \t\n\v\f\r"

// oneWord says whether a text can stand as a word on a line of the aclfile.
func oneWord(text string) bool { return !strings.ContainsAny(text, blanks+"\x00") }

// commands is +@all and -@all.
func (r *rights) commands(t *table, in bool) {
	r.base, r.rules = in, nil
	for i := range t.count {
		r.may.put(i, in)
	}
}

// command is +what and -what of a command, a subcommand or a category.
func (r *rights) command(t *table, what string, in bool) error {
	if what == "@all" {
		r.commands(t, in)
		return nil
	}
	found, known := t.named(what)
	if !known {
		return errRuleWhat
	}
	for _, c := range found {
		r.may.put(c.index, in)
	}
	// A later rule about the same, or about the whole of which the earlier one
	// named a part, makes the earlier one void.
	r.rules = slices.DeleteFunc(r.rules, func(rule string) bool { return rule[1:] == what || strings.HasPrefix(rule[1:], what+"|") })
	sign := "-"
	if in {
		sign = "+"
	}
	r.rules = append(r.rules, sign+what)
	return nil
}
