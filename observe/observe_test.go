package observe

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite testdata/metrics.txt")

type keyspace struct {
	Keys    int64  `metric:"keys" type:"gauge" help:"Keys held now." info:"Limiter:rl_keys"`
	Expired uint64 `metric:"keys_expired_total" type:"counter" help:"Keys dropped after their deadline."`
	Path    string `info:"Server:config_file"`
	Since   time.Time
	Disk    disk
}

type disk struct {
	OK  bool    `metric:"persistence_ok" type:"gauge" help:"1 while writing works."`
	Lag float64 `metric:"durable_lag_seconds" type:"gauge" help:"Age of the oldest change not yet on disk."`
}

type commands struct {
	Decisions []decision `metric:"decisions_total" type:"counter" help:"Decisions by command and result."`
	Took      histogram  `metric:"round_duration_seconds" help:"Time spent in a round."`
	ByCommand []took     `metric:"command_duration_seconds" type:"histogram" help:"Time spent in a command."`
}

type decision struct {
	Command string `label:"command"`
	Result  string `label:"result"`
	Count   uint64 `value:""`
}

type took struct {
	Command string    `label:"command"`
	Time    histogram `value:""`
}

type histogram struct {
	Bounds []float64
	Counts []uint64
	Sum    float64
}

func sample() []any {
	return []any{
		&keyspace{Keys: 3, Expired: 1 << 40, Path: "/etc/x", Disk: disk{OK: true, Lag: 0.25}},
		commands{
			Decisions: []decision{{"rl.acquire", "allow", 10}, {"rl.acquire", "deny", 1}, {"odd\"\\\nname\xff", "allow", 2}},
			Took:      histogram{Bounds: []float64{0.001, 0.01}, Counts: []uint64{4, 2, 1}, Sum: 0.5},
			ByCommand: []took{{"rl.peek", histogram{Bounds: []float64{1}, Counts: []uint64{1, 0}, Sum: 0.1}}, {"ping", histogram{}}},
		},
	}
}

func get(t *testing.T, o *Observer, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	o.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// ours keeps the lines about metrics of our own: the Go and process collectors differ from run to run.
func ours(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "), prefix) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestExposition(t *testing.T) {
	const golden = "testdata/metrics.txt"
	o := New(Options{Stats: sample, Version: "1.2.3", Revision: "abc", GoVersion: "go1.26"})
	code, text := get(t, o, "/metrics")
	if code != http.StatusOK {
		t.Fatalf("status %d: %s", code, text)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(ours(text)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := ours(text); got != string(want) {
		t.Errorf("/metrics differs from %s (-update rewrites it):\n%s", golden, got)
	}
	for _, name := range []string{"go_goroutines ", "process_open_fds ", "process_resident_memory_bytes "} {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("no %sin /metrics", name)
		}
	}
}

func TestSeriesDoNotGrow(t *testing.T) {
	rows := 2
	o := New(Options{Stats: func() []any {
		c := commands{Decisions: make([]decision, rows)}
		for i := range c.Decisions {
			c.Decisions[i] = decision{Command: fmt.Sprint("c", i), Result: "allow", Count: 1}
		}
		return []any{keyspace{Keys: int64(rows)}, c}
	}})
	series := func() (n int) {
		_, text := get(t, o, "/metrics")
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, prefix) {
				n++
			}
		}
		return n
	}
	few := series()
	rows = maxRows
	if got, want := series(), few+maxRows-2; got != want {
		t.Fatalf("%d series, want %d", got, want)
	}
	rows = 1_000_000
	if got, want := series(), few+maxRows-2; got != want {
		t.Fatalf("%d series with a million rows, want %d", got, want)
	}
	if _, text := get(t, o, "/metrics"); !strings.Contains(text, fmt.Sprintf("rlserver_metrics_dropped_rows %d\n", rows-maxRows)) {
		t.Error("rows left out are not counted")
	}
}

func TestBadFigureLeavesTheRest(t *testing.T) {
	var log bytes.Buffer
	now := sample()
	o := New(Options{Stats: func() []any { return now }, Log: slog.New(slog.NewTextHandler(&log, nil))})
	now = []any{
		(*keyspace)(nil),
		commands{Took: histogram{Counts: []uint64{1, 2, 3}}, Decisions: []decision{{"ping", "allow", 7}}},
		disk{}, // not there the first time
	}
	code, text := get(t, o, "/metrics")
	if code != http.StatusOK || !strings.Contains(text, `rlserver_decisions_total{command="ping",result="allow"} 7`) {
		t.Errorf("status %d:\n%s", code, ours(text))
	}
	if strings.Contains(text, "rlserver_keys ") {
		t.Error("a nil pointer gave figures")
	}
	for _, want := range []string{"commands.Took: histogram with 0 bounds and 3 counts", "Stats returned a observe.disk"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log does not say %q:\n%s", want, log.String())
		}
	}
}

func TestHealth(t *testing.T) {
	var remark string
	var reason error
	o := New(Options{Stats: func() []any { return nil }, Ready: func() (string, error) { return remark, reason }, Version: "1.2.3"})
	for _, c := range []struct {
		remark string
		reason error
		path   string
		code   int
		body   string
	}{
		{"", nil, "/healthz", 200, "ok\n"},
		{"", nil, "/readyz", 200, "ready\n"},
		{"the disk\nis full", nil, "/readyz", 200, "ready, but the disk is full\n"},
		{"the disk is full", nil, "/healthz", 200, "ok\n"},
		{"", errors.New("loading 5 of 10 keys"), "/readyz", 503, "not ready: loading 5 of 10 keys\n"},
		{"it is", errors.New("a\r\nb\x1b[31m\x00"), "/readyz", 503, "not ready: a  b [31m \n"},
		{"", errors.New(strings.Repeat("x", 9999)), "/readyz", 503, "not ready: " + strings.Repeat("x", maxReasonBytes) + "...\n"},
		{"", errors.New("loading"), "/healthz", 200, "ok\n"},
		{"", nil, "/nothing", 404, "404 page not found\n"},
	} {
		remark, reason = c.remark, c.reason
		if code, body := get(t, o, c.path); code != c.code || body != c.body {
			t.Errorf("%s with %v: %d %q, want %d %q", c.path, c.reason, code, body, c.code, c.body)
		}
	}
	w := httptest.NewRecorder()
	o.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	if _, body := get(t, o, "/"); !strings.HasPrefix(body, "rlserver 1.2.3\n") {
		t.Errorf("front page: %q", body)
	}
}

func TestServerIsBounded(t *testing.T) {
	s := New(Options{Stats: sample}).Server()
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= 0 || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 || s.ErrorLog == nil {
		t.Errorf("a bound is missing: %+v", s)
	}
	ts := httptest.NewUnstartedServer(nil)
	ts.Config = s
	ts.Start()
	defer ts.Close()
	res, err := ts.Client().Get(ts.URL + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); string(body) != "ok\n" {
		t.Errorf("%q", body)
	}
}

func BenchmarkScrape(b *testing.B) {
	h := New(Options{Stats: sample}).Handler()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
}
