package observe

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// prefix starts the name of every metric of ours.
const prefix = "rlserver_"

// tagWords are the tag keys a field of a Stats struct may carry. A word that is not here is most likely misspelt, and
// a misspelt tag would silently lose a metric.
var tagWords = []string{"metric", "type", "help", "info", "label", "value"}

var (
	nameShape    = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	durationType = reflect.TypeFor[time.Duration]()
	boundsType   = reflect.TypeFor[[]float64]()
	countsType   = reflect.TypeFor[[]uint64]()
)

// A field is one metric: where it stands in its struct and how to emit it.
type field struct {
	where string // package.Type.Field, for texts
	name  string // with prefix
	index []int
	desc  *prometheus.Desc
	kind  prometheus.ValueType // unused for histograms
	hist  bool

	// Of labelled rows only (labels is nil otherwise): where a row's labels and value stand in the row's struct.
	labels [][]int
	value  []int
}

// A plan is what one Stats type emits; made once.
type plan []field

// A reader makes a plan and gathers every fault it meets, so that they can all be mended at once.
type reader struct {
	plan   plan
	faults []string
}

// readTags makes the plan of a struct type. The faults are sentences that name the field.
func readTags(t reflect.Type) (plan, []string) {
	var r reader
	if t.Kind() != reflect.Struct {
		return nil, []string{fmt.Sprintf("%v: Stats must return structs or pointers to structs", t)}
	}
	r.walk(t, nil)
	return r.plan, r.faults
}

func (r *reader) fault(where, format string, args ...any) {
	r.faults = append(r.faults, where+": "+fmt.Sprintf(format, args...))
}

func (r *reader) walk(t reflect.Type, at []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		where := t.String() + "." + f.Name
		index := append(slices.Clone(at), i)
		r.checkWords(where, f.Tag)
		name, tagged := f.Tag.Lookup("metric")
		switch {
		case tagged && !f.IsExported():
			r.fault(where, "a field with a metric tag must be exported")
		case tagged:
			r.metric(where, name, f, index)
		case hasAny(f.Tag, "type", "help"):
			r.fault(where, "type and help mean nothing without a metric tag")
		case hasAny(f.Tag, "label", "value"):
			r.fault(where, "label and value belong to the rows of a slice with a metric tag")
		case f.Type.Kind() == reflect.Struct:
			r.walk(f.Type, index)
		}
	}
}

// metric reads the tags of one field that has a metric tag.
func (r *reader) metric(where, name string, f reflect.StructField, index []int) {
	d := field{where: where, name: prefix + name, index: index}
	help := f.Tag.Get("help")
	if !nameShape.MatchString(name) {
		r.fault(where, "metric name %q: expected lower-case words joined by _, without %q before them", name, prefix)
	}
	if help == "" {
		r.fault(where, "metric %s needs a help tag", name)
	}
	value, labels := f.Type, []string(nil)
	if f.Type.Kind() == reflect.Slice {
		value, labels = r.rows(where, f.Type.Elem(), &d)
		if value == nil {
			return
		}
	}
	kind := f.Tag.Get("type")
	d.hist = isHistogram(value)
	switch {
	case d.hist && (kind == "" || kind == "histogram"):
	case d.hist:
		r.fault(where, "type %q on a histogram: leave it out or write histogram", kind)
	case !isNumber(value):
		r.fault(where, "a metric of type %v: expected an integer, a float, a bool, a histogram or a slice of labelled rows (a duration is given as float64 seconds)", value)
	case kind == "gauge":
		d.kind = prometheus.GaugeValue
	case kind == "counter":
		d.kind = prometheus.CounterValue
	default:
		r.fault(where, "type %q: expected gauge or counter", kind)
	}
	if counts := kind == "counter"; counts != strings.HasSuffix(name, "_total") {
		r.fault(where, "metric %s: a counter's name ends in _total, and no other's does", name)
	}
	d.desc = prometheus.NewDesc(d.name, help, labels, nil)
	r.plan = append(r.plan, d)
}

// rows reads the struct type of labelled rows into d. It returns the type of the value and the label names, or a nil
// type after a fault.
func (r *reader) rows(where string, row reflect.Type, d *field) (value reflect.Type, labels []string) {
	if row.Kind() != reflect.Struct {
		r.fault(where, "a slice of %v: expected a slice of structs with label and value tags", row)
		return nil, nil
	}
	values, sound := 0, true
	for i := range row.NumField() {
		f := row.Field(i)
		at := row.String() + "." + f.Name
		r.checkWords(at, f.Tag)
		label, isLabel := f.Tag.Lookup("label")
		_, isValue := f.Tag.Lookup("value")
		switch {
		case (isLabel || isValue) && !f.IsExported():
			r.fault(at, "a field with a label or value tag must be exported")
			sound = false
		case isLabel && (f.Type.Kind() != reflect.String || !nameShape.MatchString(label) || slices.Contains(labels, label)):
			r.fault(at, "label %q: expected a string field and a name of its own in lower-case words joined by _", label)
			sound = false
		case isLabel:
			labels, d.labels = append(labels, label), append(d.labels, []int{i})
		case isValue:
			values, value, d.value = values+1, f.Type, []int{i}
		}
	}
	if values != 1 || len(labels) == 0 {
		r.fault(where, "rows of type %v: expected at least one label and exactly one value", row)
		sound = false
	}
	if !sound {
		return nil, nil
	}
	return value, labels
}

// checkWords reports tag keys that nobody reads.
func (r *reader) checkWords(where string, tag reflect.StructTag) {
	words, ok := tagKeys(string(tag))
	if !ok {
		r.fault(where, "tag `%s` is malformed: expected word:\"text\" pairs with one space between them", tag)
	}
	for _, w := range words {
		if !slices.Contains(tagWords, w) {
			r.fault(where, "unknown tag word %q: expected one of %s", w, strings.Join(tagWords, ", "))
		}
	}
}

// tagKeys lists the keys of a struct tag; ok is false if it does not have the conventional form.
func tagKeys(tag string) (keys []string, ok bool) {
	for tag = strings.TrimLeft(tag, " "); tag != ""; tag = strings.TrimLeft(tag, " ") {
		key, rest, found := strings.Cut(tag, ":")
		quoted, err := strconv.QuotedPrefix(rest)
		if !found || err != nil || key == "" || strings.ContainsAny(key, " \"") {
			return keys, false
		}
		keys, tag = append(keys, key), rest[len(quoted):]
	}
	return keys, true
}

func hasAny(tag reflect.StructTag, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { _, ok := tag.Lookup(w); return ok })
}

func isNumber(t reflect.Type) bool {
	return t != durationType && (t.Kind() == reflect.Bool || reflect.Int <= t.Kind() && t.Kind() <= reflect.Float64 && t.Kind() != reflect.Uintptr)
}

func isHistogram(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	has := func(name string, want func(reflect.Type) bool) bool {
		f, ok := t.FieldByName(name)
		return ok && f.IsExported() && want(f.Type)
	}
	return has("Bounds", boundsType.AssignableTo) &&
		has("Counts", countsType.AssignableTo) &&
		has("Sum", func(t reflect.Type) bool { return t.Kind() == reflect.Float64 })
}
