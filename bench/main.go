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
	"strconv"
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
	sizeKeys    int     // of the server that is started again
	sizeRounds  int     // of the open loop
	sizeSeconds float64 // of one
	only        *regexp.Regexp
	out         string // file for the report; "" = terminal only
	rlserver    string // binary; "" = built from root
	redis       string
	root        string
}

// quick replaces the defaults of options not given on the command line.
var quick = map[string]string{"rounds": "2", "seconds": "0.25", "keys": "20000", "memory-keys": "200000", "size-keys": "200000", "size-rounds": "1", "size-seconds": "1"}

// big is likewise for -big.
var big = map[string]string{"size-keys": strconv.Itoa(bigKeys), "size-rounds": "5", "size-seconds": "20"}

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
	flags.IntVar(&o.sizeKeys, "size-keys", 1_000_000, "keys of the server that is started again and whose slowest answers are looked at, 1000 to 20000000")
	flags.IntVar(&o.sizeRounds, "size-rounds", 3, "rounds in which those are looked at, 1 to 100")
	flags.Float64Var(&o.sizeSeconds, "size-seconds", 4, "how long one of them lasts, 1 to 600")
	isQuick := flags.Bool("quick", false, "a short run: fewer rounds, seconds and keys")
	isBig := flags.Bool("big", false, "10000000 keys for what -size-keys says, which takes ten minutes")
	only := flags.String("only", "", "measure only cells whose name matches this `regexp`, e.g. 'x32' or 'redis/lua' or 'memory' or 'durability/always'")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for defaults, apply := range map[*map[string]string]bool{&quick: *isQuick, &big: *isBig} {
		for name, value := range *defaults {
			if apply && !given[name] {
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
		{"size-keys", float64(o.sizeKeys), 1000, 20_000_000},
		{"size-rounds", float64(o.sizeRounds), 1, 100},
		{"size-seconds", o.sizeSeconds, 1, 600},
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
	if r.durable, err = b.measureDurability(ctx); err != nil {
		return err
	}
	if r.replicated, err = b.measureReplication(ctx); err != nil {
		return err
	}
	if r.size, err = b.measureSize(ctx); err != nil {
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
