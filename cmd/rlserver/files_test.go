package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestFitFiles: maxclients against limits of open files that can be raised so far and no further.
func TestFitFiles(t *testing.T) {
	for _, c := range []struct {
		now, hard uint64
		want      int // of 10000; 0 = no start
	}{
		{20000, 20000, 10000},
		{10000 + filesReserved, 0, 10000},
		{1024, 20000, 10000},
		{1024, 10000 + filesReserved, 10000},
		{1024, 10000 + filesReserved - 1, 9999},
		{1024, 1024, 1024 - filesReserved},
		{filesReserved + 1, 0, 1},
		{filesReserved, 0, 0},
		{10, 10, 0},
	} {
		var text bytes.Buffer
		config := newConfig(defaults())
		l := fileLimit{c.now, func(to uint64) uint64 { return max(c.now, min(to, c.hard)) }, func(int) {}}
		err := fitFiles(config, l, slog.New(slog.NewTextHandler(&text, nil)))
		if (err == nil) != (c.want > 0) {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil {
			continue
		}
		if got := config.Values().MaxClients; got != c.want || strings.Contains(text.String(), "lowered") != (c.want < 10000) {
			t.Errorf("%+v: maxclients %d, log %q", c, got, text.String())
		}
		if c.want < 10000 {
			err := config.Set([][2]string{{"maxclients", fmt.Sprint(c.want + 1)}})
			if want := fmt.Sprintf("try with %d", c.want); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%+v: one more by CONFIG SET: %v, want ... %s", c, err, want)
			}
		}
		if err := config.Set([][2]string{{"maxclients", "1"}}); err != nil {
			t.Errorf("%+v: fewer by CONFIG SET: %v", c, err)
		}
	}
}
