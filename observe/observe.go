// Package observe turns the Stats structs of the other rooms into Prometheus metrics and answers whether the server
// lives and is ready.
//
// Call New once with a function that gathers the structs, then serve Handler, or take Server and hand it a listener.
//
// A Stats struct says by tags what its fields are; the package doc of no other room is needed to read them:
//
//	type Stats struct {
//		Keys    int64  `metric:"keys" type:"gauge" help:"Keys held now." info:"Limiter:rl_keys"`
//		Evicted uint64 `metric:"keys_expired_total" type:"counter" help:"Keys dropped after their deadline."`
//		ByName  []Row  `metric:"decisions_total" type:"counter" help:"Decisions by command and result."`
//		Took    Hist   `metric:"command_duration_seconds" help:"Time spent in a command."`
//		Disk    disk.Stats // a struct without a metric tag is walked
//	}
//	type Row struct {
//		Command string `label:"command"`
//		Result  string `label:"result"`
//		Count   uint64 `value:""`
//	}
//	type Hist struct { Bounds []float64; Counts []uint64; Sum float64 } // Counts: one more than Bounds, for +Inf
//
// A metric is called rlserver_<metric>. Counters end in _total, nothing else does. A labelled row's value may be a
// histogram too. The info tag belongs to the INFO command and is not read here.
//
// Label names come from the struct types and a metric has at most maxRows rows, so the number of series does not
// depend on how many keys callers use.
package observe

import (
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds on the HTTP side. It serves small pages to few, known scrapers, so they are tight.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute // longer than the usual scrape interval, so that a scraper keeps its connection
	maxHeaderBytes    = 16 << 10
	maxScrapes        = 4   // scrapes at one time; more are answered 503
	maxReasonBytes    = 512 // of a reason shown by /readyz
)

// Options are what New needs to know.
type Options struct {
	// Stats returns the current figures: structs, or pointers to structs, tagged as the package doc says. It is called
	// once by New, to learn the types, and once per scrape, perhaps by several goroutines at a time. Each call must
	// return values of the types that the first one returned; a nil pointer stands for "no figures yet".
	Stats func() []any
	// Ready returns nil if the server can serve callers, else an error that is the reason why not. A remark is what whoever
	// looks should know of a server that can, or empty. Nil: always ready.
	Ready func() (remark string, err error)
	// Version and Revision name the build; Revision is the source commit and may be empty.
	Version, Revision string
	// GoVersion is what built it; empty means runtime.Version().
	GoVersion string
	// Log receives faults of a scrape and of the HTTP server. Nil discards them.
	Log *slog.Logger
}

// An Observer serves metrics and health. It is safe for concurrent use.
type Observer struct {
	handler http.Handler
	log     *slog.Logger
}

// New reads the tags of everything Stats returns and prepares the handlers. Tags that say something else than the
// package doc allows, and two fields with one metric name, are faults of the program: New panics and lists them all.
func New(o Options) *Observer {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.GoVersion == "" {
		o.GoVersion = runtime.Version()
	}
	if o.Ready == nil {
		o.Ready = func() (string, error) { return "", nil }
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		newCollector(o.Stats),
		buildInfo(o),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		Registry:            reg,
		ErrorLog:            slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError, // one bad figure must not hide the others
		MaxRequestsInFlight: maxScrapes,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		switch remark, err := o.Ready(); {
		case err != nil:
			say(w, http.StatusServiceUnavailable, "not ready: "+oneLine(err.Error()))
		case remark != "":
			say(w, http.StatusOK, "ready, but "+oneLine(remark))
		default:
			say(w, http.StatusOK, "ready")
		}
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusOK, "rlserver "+o.Version+"\n\n/metrics  Prometheus metrics\n/healthz  does the process serve\n/readyz   can it serve callers")
	})
	return &Observer{handler: mux, log: o.Log}
}

// Handler serves /metrics (Prometheus text or OpenMetrics), /healthz (200 as long as the process serves) and /readyz
// (200, perhaps with a remark, or 503 with the reason, on one line). Any other path is 404, any method but GET and HEAD 405.
func (o *Observer) Handler() http.Handler { return o.handler }

// Server returns a new HTTP server around Handler with every timeout and bound set, but for that on connections, which
// its listener has by Newest. The caller owns its listener and its shutdown.
func (o *Observer) Server() *http.Server {
	return &http.Server{
		Handler:           o.handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(o.log.Handler(), slog.LevelWarn),
	}
}

func buildInfo(o Options) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        prefix + "build_info",
		Help:        "Always 1; the labels name the build.",
		ConstLabels: prometheus.Labels{"version": o.Version, "revision": o.Revision, "goversion": o.GoVersion},
	})
	g.Set(1)
	return g
}

// say answers with one piece of plain text that no cache may keep.
func say(w http.ResponseWriter, code int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text + "\n")) // a peer that is gone is not our fault
}

// oneLine makes a reason fit for one line of text: control characters become spaces, and it is cut at maxReasonBytes.
func oneLine(s string) string {
	if len(s) > maxReasonBytes {
		s = s[:maxReasonBytes] + "..."
	}
	s = strings.ToValidUTF8(s, "?")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
