package observe

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// maxRows is how many labelled rows of one metric are shown. Every row we have is one of a fixed set (commands,
// results, reasons); a metric with more has got something unbounded into a label.
const maxRows = 512

var droppedDesc = prometheus.NewDesc(prefix+"metrics_dropped_rows",
	"Labelled rows left out of this scrape because a metric had too many; above 0 means a fault in the server.", nil, nil)

// A collector emits what Stats returns. Its plans are read-only after newCollector.
type collector struct {
	stats func() []any
	order []plan // for Describe
	plans map[reflect.Type]plan
}

// newCollector learns the types of what stats returns and panics if their tags have faults.
func newCollector(stats func() []any) *collector {
	c := &collector{stats: stats, plans: map[reflect.Type]plan{}}
	var faults []string
	owner := map[string]string{prefix + "build_info": "observe", prefix + "metrics_dropped_rows": "observe"}
	for _, s := range stats() {
		t := reflect.TypeOf(s)
		if t == nil {
			faults = append(faults, "Stats returned a nil interface; a typed nil pointer is allowed")
			continue
		}
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		p, bad := readTags(t)
		faults = append(faults, bad...)
		for _, f := range p {
			if other, taken := owner[f.name]; taken {
				faults = append(faults, fmt.Sprintf("%s: metric %s is already that of %s", f.where, f.name, other))
			}
			owner[f.name] = f.where
		}
		c.order, c.plans[t] = append(c.order, p), p
	}
	if len(faults) > 0 {
		panic("observe: faults in the tags of Stats structs:\n\t" + strings.Join(faults, "\n\t"))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- droppedDesc
	for _, p := range c.order {
		for _, f := range p {
			ch <- f.desc
		}
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	dropped := 0
	for _, s := range c.stats() {
		v := reflect.ValueOf(s)
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				continue
			}
			v = v.Elem()
		}
		if !v.IsValid() {
			continue
		}
		p, known := c.plans[v.Type()]
		if !known {
			ch <- prometheus.NewInvalidMetric(droppedDesc, fmt.Errorf("Stats returned a %v, which its first call did not", v.Type()))
			continue
		}
		for _, f := range p {
			dropped += f.emit(ch, v.FieldByIndex(f.index))
		}
	}
	ch <- prometheus.MustNewConstMetric(droppedDesc, prometheus.GaugeValue, float64(dropped))
}

// emit sends the metrics of one field and returns how many rows it left out.
func (f *field) emit(ch chan<- prometheus.Metric, v reflect.Value) (dropped int) {
	if f.labels == nil {
		ch <- f.one(v)
		return 0
	}
	n := min(v.Len(), maxRows)
	for i := range n {
		row := v.Index(i)
		labels := make([]string, len(f.labels))
		for j, at := range f.labels {
			labels[j] = strings.ToValidUTF8(row.FieldByIndex(at).String(), "\uFFFD")
		}
		ch <- f.one(row.FieldByIndex(f.value), labels...)
	}
	return v.Len() - n
}

// one makes one series. What cannot be shown becomes an error of the scrape, never a panic.
func (f *field) one(v reflect.Value, labels ...string) prometheus.Metric {
	var m prometheus.Metric
	var err error
	if f.hist {
		m, err = f.histogram(v, labels)
	} else {
		m, err = prometheus.NewConstMetric(f.desc, f.kind, number(v), labels...)
	}
	if err != nil {
		return prometheus.NewInvalidMetric(f.desc, fmt.Errorf("%s: %w", f.where, err))
	}
	return m
}

func (f *field) histogram(v reflect.Value, labels []string) (prometheus.Metric, error) {
	bounds, counts := v.FieldByName("Bounds"), v.FieldByName("Counts")
	if counts.Len() != bounds.Len()+1 && (counts.Len() > 0 || bounds.Len() > 0) { // the zero value is an empty histogram
		return nil, fmt.Errorf("histogram with %d bounds and %d counts: expected one count more than bounds", bounds.Len(), counts.Len())
	}
	total := uint64(0)
	buckets := make(map[float64]uint64, bounds.Len())
	for i := range counts.Len() {
		total += counts.Index(i).Uint()
		if i < bounds.Len() {
			buckets[bounds.Index(i).Float()] = total
		}
	}
	return prometheus.NewConstHistogram(f.desc, total, v.FieldByName("Sum").Float(), buckets, labels...)
}

func number(v reflect.Value) float64 {
	switch {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	case v.CanFloat():
		return v.Float()
	case v.Bool():
		return 1
	}
	return 0
}
