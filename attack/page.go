//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// strict is what another client's p99 must stay under during an attack, in µs.
const strict = 20_000

// page is the results as a reader gets them.
type page struct {
	head, rows bytes.Buffer
	over       []string
}

func newPage(servers []server, o options) *page {
	p := &page{}
	fmt.Fprintf(&p.head, "# What attacks cost\n\nMade by `make attack`, whole; do not edit. %s, %d cores, Linux %s, %s, load average at the start %s (the attacker and the\nwitness run on the same machine).\n\n",
		time.Now().UTC().Format("2006-01-02 15:04 MST"), runtime.NumCPU(), firstLine("/proc/sys/kernel/osrelease"), cpuModel(), firstWords("/proc/loadavg", 3))
	for _, s := range servers {
		text, _ := exec.Command(s.path, "--version").CombinedOutput()
		line, _, _ := strings.Cut(string(text), "\n")
		fmt.Fprintf(&p.head, "* %s: %s;", s.name, line)
		for _, arg := range s.args {
			if arg == "" {
				arg = `""`
			}
			p.head.WriteString(" " + arg)
		}
		p.head.WriteByte('\n')
	}
	p.head.WriteString(`
Each attack finds a server just started, with a password and otherwise its defaults. The witness is another client, in a process of its own,
that asks ` + "`EXISTS`" + ` each millisecond; the control is the same question to a process that only echoes, asked by turns: what the control waits
is the machine's doing. An attack lasts ` + o.time.String() + `, those that wait for deadlines of 10 s until all clients are closed, at most ` + deadlines.String() + `. RSS in MB before, at the peak, and half a second after, after hoard ` + settleLong.String() + `; CPU is the server's; times in ms.

| attack | server | RSS before | peak | after | CPU | p50 | p99 | longest | control p99 | opened | closed by it | MB sent |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
`)
	return p
}

// add gives a result its row.
func (p *page) add(a attack, server int, r result) {
	name, who := "**"+a.name+"**", []string{"rlserver", "redis"}[server]
	if server > 0 {
		name = ""
	}
	w := r.Witness
	p99 := milli(w.P99)
	if w.P99 >= strict {
		p99 = "**" + p99 + "**"
		p.over = append(p.over, who+" in "+a.name)
	}
	longest := milli(w.Max)
	if w.Fault != "" {
		longest = "no answer"
	}
	fmt.Fprintf(&p.rows, "| %s | %s | %s | %s | %s | %d | %s | %s | %s | %s | %d | %d | %d |\n", name, who, mega(r.Before), mega(r.Peak), mega(r.After),
		r.CPU, milli(w.P50), p99, longest, milli(w.Control99), r.Opened, r.Closed, r.Sent>>20)
}

func (p *page) bytes() []byte {
	var b bytes.Buffer
	b.Write(p.head.Bytes())
	b.Write(p.rows.Bytes())
	fmt.Fprintf(&b, "\nA p99 of %d ms or more is in bold", strict/1000)
	if len(p.over) > 0 {
		fmt.Fprintf(&b, ": %s", strings.Join(p.over, ", "))
	}
	b.WriteString(".\n\n| attack | clients | what it does |\n|---|---|---|\n")
	for _, a := range attacks() {
		fmt.Fprintf(&b, "| %s | %d | %s |\n", a.name, a.clients, a.what)
	}
	return b.Bytes()
}

func firstLine(path string) string {
	text, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

func firstWords(path string, n int) string {
	words := strings.Fields(firstLine(path))
	return strings.Join(words[:min(n, len(words))], " ")
}

// cpuModel is the name of the processor.
func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	if m := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return runtime.GOARCH
}
