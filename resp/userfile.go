package resp

import (
	"fmt"
	"strings"
)

// maxUserFaults is how many faults of one file are told.
const maxUserFaults = 20

// UserFile is what an aclfile says: a user a line, in Redis's format.
type UserFile struct {
	rights map[string]*rights
}

// Default says whether the file tells of the user default, which takes
// requirepass out of force.
func (f *UserFile) Default() bool { return f.rights[defaultUser] != nil }

// Len is how many users there are.
func (f *UserFile) Len() int { return len(f.rights) }

// UserFaults is all that is wrong with an aclfile, a line each, as in
//
//	users.acl:3: word 4 '+nosuch': Unknown command or category name in ACL
//
// What may be a password is not in it.
type UserFaults []string

func (f UserFaults) Error() string { return strings.Join(f, "\n") }

// ParseUsers reads the text of an aclfile; file is its name, for the error,
// which is a UserFaults. Empty lines say nothing.
func ParseUsers(file, text string) (*UserFile, error) {
	t := newTable(rows())
	f := &UserFile{rights: map[string]*rights{}}
	var faults UserFaults
	number := 0
	for line := range strings.Lines(text) {
		number++
		for _, fault := range f.line(t, line) {
			faults = append(faults, fmt.Sprintf("%s:%d: %s", file, number, fault))
		}
		if len(faults) > maxUserFaults {
			faults = append(faults[:maxUserFaults], fmt.Sprintf("%s: and perhaps more; these are the first %d", file, maxUserFaults))
			break
		}
	}
	if faults != nil {
		return nil, faults
	}
	return f, nil
}

// line reads one line and tells all that is wrong with it.
func (f *UserFile) line(t *table, line string) (faults []string) {
	words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(blanks, r) })
	switch {
	case len(words) == 0:
		return nil
	case words[0] != "user" || len(words) < 2:
		return []string{"should start with user keyword followed by the username"}
	case f.rights[words[1]] != nil:
		return []string{fmt.Sprintf("Duplicate user '%.64s' found", words[1])}
	case len(f.rights) == maxUsers:
		return []string{fmt.Sprintf("there are %d users above: no more can be made", maxUsers)}
	}
	if err := checkUserName(words[1]); err != nil {
		return []string{err.Error()}
	}
	r := noRights(t)
	for i, rule := range words[2:] {
		if err := r.apply(t, rule); err != nil {
			faults = append(faults, fmt.Sprintf("word %d%s: %v", i+3, shownRule(rule), err))
		}
	}
	f.rights[words[1]] = r.seal(t)
	return faults
}

// shownRule is a rule where it is certain that it holds no password; one may
// stand in a rule without its sign, too.
func shownRule(rule string) string {
	if strings.IndexByte("+-~%&", rule[0]) < 0 {
		return ""
	}
	return fmt.Sprintf(" '%.64s'", rule)
}
