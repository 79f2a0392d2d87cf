//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// describe says what the run was made on and with.
func describe(ctx context.Context, b *bench) []string {
	var name unix.Utsname
	kernel := "unknown"
	if unix.Uname(&name) == nil {
		kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
	}
	lines := []string{
		"date: " + time.Now().UTC().Format("2006-01-02 15:04 MST"),
		fmt.Sprintf("machine: %s, %d cores, %s, load at the start %s", cpuModel(), runtime.NumCPU(), kernel, loadAverage()),
		"Go: " + runtime.Version() + " " + runtime.GOARCH,
	}
	for _, k := range b.kinds {
		if k.name == "rlserver" {
			lines = append(lines, "rlserver: commit "+commit(ctx, b.options.root))
			continue
		}
		version, err := exec.CommandContext(ctx, k.program, "--version").Output()
		if err != nil {
			version = []byte("unknown")
		}
		lines = append(lines, k.title+": "+redisVersion(version))
	}
	return lines
}

func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for scanner := bufio.NewScanner(bytes.NewReader(info)); scanner.Scan(); {
		if name, value, found := strings.Cut(scanner.Text(), ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// loadAverage is the machine's over the last minute: well above the run's own, other work disturbed it.
func loadAverage() string {
	load, _ := os.ReadFile("/proc/loadavg")
	return firstField(load)
}

func firstField(text []byte) string {
	if fields := strings.Fields(string(text)); len(fields) > 0 {
		return fields[0]
	}
	return "unknown"
}

// commit names the source's commit, and says if the tree has changes on top of it.
func commit(ctx context.Context, root string) string {
	hash, err := exec.CommandContext(ctx, "git", "-C", root, "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	changes, err := exec.CommandContext(ctx, "git", "-C", root, "status", "--porcelain", "--", ".", ":!bench").Output()
	if err != nil || len(changes) > 0 {
		return firstField(hash) + " with uncommitted changes"
	}
	return firstField(hash)
}

var versionField = regexp.MustCompile(`\bv=(\S+)`)

// redisVersion finds the version in what `redis-server --version` prints.
func redisVersion(output []byte) string {
	if found := versionField.FindSubmatch(output); found != nil {
		return string(found[1])
	}
	return firstField(output)
}
