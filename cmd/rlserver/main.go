// Command rlserver is the rate-limiter store: it answers the Redis protocol and
// decides limits natively. This room knows all the others: it reads the
// options, wires the rooms into a node, and turns signals into an orderly stop.
package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// version is the release; a build from a checkout adds its commit.
const version = "0.1.0"

// Exit codes.
const (
	exitOK       = 0
	exitFailed   = 1 // could not start, or the last state could not be written
	exitBadUsage = 2 // an option or the config file is wrong
)

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is the program: it returns the exit code.
func run(args, environ []string, stdout, stderr io.Writer) int {
	inv, err := parseInvocation(args, environ)
	if err != nil {
		fmt.Fprintf(stderr, "rlserver: %v\nrlserver --help lists the options.\n", err)
		return exitBadUsage
	}
	switch inv.action {
	case actionHelp:
		fmt.Fprint(stdout, helpText())
		return exitOK
	case actionVersion:
		fmt.Fprintf(stdout, "rlserver %s\n", fullVersion())
		return exitOK
	case actionCheckConfig:
		fmt.Fprintln(stdout, "The configuration is valid.")
		return exitOK
	}
	v := inv.config.Values()
	level := new(slog.LevelVar)
	level.Set(levelOf(v.LogLevel))
	log := newLogger(stderr, v.LogFormat, level)
	for _, note := range inv.notes {
		log.Warn(note)
	}
	inv.config.OnSet(func(v Values) error {
		level.Set(levelOf(v.LogLevel))
		return nil
	}, "loglevel")
	return serve(inv.config, log, stdout, stderr)
}

// serve runs a node until a signal or SHUTDOWN ends it.
func serve(config *Config, log *slog.Logger, stdout, stderr io.Writer) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	clock := newClock(machineSlept)
	defer clock.Stop()
	n, err := startNode(config, clock, log)
	if err != nil {
		fmt.Fprintf(stderr, "rlserver: %v\n", err)
		return exitFailed
	}
	if v := config.Values(); levelOf(v.LogLevel) <= slog.LevelInfo && v.LogFormat != "json" {
		fmt.Fprint(stdout, n.banner())
	}
	saving := true
	select {
	case sig := <-signals:
		log.Info("stopping", "signal", sig.String())
	case saving = <-n.asked:
	}
	go func() { // who asks twice does not want to wait
		<-signals
		log.Error("stopped at once by a second signal; the last changes may not be on disk")
		os.Exit(exitFailed)
	}()
	if err := n.stop(saving); err != nil {
		log.Error("the last state could not be written", "err", err)
		return exitFailed
	}
	log.Info("stopped")
	return exitOK
}

// fullVersion is the version with the commit it was built from, if that is known.
func fullVersion() string {
	if rev := revision(); rev != "" {
		return version + " (" + rev + ")"
	}
	return version
}

// revision is the source commit of this build, shortened; empty if unknown.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return ""
}
