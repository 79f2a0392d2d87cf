package resp

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// access is what may be done, or is done, to the value of a key.
type access byte

const (
	accessRead  access = 1 << iota // what is in it is told
	accessWrite                    // it is made, changed or deleted
	accessAll   = accessRead | accessWrite
)

// keyPattern is a glob of keys and what may be done with them.
type keyPattern struct {
	glob     string
	compiled *glob
	access   access
}

// password is all that is kept of a password.
type password [sha256.Size]byte

// bitmap is a set of small numbers.
type bitmap []uint64

func (b bitmap) has(i int) bool { return b[i>>6]>>(i&63)&1 != 0 }

func (b bitmap) put(i int, in bool) {
	if in {
		b[i>>6] |= 1 << (i & 63)
	} else {
		b[i>>6] &^= 1 << (i & 63)
	}
}

// rights are what a user may do, and how one proves to be that user. Once a
// user has them they never change: a change makes new ones.
type rights struct {
	everything bool // every command on every key: all that is asked for whoever has it
	gone       bool // the user was removed

	on        bool // one may log in
	nopass    bool // with any password
	passwords []password

	may   bitmap   // the commands, by their index
	base  bool     // the rule before rules: +@all, or -@all
	rules []string // about commands, as they were said, but for those that a later one made void

	allKeys     bool
	keys        []keyPattern
	allChannels bool
	channels    []string // kept for Redis's files: no command here has a channel
}

// noRights are those of a new user: to be logged in as is not even possible.
func noRights(t *table) *rights { return &rights{may: make(bitmap, t.count/64+1)} }

// clone is a copy that can be changed.
func (r *rights) clone() *rights {
	c := *r
	c.passwords, c.may, c.rules = slices.Clone(r.passwords), slices.Clone(r.may), slices.Clone(r.rules)
	c.keys, c.channels = slices.Clone(r.keys), slices.Clone(r.channels)
	return &c
}

// seal ends the changes.
func (r *rights) seal(t *table) *rights {
	r.everything = r.allKeys
	for i := range t.count {
		r.everything = r.everything && r.may.has(i)
	}
	return r
}

// open says whether one is let in as this user without a password.
func (r *rights) open() bool { return r.on && r.nopass }

// denial is why a call is refused.
type denial byte

const (
	granted       denial = iota
	deniedCommand        // not this command
	deniedKey            // not this key
	deniedReach          // not all keys, of which the call reaches those it does not name
)

// check says whether a call is allowed; at is the argument that is not. It does
// not allocate, but for commands whose keys depend on the arguments.
func (r *rights) check(c *command, args [][]byte) (d denial, at int) {
	switch {
	case r.everything, c.flags&flagNoAuth != 0:
		return granted, 0
	case !r.may.has(c.index):
		return deniedCommand, 0
	case r.allKeys:
		return granted, 0
	case c.keysOf != nil:
		return r.checkKeys(c, args, c.keysOf(args))
	case c.first == 0:
		return r.checkKeys(c, args, nil)
	}
	first, last, step := c.span(len(args))
	for i := first; i <= last; i += step {
		if !r.reaches(args[i], c.access) {
			return deniedKey, i
		}
	}
	return granted, 0
}

// checkKeys is check for keys that stand anywhere, or nowhere.
func (r *rights) checkKeys(c *command, args [][]byte, keys []int) (d denial, at int) {
	if len(keys) == 0 && c.flags&flagAllKeys != 0 && !r.reachesAll(c.access) {
		return deniedReach, 0
	}
	for _, i := range keys {
		if !r.reaches(args[i], c.access) {
			return deniedKey, i
		}
	}
	return granted, 0
}

// reaches says whether one pattern allows all of the access to a key.
func (r *rights) reaches(key []byte, need access) bool {
	for _, p := range r.keys {
		if p.access&need == need && matches(p.compiled, key) {
			return true
		}
	}
	return false
}

// reachesAll says whether one pattern allows the access to every key.
func (r *rights) reachesAll(need access) bool {
	return slices.ContainsFunc(r.keys, func(p keyPattern) bool { return p.glob == "*" && p.access&need == need })
}

// flags are the words of ACL GETUSER.
func (r *rights) flags() []string {
	words := []string{"off"}
	if r.on {
		words[0] = "on"
	}
	if r.nopass {
		words = append(words, "nopass")
	}
	return words
}

// hashes are the passwords' SHA-256, in hex.
func (r *rights) hashes() (all []string) {
	for _, p := range r.passwords {
		all = append(all, hex.EncodeToString(p[:]))
	}
	return all
}

func (p keyPattern) String() string {
	switch p.access {
	case accessRead:
		return "%R~" + p.glob
	case accessWrite:
		return "%W~" + p.glob
	}
	return "~" + p.glob
}

// keyWords are the patterns of keys, as rules.
func (r *rights) keyWords() (all []string) {
	if r.allKeys {
		return []string{"~*"}
	}
	for _, p := range r.keys {
		all = append(all, p.String())
	}
	return all
}

// channelWords are the patterns of channels, as rules.
func (r *rights) channelWords() (all []string) {
	if r.allChannels {
		return []string{"&*"}
	}
	for _, c := range r.channels {
		all = append(all, "&"+c)
	}
	return all
}

// commandWords are the rules about commands.
func (r *rights) commandWords() []string {
	base := "-@all"
	if r.base {
		base = "+@all"
	}
	return append([]string{base}, r.rules...)
}

// String is the rules of a line of the aclfile: applied to noRights they give
// the same rights.
func (r *rights) String() string {
	words := r.flags()
	for _, h := range r.hashes() {
		words = append(words, "#"+h)
	}
	words = append(words, r.keyWords()...)
	if !r.allChannels {
		words = append(words, "resetchannels")
	}
	words = append(words, r.channelWords()...)
	return strings.Join(append(words, r.commandWords()...), " ")
}
