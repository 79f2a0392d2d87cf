package main

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

const (
	// logPatience is how long a line of the log may take to be written before nobody waits for lines any more.
	logPatience = 100 * time.Millisecond
	// logWaiting is how many lines wait for a reader of the log that hangs; more are lost.
	logWaiting = 1000
)

// A logPipe is where the log is written, so that a terminal or a program that reads it no more does not stop the server:
// a line is there when Write returns, but not while the reader hangs. When it reads again it gets the lines that waited,
// and is told how many were lost.
type logPipe struct {
	w     io.Writer
	lines chan pipedLine
	hangs atomic.Bool   // nobody waits until all lines are written
	lost  atomic.Uint64 // lines, since it was told last
}

type pipedLine struct {
	text    []byte
	written chan struct{}
}

func newLogPipe(w io.Writer) *logPipe {
	p := &logPipe{w: w, lines: make(chan pipedLine, logWaiting)}
	go p.pass()
	return p
}

// Write implements io.Writer. What becomes of a line its writer does not learn: there is nobody to tell.
func (p *logPipe) Write(text []byte) (int, error) {
	l := pipedLine{bytes.Clone(text), make(chan struct{})}
	select {
	case p.lines <- l:
	default:
		p.lost.Add(1)
		return len(text), nil
	}
	if p.hangs.Load() {
		return len(text), nil
	}
	late := time.NewTimer(logPatience)
	defer late.Stop()
	select {
	case <-l.written:
	case <-late.C:
		p.hangs.Store(true)
	}
	return len(text), nil
}

// pass writes line after line, for as long as the process lives.
func (p *logPipe) pass() {
	for l := range p.lines {
		p.w.Write(l.text)
		close(l.written)
		if len(p.lines) > 0 {
			continue
		}
		p.hangs.Store(false)
		if n := p.lost.Swap(0); n > 0 {
			fmt.Fprintf(p.w, "%d lines of the log are lost: who reads it did not keep up\n", n)
		}
	}
}
