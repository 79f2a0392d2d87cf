//go:build linux

// Bench measures rlserver from outside, beside a real redis-server that decides by a Lua script. It starts both on free
// ports of this machine, drives them by turns with the same load, and reports throughput, latency, the server's CPU
// time per call and its bytes per key, with the targets beside the figures.
//
// Run it with `go run . -o results.md`; `-quick` gives a first impression in half a minute, `-only REGEXP` some cells.
// `go run . compare` sets rlserver's algorithms side by side instead, see compare.go.
// It exits with 1 if a server admitted more or less than it should, or if anything could not be measured.
// It needs Linux: it reads CPU time and memory of other processes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// options are what the command line says, and are repeated in the report.
type options struct {
	rounds      int
	seconds     float64 // of one measurement
	connections int
	keys        int
	memoryKeys  int
	only        *regexp.Regexp
	out         string // file for the report; "" = terminal only
	rlserver    string // binary; "" = built from root
	redis       string
	root        string
}

// quick replaces the defaults of options not given on the command line.
var quick = map[string]string{"rounds": "2", "seconds": "0.25", "keys": "20000", "memory-keys": "200000"}

func init() {
	// The servers die with the thread that starts them (see kind.start): main stays on the main thread.
	runtime.LockOSThread()
}

func main() {
	args, parse, do := os.Args[1:], parseOptions, run
	if len(args) > 0 && args[0] == "compare" {
		args, parse, do = args[1:], parseCompare, compare
	}
	o, err := parse(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer cancel()
	if err := do(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", 5, "how often each cell is measured, 1 to 100")
	flags.Float64Var(&o.seconds, "seconds", 1.5, "how long one measurement lasts, 0.1 to 60")
	flags.IntVar(&o.connections, "connections", 50, "connections in a closed loop, 1 to 1000")
	flags.IntVar(&o.keys, "keys", 100_000, "keys in use, 100 to 10000000")
	flags.IntVar(&o.memoryKeys, "memory-keys", 1_000_000, "keys loaded to measure bytes per key, 1000 to 10000000")
	flags.StringVar(&o.out, "o", "", "write the report to this `file` as well")
	flags.StringVar(&o.rlserver, "rlserver", "", "rlserver `binary` (default: built from -root)")
	flags.StringVar(&o.redis, "redis", "redis-server", "redis-server `binary`")
	flags.StringVar(&o.root, "root", "..", "rlserver's source `directory`")
	isQuick := flags.Bool("quick", false, "a short run: fewer rounds, seconds and keys")
	only := flags.String("only", "", "measure only cells whose name matches this `regexp`, e.g. 'x32' or 'redis/lua' or 'memory'")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *isQuick {
		given := map[string]bool{}
		flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
		for name, value := range quick {
			if !given[name] {
				flags.Set(name, value)
			}
		}
	}
	var err error
	o.only, err = regexp.Compile(*only)
	switch {
	case err != nil:
		err = fmt.Errorf("-only: %w", err)
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	default:
		err = o.check()
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
	}
	return o, err
}

func (o options) check() error {
	return checkBounds([]bound{
		{"rounds", float64(o.rounds), 1, 100},
		{"seconds", o.seconds, 0.1, 60},
		{"connections", float64(o.connections), 1, 1000},
		{"keys", float64(o.keys), 100, 10_000_000},
		{"memory-keys", float64(o.memoryKeys), 1000, 10_000_000},
	})
}

// A bound is what an option may be, both ends included.
type bound struct {
	name          string
	value, lo, hi float64
}

func checkBounds(bounds []bound) error {
	for _, b := range bounds {
		if !(b.value >= b.lo && b.value <= b.hi) {
			return fmt.Errorf("-%s is %v, expected %v to %v", b.name, b.value, b.lo, b.hi)
		}
	}
	return nil
}

// run measures all that -only leaves and writes the report. The servers' directories are removed at the end.
func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "rlserver-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{options: o, dir: dir}
	if err := b.findServers(ctx); err != nil {
		return err
	}
	began := time.Now()
	r := results{options: o, machine: describe(ctx, b), kinds: b.kinds}
	if r.cells, err = b.measureCells(ctx); err != nil {
		return err
	}
	if r.memory, err = b.measureMemory(ctx); err != nil {
		return err
	}
	if r.admission, err = b.checkAdmission(ctx); err != nil {
		return err
	}
	r.took, r.loadAtEnd = time.Since(began), loadAverage()
	text := r.markdown()
	fmt.Print(text)
	if o.out != "" {
		if err := os.WriteFile(o.out, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, a := range r.admission {
		if a.exact != a.keys {
			return fmt.Errorf("%s admitted other than its burst on %d of %d keys", a.server, a.keys-a.exact, a.keys)
		}
	}
	return nil
}

// findServers fills b.kinds with the servers that -only needs.
func (b *bench) findServers(ctx context.Context) error {
	for _, k := range kinds(b.options) {
		if !b.needs(k) {
			continue
		}
		if err := b.find(ctx, &k); err != nil {
			return err
		}
		b.kinds = append(b.kinds, k)
	}
	if len(b.kinds) == 0 {
		return fmt.Errorf("nothing to measure: -only %q matches no cell", b.options.only)
	}
	return nil
}

// find looks for a server's program, and builds rlserver if none was named.
func (b *bench) find(ctx context.Context, k *kind) error {
	if k.name == "rlserver" && k.program == "" {
		k.program = filepath.Join(b.dir, "rlserver")
		build := exec.CommandContext(ctx, "go", "build", "-o", k.program, "./cmd/rlserver")
		build.Dir = b.options.root
		if output, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%s in %s: %w\n%s", build, build.Dir, err, output)
		}
	}
	if _, err := exec.LookPath(k.program); err != nil {
		return fmt.Errorf("%w: install it (Debian and Ubuntu: apt-get install redis-server) or name it with -redis", err)
	}
	return nil
}
