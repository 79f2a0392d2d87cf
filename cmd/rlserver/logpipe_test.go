package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A line is there when it was logged; if nobody reads, one line is waited for, later ones are kept and then lost, and who
// reads again is told.
func TestLogPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		p := newLogPipe(w)
		defer close(p.lines)
		var got []string
		read := func() {
			text := make([]byte, 200)
			n, err := r.Read(text)
			if err != nil {
				t.Error(err)
			}
			got = append(got, string(text[:n]))
		}
		go read()
		fmt.Fprintln(p, "first")
		if synctest.Wait(); len(got) != 1 || got[0] != "first\n" {
			t.Fatalf("got %q", got)
		}
		began := time.Now()
		for i := range logWaiting + 4 { // one is at the writer
			fmt.Fprintln(p, i)
			synctest.Wait()
		}
		if took := time.Since(began); took != logPatience {
			t.Errorf("who logs waited for %v", took)
		}
		for range logWaiting + 2 {
			read()
			synctest.Wait()
		}
		if len(got) != logWaiting+3 || got[1] != "0\n" || !strings.HasPrefix(got[logWaiting+2], "3 lines") {
			t.Errorf("%d lines, the last %q", len(got), got[len(got)-1])
		}
		go read()
		fmt.Fprintln(p, "again")
		if synctest.Wait(); got[len(got)-1] != "again\n" {
			t.Errorf("got %q", got[len(got)-1])
		}
	})
}
