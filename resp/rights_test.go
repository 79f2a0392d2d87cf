package resp

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// ruled are the rights that rules give; it fails on one that is wrong.
func ruled(t testing.TB, table *table, rules string) *rights {
	t.Helper()
	r := noRights(table)
	for _, rule := range strings.Fields(rules) {
		if err := r.apply(table, rule); err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
	}
	return r.seal(table)
}

// TestRules: what rules say, one after the other.
func TestRules(t *testing.T) {
	table := newTable(rows())
	const none, all = "off resetchannels -@all", "on nopass ~* &* +@all"
	for _, c := range []struct{ rules, want string }{
		{"", none},
		{"on nopass ~* &* +@all", all},
		{"ON NoPass AllKeys allchannels ALLCOMMANDS", all},
		{"on nopass ~* &* +@all reset", none},
		{"+@read -@all", none},
		{"+@all nocommands", none},
		{"on off", none},
		{"clearselectors sanitize-payload skip-sanitize-payload", none},
		// Later rules about the same take the place of earlier ones.
		{"+@Read -RL.PEEK", "off resetchannels -@all +@read -rl.peek"},
		{"+rl.peek -rl.peek +rl.peek", "off resetchannels -@all +rl.peek"},
		{"+@all -@read -rl.peek +@read", "off resetchannels +@all -rl.peek +@read"},
		{"+config|get +config|set -config", "off resetchannels -@all -config"},
		{"-config +config|get", "off resetchannels -@all -config +config|get"},
		{"+rl.limit|list +rl.log", "off resetchannels -@all +rl.limit|list +rl.log"},
		// Keys.
		{"~a ~b", "off ~a ~b resetchannels -@all"},
		{"%R~a %W~b %rw~c %WR~d", "off %R~a %W~b ~c ~d resetchannels -@all"},
		{"%R~a %W~a", "off ~a resetchannels -@all"},
		{"~a ~*", "off ~* resetchannels -@all"},
		{"%R~* %W~*", "off ~* resetchannels -@all"},
		{"%RW~*", "off ~* resetchannels -@all"},
		{"~* resetkeys ~a", "off ~a resetchannels -@all"},
		{"~", "off ~ resetchannels -@all"},
		{"&a &b &a", "off resetchannels &a &b -@all"},
		{"&a &*", "off &* -@all"},
		{"&* resetchannels", none},
	} {
		if got := ruled(t, table, c.rules).String(); got != c.want {
			t.Errorf("%s: got %s, want %s", c.rules, got, c.want)
		}
	}
}

// TestWrongRules: a rule that is wrong, after some that are right.
func TestWrongRules(t *testing.T) {
	table := newTable(rows())
	long := strings.Repeat("x", maxPattern+1)
	many := func(sign string, n int) (rules string) {
		for i := range n {
			rules += fmt.Sprintf("%s%d ", sign, i)
		}
		return rules
	}
	for _, c := range []struct {
		before, rule string
		want         error
	}{
		{"", "banana", errRule},
		{"", "%R", errRule},
		{"", "%~a", errRule},
		{"", "%X~a", errRule},
		{"", "~a b", errRule},
		{"", "~a\nuser root on nopass +@all", errRule},
		{"", "~a\x00", errRule},
		{"", "&a b", errRule},
		{"", "+", errRuleWhat},
		{"", "+@", errRuleWhat},
		{"", "+@nosuch", errRuleWhat},
		{"", "+nosuch", errRuleWhat},
		{"", "+config|nosuch", errRuleWhat},
		{"", "+config|", errRuleWhat},
		{"", "+rl.acquire|first", errRuleWhat},
		{"", "-rl.acquire|first", errRuleWhat},
		{"", "#abc", errRuleHash},
		{"", "#" + strings.Repeat("A", 64), errRuleHash},
		{"", "!" + strings.Repeat("a", 63), errRuleHash},
		{">x", "<y", errRuleNoPass},
		{">x", "!" + strings.Repeat("a", 64), errRuleNoPass},
		{"~*", "~a", errRuleKeys},
		{"~*", "%R~a", errRuleKeys},
		{"&*", "&a", errRuleChannels},
		{"", "(~a +get)", errRuleSelector},
		{"", "~" + long, errRuleLong},
		{"", "&" + long, errRuleLong},
		{many(">", maxPasswords), ">one-more", nil},
		{many("~", maxKeyPatterns), "~one-more", nil},
		{many("&", maxChannels), "&one-more", nil},
	} {
		r := ruled(t, table, c.before)
		before := r.String()
		switch err := r.clone().apply(table, c.rule); {
		case err == nil || c.want != nil && err != c.want:
			t.Errorf("%.40q: %v, want %v", c.rule, err, c.want)
		case c.want == nil && !strings.HasPrefix(err.Error(), "a user has at most "):
			t.Errorf("%.40q: %v", c.rule, err)
		}
		if r.String() != before {
			t.Errorf("%.40q: a change of a copy changed the rights: %s", c.rule, r)
		}
	}
}

// TestClone: a change of a copy, whether or not it comes into force, leaves alone
// what clients go by meanwhile.
func TestClone(t *testing.T) {
	table := newTable(rows())
	const rules = "on >a >b %R~k ~l &c +@read"
	r, same := ruled(t, table, rules), ruled(t, table, rules)
	for _, rule := range []string{"off", "<a", ">c", "%W~k", "~m", "&d", "+rl.acquire", "-rl.peek", "+@all", "nopass", "reset"} {
		c := r.clone()
		for range 2 { // what is appended first may show only then
			if err := c.apply(table, rule); err != nil && rule != "<a" {
				t.Fatal(rule, err)
			}
		}
		c.seal(table)
		if !reflect.DeepEqual(r, same) {
			t.Errorf("%s changed the rights that are in force: %v", rule, r)
		}
	}
}

// TestCategories: what the categories promise, whatever rows are added.
func TestCategories(t *testing.T) {
	table := newTable(rows())
	for _, c := range table.all() {
		is := func(category string) bool { return slices.Contains(c.categories(), "@"+category) }
		switch {
		case is("fast") == is("slow"):
			t.Errorf("%s is fast and slow, or neither", c.full)
		case is("read") && is("write"):
			t.Errorf("%s is @read and @write", c.full)
		case is("admin") && !is("dangerous"):
			t.Errorf("%s is @admin and not @dangerous", c.full)
		case is("limiter") && is("dangerous"):
			t.Errorf("%s is @limiter, which applications have, and @dangerous", c.full)
		case is("connection") && is("dangerous"):
			t.Errorf("%s is @connection, which every driver needs, and @dangerous", c.full)
		case (c.first > 0 || c.keysOf != nil || c.flags&flagAllKeys != 0) && !is("read") && !is("write"):
			t.Errorf("%s has keys and is neither @read nor @write", c.full)
		}
	}
}

// all are the commands and subcommands.
func (t *table) all() (all []*command) {
	for _, c := range t.rows {
		all = append(append(all, c), c.subs...)
	}
	return all
}

// TestCommandRules: each rule changes what it is about and nothing else.
func TestCommandRules(t *testing.T) {
	table := newTable(rows())
	whats := []string{}
	for _, c := range table.all() {
		whats = append(whats, c.full)
	}
	for _, c := range categories {
		whats = append(whats, "@"+c.name)
	}
	for _, base := range []string{"-@all", "+@all"} {
		for _, what := range whats {
			for _, sign := range []string{"+", "-"} {
				r := ruled(t, table, base+" "+sign+what)
				for _, c := range table.all() {
					cat, isCategory := strings.CutPrefix(what, "@")
					about := c.full == what || strings.HasPrefix(c.full, what+"|") || isCategory && slices.Contains(c.categories(), "@"+cat)
					want := base == "+@all"
					if about {
						want = sign == "+"
					}
					if r.may.has(c.index) != want {
						t.Errorf("%s %s%s: %s is %v", base, sign, what, c.full, !want)
					}
				}
			}
		}
	}
}

// TestKeyRights: which patterns allow what to which keys.
func TestKeyRights(t *testing.T) {
	table := newTable(rows())
	for _, c := range []struct {
		rules, key   string
		read, write  bool
		both, looked bool
	}{
		{"", "a", false, false, false, false},
		{"~a:*", "a:1", true, true, true, true},
		{"~a:*", "a:", true, true, true, true},
		{"~a:*", "a", false, false, false, false},
		{"~a:*", "b:a:1", false, false, false, false},
		{"~a:*", "A:1", false, false, false, false},
		{"%R~a:*", "a:1", true, false, false, true},
		{"%W~a:*", "a:1", false, true, false, true},
		{"%R~a:* %W~a:1", "a:1", true, true, false, true}, // as in Redis: no pattern allows both
		{"%R~a:* %W~b:*", "b:1", false, true, false, true},
		{"~a:? ~b:[0-9]", "b:7", true, true, true, true},
		{"~a:? ~b:[0-9]", "a:77", false, false, false, false},
		{`~a\*`, "a*", true, true, true, true},
		{`~a\*`, "ab", false, false, false, false},
		{"~a", "a\x00", false, false, false, false},
		{"~", "", true, true, true, true},
	} {
		r := ruled(t, table, c.rules)
		got := fmt.Sprint(r.reaches([]byte(c.key), accessRead), r.reaches([]byte(c.key), accessWrite), r.reaches([]byte(c.key), accessAll), r.reaches([]byte(c.key), 0))
		if want := fmt.Sprint(c.read, c.write, c.both, c.looked); got != want {
			t.Errorf("%s, key %q: read, write, both, looked at: %s, want %s", c.rules, c.key, got, want)
		}
	}
}

// randomRules are rules as people and programs make them.
func randomRules(rng *rand.Rand, table *table) (rules []string) {
	all := table.all()
	for range rng.IntN(12) {
		sign := []string{"+", "-"}[rng.IntN(2)]
		switch rng.IntN(9) {
		case 0, 1:
			rules = append(rules, sign+all[rng.IntN(len(all))].full)
		case 2, 3:
			rules = append(rules, sign+"@"+categories[rng.IntN(len(categories))].name)
		case 4:
			rules = append(rules, []string{"+@all", "-@all", "resetkeys", "resetchannels", "on", "off", "nopass", "resetpass", "reset", "~*", "&*"}[rng.IntN(11)])
		case 5, 6:
			rules = append(rules, []string{"~", "%R~", "%W~", "%RW~"}[rng.IntN(4)]+[]string{"k1:*", "k2:*", "[a-z]", `a\*`, "a\u00a0b\u2003c\u0085", "\x85\xa0\xff", "", "*"}[rng.IntN(8)])
		case 7:
			rules = append(rules, fmt.Sprintf(">p%d", rng.IntN(4)))
		default:
			rules = append(rules, fmt.Sprintf("&c%d", rng.IntN(4)))
		}
	}
	return rules
}

// TestRoundTrip: what is written is read as the same users with the same rights.
func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	for round := range 50 {
		u := newUsers(newTable(rows()), "")
		for i := range 20 {
			rules := randomRules(rng, u.table)
			for range rules { // a rule may be wrong after another one
				if bad, err := u.set(fmt.Sprintf("user-%d", i), rules); err != nil {
					rules = slices.DeleteFunc(rules, func(rule string) bool { return rule == bad })
				}
			}
		}
		file, err := ParseUsers("users.acl", u.text())
		if err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, u.text())
		}
		again := newUsers(newTable(rows()), "secret")
		again.replace(file)
		if again.text() != u.text() {
			t.Fatalf("round %d: wrote\n%sread\n%s", round, u.text(), again.text())
		}
		for _, name := range u.names() {
			was, is := u.get(name).rights.Load(), again.get(name).rights.Load()
			if !slices.Equal(was.may, is.may) || was.everything != is.everything {
				t.Fatalf("round %d: user %s may run other commands than before", round, name)
			}
		}
	}
}

// FuzzUserFile: any text is refused or says the same when it is written again.
func FuzzUserFile(f *testing.F) {
	for _, seed := range []string{
		"", "user a on nopass ~* &* +@all", "user default off\nuser b >x <x #" + strings.Repeat("0", 64) + " !" + strings.Repeat("0", 64),
		"user c %R~a %W~a %RW~b ~* resetkeys &c resetchannels -@all +@read -rl.peek +config|get reset", "user d (+get ~a)\r\nuser d\n\n# no comment",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := ParseUsers("fuzz", text)
		if err != nil {
			if len(err.Error()) > 1<<20 {
				t.Errorf("%d bytes of faults", len(err.Error()))
			}
			return
		}
		u := newUsers(newTable(rows()), "")
		u.replace(file)
		again, err := ParseUsers("fuzz", u.text())
		if err != nil {
			t.Fatalf("%q is written as %q: %v", text, u.text(), err)
		}
		v := newUsers(u.table, "")
		if v.replace(again); v.text() != u.text() {
			t.Errorf("%q is written as %q and then as %q", text, u.text(), v.text())
		}
	})
}
