// Command rlserver is the rate-limiter store: it answers the Redis protocol and
// decides limits natively. This room knows all the others: it reads the
// options, wires the rooms into a node, and turns signals into an orderly stop.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/rlserver/rlserver/persist"
	"github.com/rlserver/rlserver/resp"
)

// version is the release; a build from a checkout adds its commit.
const version = "0.1.0"

// Exit codes.
const (
	exitOK       = 0
	exitFailed   = 1 // could not start, or the last state could not be written
	exitBadUsage = 2 // an option, the config file, the limits-file or the aclfile is wrong
)

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is the program: it returns the exit code.
func run(args, environ []string, stdout, stderr io.Writer) int {
	if code, ran := runTool(args, stdout, stderr); ran {
		return code
	}
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
		err := checkRestart(inv.config.Values())
		if err == nil {
			_, err = readLimitsFile(inv.config.Values().LimitsFile)
		}
		if err == nil {
			_, err = readACLFile(inv.config.Values().ACLFile)
		}
		if err == nil {
			_, err = readCertificates(inv.config.Values())
		}
		if err != nil {
			fmt.Fprintf(stderr, "rlserver: %v\n", err)
			return exitBadUsage
		}
		for _, note := range inv.notes {
			fmt.Fprintf(stderr, "rlserver: %s\n", note)
		}
		fmt.Fprintln(stdout, "The configuration is valid.")
		return exitOK
	}
	v := inv.config.Values()
	level := new(slog.LevelVar)
	level.Set(levelOf(v.LogLevel))
	log := newLogger(newLogPipe(stderr), v.LogFormat, level)
	for _, note := range inv.notes {
		log.Warn(note)
	}
	inv.config.OnSet(func(v Values) error {
		level.Set(levelOf(v.LogLevel))
		return nil
	}, "loglevel")
	return serve(inv.config, log, stdout, stderr)
}

// serve runs a node until a signal or SHUTDOWN ends it. SIGHUP has it read the limits-file and the TLS files again.
func serve(config *Config, log *slog.Logger, stdout, stderr io.Writer) int {
	signals, hangups := make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(hangups, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE) // who reads the log may end before the server
	moreProcs()
	clock := newClock(machineSlept)
	defer clock.Stop()
	heap := newHeap(config)
	heap.logStart(log)
	ended := make(chan struct{})
	defer close(ended)
	go heap.watch(ended)
	n, err := startUnlessStopped(config, clock, log, signals)
	if errors.Is(err, persist.ErrAborted) {
		log.Info("stopped")
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "rlserver: %v\n", err)
		if errors.As(err, new(limitsFault)) || errors.As(err, new(tlsFault)) || errors.As(err, new(resp.UserFaults)) || err == errTrustedDrain {
			return exitBadUsage
		}
		return exitFailed
	}
	keeps := func() int64 { return n.store.Used() + n.srv.ClientMemory() }
	heap.keeps.Store(&keeps)
	n.announce(stdout)
	saving := n.untilStop(signals, hangups)
	go func() {
		askedAgain(signals)
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

// sameWish is how long after the signal that stops the server another one is the same: a terminal and whoever started
// the server may both pass a Ctrl-C on.
const sameWish = time.Second

// askedAgain returns when a signal comes that is not the same wish as the one just now: who asks twice does not want to
// wait.
func askedAgain(signals <-chan os.Signal) {
	for first := time.Now(); ; {
		if <-signals; time.Since(first) >= sameWish {
			return
		}
	}
}

// untilStop reads the limits-file and the TLS files at each hangup, until a signal or SHUTDOWN asks for the end; saving says whether to write then.
func (n *node) untilStop(signals, hangups <-chan os.Signal) (saving bool) {
	for {
		select {
		case <-hangups:
			n.reloadLimits()
			n.reloadCertificates()
		case sig := <-signals:
			n.log.Info("stopping", "signal", sig.String())
			return true
		case saving = <-n.asked:
			return saving
		}
	}
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
