//go:build linux

// Attack does to a server of the Redis protocol what a hostile or broken peer would, and tells what it cost: the
// server's memory before, at the peak and after, and how long another client waited for its answers meanwhile.
//
//	go run ./attack -addr 127.0.0.1:6390               all attacks, one after another
//	go run ./attack -addr 127.0.0.1:6390 deaf loris    some
//	go run ./attack -list                              what there is
//	go run ./attack compare -o attack/results.md       all, against rlserver and a real redis-server beside it
//
// Every attack is bounded in count and time, and goes to this machine only: another address is refused. It exits
// with 1 if the server is gone afterwards. It needs Linux: it reads other processes' memory in /proc. It imports
// nothing of rlserver: it knows no more than a peer does, and works on any server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// options are what the command line says.
type options struct {
	addr     string
	pid      int // 0 = the server is asked
	password string
	time     time.Duration // of one attack that has no time of its own
	scale    float64       // of counts
	json     bool
	names    []string
}

func main() {
	if role := os.Getenv(roleVar); role != "" { // this is a child: see witness.go and attacker.go
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, "attack:", role+":", err)
			os.Exit(1)
		}
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	do, args := single, os.Args[1:]
	if len(args) > 0 && args[0] == "compare" {
		do, args = compare, args[1:]
	}
	if err := do(ctx, args, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(1)
	}
}

// single attacks a server that is there.
func single(ctx context.Context, args []string, out io.Writer) error {
	o := options{}
	flags := flag.NewFlagSet("attack", flag.ContinueOnError)
	flags.StringVar(&o.addr, "addr", "127.0.0.1:6390", "the server's `address`, on this machine")
	flags.IntVar(&o.pid, "pid", 0, "its process `number` (default: INFO tells)")
	flags.StringVar(&o.password, "password", "", "its password; without one the attacks before AUTH are left out")
	flags.DurationVar(&o.time, "time", 3*time.Second, "how long one attack lasts, 100ms to 1m; those that wait for deadlines last until all are closed, at most 45s")
	flags.Float64Var(&o.scale, "scale", 1, "what counts of clients and keys are multiplied with, 0.01 to 1")
	flags.BoolVar(&o.json, "json", false, "results as lines of JSON")
	list := flags.Bool("list", false, "tell the attacks and stop")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.names = flags.Args()
	if *list {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		for _, a := range attacks() {
			fmt.Fprintf(w, "%s\t%s\n", a.name, a.what)
		}
		return w.Flush()
	}
	chosen, err := choose(o)
	if err != nil {
		return err
	}
	t, err := reach(o.addr, o.password, o.pid)
	if err != nil {
		return err
	}
	gone := false
	for _, a := range chosen {
		r := t.suffer(ctx, a, o)
		r.print(out, o.json)
		gone = gone || !r.Alive
	}
	if gone {
		return errors.New("the server did not answer after an attack")
	}
	return ctx.Err()
}

// choose picks the attacks that were asked for.
func choose(o options) (chosen []attack, err error) {
	if o.time < 100*time.Millisecond || o.time > time.Minute {
		return nil, fmt.Errorf("-time %v: expected 100ms to 1m", o.time)
	}
	if !(o.scale >= 0.01 && o.scale <= 1) {
		return nil, fmt.Errorf("-scale %v: expected 0.01 to 1", o.scale)
	}
	all := attacks()
	for _, name := range o.names {
		if !slices.ContainsFunc(all, func(a attack) bool { return a.name == name }) {
			return nil, fmt.Errorf("there is no attack %q; -list tells which there are", name)
		}
	}
	for _, a := range all {
		switch {
		case len(o.names) > 0 && !slices.Contains(o.names, a.name):
		case a.guarded && o.password == "":
		default:
			chosen = append(chosen, a)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%s: needs -password", strings.Join(o.names, ", "))
	}
	return chosen, nil
}
