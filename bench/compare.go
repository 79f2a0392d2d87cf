//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// `go run . compare` sets rlserver's algorithms side by side under one limit and writes a page and a chart:
//
//	replay.go   the same calls to each, in time that is made up (traffic.go): what is admitted
//	cost.go     bytes a key and CPU time a call
//	naive.go    what happens to a limiter on Redis that reads, computes and writes
//	page.go     the page; chart.go its picture
//
// It exits with 1 if a figure is not what the algorithm promises.

const (
	costKeys   = 2000 // by algorithm
	costRounds = 3

	fullBatch = 256 // calls sent at once on one connection where their order matters: they and their replies fit into the sockets' buffers
)

// parseCompare reads the command line after "compare". The page is written to options.out, the chart beside it.
func parseCompare(args []string, stderr io.Writer) (options, error) {
	o := options{only: regexp.MustCompile("")}
	flags := flag.NewFlagSet("bench compare", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", costRounds, "how often CPU time is measured for each algorithm, 1 to 100")
	flags.IntVar(&o.connections, "connections", 50, "connections that race, 2 to 1000")
	flags.IntVar(&o.keys, "keys", costKeys, "keys by which bytes and CPU time are measured, 32 a connection to 1000000")
	flags.StringVar(&o.out, "o", "algorithms.md", "write the page to this `file`, and the chart beside it as .svg")
	flags.StringVar(&o.rlserver, "rlserver", "", "rlserver `binary` (default: built from -root)")
	flags.StringVar(&o.redis, "redis", "redis-server", "redis-server `binary`")
	flags.StringVar(&o.root, "root", "..", "rlserver's source `directory`")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case filepath.Ext(o.out) != ".md":
		err = fmt.Errorf("-o is %q, expected a name that ends in .md", o.out)
	default:
		err = checkBounds([]bound{
			{"rounds", float64(o.rounds), 1, 100},
			{"connections", float64(o.connections), 2, 1000},
			{"keys", float64(o.keys), float64(o.connections * batch), 1_000_000},
		})
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench compare:", err)
	}
	return o, err
}

// An algorithm is one way to allow limitCalls in each limitWindow.
type algorithm struct {
	title string // in tables and the chart
	expr  string // what RL.ACQUIRE is given
	edge  int    // admitted at worst in any window at a window's edge by design; -1 = only bounded
	most  int    // admitted at worst in any window whatever the traffic
}

const exactly = 3 // the place of LOG among the algorithms: what the others are compared with

// algorithms are all given the same limit, and in the end a bucket that keeps it in every window: what it can hold and
// what it gains in a window are the limit together.
func algorithms() []algorithm {
	n, w := limitCalls, fmt.Sprintf("%dm", limitWindow/60_000)
	rate := n - n/10
	return []algorithm{
		{"FIXED, aligned", fmt.Sprintf("fixed-aligned:%d/%s", n, w), 2 * n, 2 * n},
		{"FIXED, from the first call", fmt.Sprintf("fixed:%d/%s", n, w), 2*n - 1, 2*n - 1}, // the call that opened the window is out
		{"SLIDING", fmt.Sprintf("sliding:%d/%s", n, w), -1, 2 * n},
		{"LOG", fmt.Sprintf("log:%d/%s", n, w), n, n},
		{"bucket, burst = limit", fmt.Sprintf("%d/%s:%d", n, w, n), -1, 2 * n},
		{"bucket, burst + rate = limit", fmt.Sprintf("%d/%s:%d", rate, w, n-rate), -1, n},
	}
}

// comparison is all that the page is made of: nothing in it comes from an earlier run.
type comparison struct {
	options   options
	machine   []string // lines "what: value"
	traffics  []traffic
	replayed  [][]replayed // by traffic, then by algorithm
	costs     []cost       // by algorithm, and of PING
	contests  []contest
	took      time.Duration
	loadAtEnd string
}

func compare(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "rlserver-compare-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{options: o, dir: dir}
	for _, k := range kinds(o)[:2] {
		if k.name == "rlserver" {
			k.args = append(k.args, "--caller-clock", "trusted")
		}
		if err := b.find(ctx, &k); err != nil {
			return err
		}
		b.kinds = append(b.kinds, k)
	}
	began := time.Now()
	c := &comparison{options: o, machine: describe(ctx, b), traffics: traffics()}
	if c.replayed, err = b.replay(ctx, c.traffics); err != nil {
		return err
	}
	if c.costs, err = b.measureCosts(ctx); err != nil {
		return err
	}
	if c.contests, err = b.contend(ctx); err != nil {
		return err
	}
	c.took, c.loadAtEnd = time.Since(began), loadAverage()
	picture := o.out[:len(o.out)-len(".md")] + ".svg"
	text := c.markdown(filepath.Base(picture))
	fmt.Print(text)
	return errors.Join(os.WriteFile(o.out, []byte(text), 0o644), os.WriteFile(picture, c.chart(), 0o644), c.verdict())
}

// verdict says which figures are not what was promised.
func (c *comparison) verdict() error {
	var errs []error
	for i, t := range c.traffics {
		for j, a := range algorithms() {
			got := c.replayed[i][j].worst
			if t.name == atTheEdge && a.edge >= 0 && got != a.edge {
				errs = append(errs, fmt.Errorf("%s, %s: admitted at worst %d in a window, expected exactly %d", t.name, a.title, got, a.edge))
			}
			if got > a.most {
				errs = append(errs, fmt.Errorf("%s, %s: admitted at worst %d in a window, expected at most %d", t.name, a.title, got, a.most))
			}
		}
	}
	for _, contest := range c.contests {
		errs = append(errs, contest.verdict())
	}
	return errors.Join(errs...)
}
