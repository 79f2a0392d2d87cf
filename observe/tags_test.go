package observe

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Each struct has one fault, and New says so.
func TestTagFaults(t *testing.T) {
	type row struct {
		Command string `label:"command"`
		N       int64  `value:""`
	}
	malformed := reflect.New(reflect.StructOf([]reflect.StructField{{ // built at run time: go vet refuses to see it
		Name: "A", Type: reflect.TypeFor[int64](), Tag: `metric:"a" type=gauge`,
	}})).Interface()
	for _, c := range []struct {
		stats any
		want  string
	}{
		{struct {
			A int64 `metric:"a" type:"gauge" help:"x" unit:"ms"`
		}{}, `unknown tag word "unit": expected one of metric, type, help, info, label, value`},
		{struct {
			A int64 `metric:"a" type:"summary" help:"x"`
		}{}, `type "summary": expected gauge or counter`},
		{struct {
			A int64 `metric:"a" help:"x"`
		}{}, `type "": expected gauge or counter`},
		{struct {
			A int64 `metric:"a" type:"gauge"`
		}{}, `metric a needs a help tag`},
		{struct {
			A int64 `metric:"Keys Held" type:"gauge" help:"x"`
		}{}, `metric name "Keys Held"`},
		{struct {
			A int64 `metric:"a" type:"counter" help:"x"`
		}{}, `a counter's name ends in _total`},
		{struct {
			A int64 `metric:"a_total" type:"gauge" help:"x"`
		}{}, `a counter's name ends in _total`},
		{struct {
			A int64 `type:"gauge" help:"x"`
		}{}, `type and help mean nothing without a metric tag`},
		{struct {
			a int64 `metric:"a" type:"gauge" help:"x"`
		}{}, `must be exported`},
		{malformed, `is malformed`},
		{struct {
			A string `metric:"a" type:"gauge" help:"x"`
		}{}, `a metric of type string`},
		{struct {
			A time.Duration `metric:"a" type:"gauge" help:"x"`
		}{}, `a metric of type time.Duration`},
		{struct {
			A string `label:"a"`
		}{}, `label and value belong to the rows of a slice`},
		{struct {
			A []int64 `metric:"a" type:"gauge" help:"x"`
		}{}, `a slice of int64`},
		{struct {
			A []struct {
				N int64 `value:""`
			} `metric:"a" type:"gauge" help:"x"`
		}{}, `expected at least one label and exactly one value`},
		{struct {
			A []struct {
				L int64 `label:"l"`
				N int64 `value:""`
			} `metric:"a" type:"gauge" help:"x"`
		}{}, `label "l": expected a string field`},
		{struct {
			A []struct {
				L string `label:"l"`
				n int64  `value:""`
			} `metric:"a" type:"gauge" help:"x"`
		}{}, `a label or value tag must be exported`},
		{struct {
			A histogram `metric:"a" type:"gauge" help:"x"`
		}{}, `type "gauge" on a histogram`},
		{struct {
			A int64 `metric:"a" type:"gauge" help:"x"`
			B []row `metric:"a" type:"gauge" help:"x"`
		}{}, `metric rlserver_a is already that of`},
		{struct {
			A int64 `metric:"build_info" type:"gauge" help:"x"`
		}{}, `metric rlserver_build_info is already that of observe`},
		{7, `int: Stats must return structs`},
		{nil, `nil interface`},
	} {
		if got := newPanics(c.stats); !strings.Contains(got, c.want) {
			t.Errorf("%T:\n got %s\nwant %s", c.stats, got, c.want)
		}
	}
}

func newPanics(stats any) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	New(Options{Stats: func() []any { return []any{stats} }})
	return ""
}

func TestAllFaultsAtOnce(t *testing.T) {
	text := newPanics(struct {
		A int64 `metric:"a" type:"x" help:"x"`
		B struct {
			C int64 `metric:"b" type:"gauge" helb:"x"`
		}
	}{})
	if n := strings.Count(text, "\n\t"); n != 3 {
		t.Errorf("%d faults told, want 3 (type, unknown word, no help):\n%s", n, text)
	}
}
