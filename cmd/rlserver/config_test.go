package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
)

// wiredConfig is a Config with all live options applied to nothing.
func wiredConfig() *Config {
	c := newConfig(defaults())
	c.OnSet(func(Values) error { return nil }, liveNames()...)
	return c
}

func liveNames() (names []string) {
	for _, o := range options {
		if o.live {
			names = append(names, o.name)
		}
	}
	return names
}

func TestConfigGet(t *testing.T) {
	c := wiredConfig()
	if err := c.Set([][2]string{{"requirepass", "x"}}); err != nil {
		t.Fatal(err)
	}
	for _, g := range []struct {
		pattern string
		want    [][2]string
	}{
		{"port", [][2]string{{"port", "6390"}}},
		{"PORT", [][2]string{{"port", "6390"}}},
		{"max*", [][2]string{{"max-clock-skew", "1s"}, {"maxclients", "10000"}, {"maxmemory-clients", "268435456"}, {"maxmemory", "0"}, {"maxmemory-policy", "noeviction"}}},
		{"time?ut", [][2]string{{"timeout", "0"}}},
		{"[p]or[s-u]", [][2]string{{"port", "6390"}}},
		{"requirepass", [][2]string{{"requirepass", mask}}},
		{"proto-max-bulk-len", [][2]string{{"proto-max-bulk-len", "524288"}}},
		{"save", [][2]string{{"save", ""}}},
		{"append*", [][2]string{{"appendonly", "no"}}},
		{"nope", nil},
		{"", nil},
		{"[", nil},
	} {
		if got := c.Get(g.pattern); !slices.Equal(got, g.want) {
			t.Errorf("%q: %v, want %v", g.pattern, got, g.want)
		}
	}
	all := c.Get("*")
	if len(all) != len(options)+len(facts) || all[0][0] != options[0].name || all[len(all)-1][0] != facts[len(facts)-1].name {
		t.Errorf("*: %v", all)
	}
}

// The texts are those of Redis 7.
func TestConfigSetRefusals(t *testing.T) {
	c := wiredConfig()
	before := c.Values()
	const failed = "CONFIG SET failed (possibly related to argument '%s') - %s"
	for _, s := range []struct {
		pairs [][2]string
		want  string
	}{
		{[][2]string{{"foo", "1"}}, "Unknown option or number of arguments for CONFIG SET - 'foo'"},
		{[][2]string{{"timeout", "1"}, {"f\r\no", "1"}}, `Unknown option or number of arguments for CONFIG SET - 'f\r\no'`},
		{[][2]string{{"timeout", "1"}, {"port", "1"}}, fmt.Sprintf(failed, "port", "can't set immutable config")},
		{[][2]string{{"save", ""}}, fmt.Sprintf(failed, "save", "can't set immutable config")},
		{[][2]string{{"timeout", "5"}, {"TIMEOUT", "6"}}, fmt.Sprintf(failed, "timeout", "duplicate parameter")},
		{[][2]string{{"timeout", "1"}, {"maxclients", "abc"}}, fmt.Sprintf(failed, "maxclients", "argument couldn't be parsed into an integer")},
		{[][2]string{{"timeout", "-1"}}, fmt.Sprintf(failed, "timeout", "argument must be between 0 and 2147483647 inclusive")},
		{[][2]string{{"loglevel", "foo"}}, fmt.Sprintf(failed, "loglevel", "argument(s) must be one of the following: debug, verbose, notice, warning")},
		{[][2]string{{"protected-mode", "maybe"}}, fmt.Sprintf(failed, "protected-mode", "argument must be 'yes' or 'no'")},
	} {
		if err := c.Set(s.pairs); err == nil || err.Error() != s.want {
			t.Errorf("%q:\n got %v\nwant %s", s.pairs, err, s.want)
		}
		if !reflect.DeepEqual(c.Values(), before) {
			t.Fatalf("%q was refused, and yet it changed something", s.pairs)
		}
	}
	for i := range options {
		o := &options[i]
		v := c.Values()
		if err := c.Set([][2]string{{o.name, o.kind.format(&v)}}); (err == nil) != o.live {
			t.Errorf("CONFIG SET %s: %v", o.name, err)
		}
	}
	if err := newConfig(defaults()).Set([][2]string{{"timeout", "1"}}); !errors.Is(err, errImmutable) {
		t.Errorf("a live option that nobody applies: %v", err)
	}
}

func TestConfigSetApplies(t *testing.T) {
	c := newConfig(defaults())
	var got []string
	var refuse error
	note := func(who string) func(Values) error {
		return func(v Values) error {
			got = append(got, fmt.Sprint(who, " ", v.MaxClients, " ", v.LogLevel))
			return nil
		}
	}
	c.OnSet(note("a"), "maxclients", "timeout")
	c.OnSet(note("b"), "loglevel")
	c.OnSet(func(Values) error { return refuse }, "loglevel")

	want := func(what string, calls ...string) {
		t.Helper()
		if !slices.Equal(got, calls) {
			t.Errorf("%s: %q, want %q", what, got, calls)
		}
		got = nil
	}
	if err := c.Set([][2]string{{"maxclients", "7"}, {"timeout", "3"}}); err != nil || c.Values().MaxClients != 7 {
		t.Errorf("%v, %d", err, c.Values().MaxClients)
	}
	want("two options of one, called once", "a 7 notice")
	refuse = errors.New("the log is full")
	err := c.Set([][2]string{{"maxclients", "8"}, {"LogLevel", "debug"}})
	if err == nil || err.Error() != "CONFIG SET failed (possibly related to argument 'loglevel') - the log is full" {
		t.Error(err)
	}
	want("refused late, taken back", "a 8 debug", "b 8 debug", "a 7 notice", "b 7 notice")
	if v := c.Values(); v.MaxClients != 7 || v.LogLevel != "notice" {
		t.Errorf("refused, and yet %+v", v)
	}
	defer func() {
		if recover() == nil {
			t.Error("OnSet took an option that is not live")
		}
	}()
	c.OnSet(note("c"), "port")
}

// Readers see all of a CONFIG SET or nothing of it. Worth running with -race.
func TestConfigIsConcurrencySafe(t *testing.T) {
	c := wiredConfig()
	if err := c.Set([][2]string{{"timeout", "1"}, {"maxclients", "1"}}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 500 {
				n := fmt.Sprint(1 + (i+w)%1000)
				if err := c.Set([][2]string{{"timeout", n}, {"maxclients", n}}); err != nil {
					t.Error(err)
				}
				if v := c.Values(); int(v.Timeout.Seconds()) != v.MaxClients {
					t.Errorf("half a change: %v %v", v.Timeout, v.MaxClients)
				}
				c.Get("*")
			}
		})
	}
	wg.Wait()
}
