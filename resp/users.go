package resp

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Bounds of the users.
const (
	maxUsers    = 10_000
	maxUserName = 256 // bytes
)

// accounts are the users with what belongs to them.
type accounts struct {
	*users
	log     aclLog
	guesses guesses
	store   UserStore    // nil = there is no aclfile
	warned  atomic.Int64 // ns, when a wrong password was last logged
}

func newAccounts(t *table, requirepass string, file *UserFile, store UserStore) *accounts {
	a := &accounts{users: newUsers(t, requirepass), store: store}
	if file != nil {
		a.replace(file)
	}
	return a
}

// defaultUser is whom a client is that did not say who it is.
const defaultUser = "default"

// user is who a client is. Sessions hold it and look at its rights at each
// command, so that a change of rights is in force at once.
type user struct {
	name   string
	rights atomic.Pointer[rights]
}

func newUser(name string, r *rights) *user {
	u := &user{name: name}
	u.rights.Store(r)
	return u
}

// users are all the users there are. "default" is always one of them.
type users struct {
	table   *table
	dflt    *user // never another one
	nobody  *user // whose password is looked at for a name that nobody has: none fits
	removed *rights

	mu     sync.RWMutex // held for writing around each change
	byName map[string]*user
	pass   *password // what requirepass says, nil = nothing
}

// newUsers has the one user that requirepass describes.
func newUsers(t *table, requirepass string) *users {
	u := &users{table: t, nobody: newUser("", noRights(t)), removed: &rights{gone: true, may: noRights(t).may}, pass: hash(requirepass)}
	u.dflt = newUser(defaultUser, u.byDefault())
	u.byName = map[string]*user{defaultUser: u.dflt}
	return u
}

// hash is what is kept of a password; nil of none.
func hash(text string) *password {
	if text == "" {
		return nil
	}
	p := password(sha256.Sum256([]byte(text)))
	return &p
}

// byDefault are the rights of the user default where nothing but requirepass is
// said about them: all.
func (u *users) byDefault() *rights {
	r := noRights(u.table)
	r.on, r.allKeys, r.allChannels = true, true, true
	r.commands(u.table, true)
	return withPassword(r, u.pass).seal(u.table)
}

// withPassword gives changeable rights one password or, if it is nil, any.
func withPassword(r *rights, p *password) *rights {
	r.nopass, r.passwords = p == nil, nil
	if p != nil {
		r.passwords = []password{*p}
	}
	return r
}

// requirePassword is requirepass: the user default has this password alone, or
// with an empty one is let in without. It changes nothing if it says what it
// said before, so that what ACL rules said since then stays.
func (u *users) requirePassword(text string) {
	p := hash(text)
	u.mu.Lock()
	defer u.mu.Unlock()
	if p == u.pass || p != nil && u.pass != nil && *p == *u.pass {
		return
	}
	u.pass = p
	u.dflt.rights.Store(withPassword(u.dflt.rights.Load().clone(), p).seal(u.table))
}

// get finds a user; nil if there is none of this name.
func (u *users) get(name string) *user {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.byName[name]
}

// names are all users' names, sorted.
func (u *users) names() []string {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return slices.Sorted(maps.Keys(u.byName))
}

// login finds the user whom a name and a password fit. It takes as long for a
// name that nobody has, and wherever a wrong password differs from a right one.
func (u *users) login(name, pass []byte) (*user, bool) {
	u.mu.RLock()
	who := u.byName[string(name)]
	u.mu.RUnlock()
	if who == nil {
		who = u.nobody
	}
	r := who.rights.Load()
	fits := passwordFits(r.passwords, sha256.Sum256(pass)) || r.nopass
	return who, fits && r.on
}

// passwordFits compares with as many passwords as a user can have, all of each.
func passwordFits(passwords []password, given password) bool {
	var none password
	fits := 0
	for i := range maxPasswords {
		p, is := &none, 0
		if i < len(passwords) {
			p, is = &passwords[i], 1
		}
		fits |= subtle.ConstantTimeCompare(p[:], given[:]) & is
	}
	return fits == 1
}

var errUserName = errors.New("Usernames can't contain spaces or null characters")

func checkUserName(name string) error {
	switch {
	case !oneWord(name):
		return errUserName
	case name == "" || len(name) > maxUserName:
		return fmt.Errorf("a user's name is 1 to %d bytes long", maxUserName)
	}
	return nil
}

// set makes or changes a user: all rules are applied, or none. bad is the rule
// that the error is about, if it is about one.
func (u *users) set(name string, rules []string) (bad string, err error) {
	if err := checkUserName(name); err != nil {
		return "", err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	who := u.byName[name]
	if who == nil && len(u.byName) == maxUsers {
		return "", fmt.Errorf("there are %d users: no more can be made", maxUsers)
	}
	r := noRights(u.table)
	if who != nil {
		r = who.rights.Load().clone()
	}
	for _, rule := range rules {
		if err := r.apply(u.table, rule); err != nil {
			return rule, err
		}
	}
	u.put(name, r.seal(u.table))
	return "", nil
}

// put gives a user rights and makes it if there is none. mu is held.
func (u *users) put(name string, r *rights) {
	if who := u.byName[name]; who != nil {
		who.rights.Store(r)
		return
	}
	u.byName[name] = newUser(name, r)
}

// drop removes users and says how many of them there were. Who is logged in as
// one of them is not any more. "default" must not be among them.
func (u *users) drop(names []string) (n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range names {
		if who := u.byName[name]; who != nil {
			who.rights.Store(u.removed)
			delete(u.byName, name)
			n++
		}
	}
	return n
}

// replace makes the users those of a file. Who is logged in as one of them
// stays so, with its new rights. What the file does not say about the user
// default, requirepass says.
func (u *users) replace(file *UserFile) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name, who := range u.byName {
		if _, stays := file.rights[name]; !stays && who != u.dflt {
			who.rights.Store(u.removed)
			delete(u.byName, name)
		}
	}
	if _, said := file.rights[defaultUser]; !said {
		u.dflt.rights.Store(u.byDefault())
	}
	for name, r := range file.rights {
		u.put(name, r)
	}
}

// lines are the users as the aclfile and ACL LIST have them, sorted.
func (u *users) lines() (all []string) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(u.byName)) {
		all = append(all, "user "+name+" "+u.byName[name].rights.Load().String())
	}
	return all
}

// text is the aclfile.
func (u *users) text() string { return strings.Join(u.lines(), "\n") + "\n" }
