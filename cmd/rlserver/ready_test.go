package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestReadiness: a disk that fails takes a server out of service where replies wait for it, and only there.
func TestReadiness(t *testing.T) {
	t.Parallel()
	for mode, ready := range map[string]bool{"interval": true, "shutdown": true, "always": false, "reserve": false} {
		s := startTest(t, []string{"--durability", mode})
		if remark, err := s.node.readiness(); remark != "" || err != nil {
			t.Errorf("%s: %q, %v", mode, remark, err)
		}
		remark, err := s.node.whileSaving(errors.New("no space left"))
		if (err == nil) != ready || !ready && !strings.Contains(err.Error(), "no space left") || ready && !strings.Contains(remark, "no space left") {
			t.Errorf("%s, when saving fails: %q, %v", mode, remark, err)
		}
		n := s.node
		s.down()
		if _, err := n.readiness(); err == nil || err.Error() != "stopping" {
			t.Errorf("%s, at the stop: %v", mode, err)
		}
	}
}

func TestSavedAt(t *testing.T) {
	for want, at := range map[string]time.Time{"never": {}, "never ": time.UnixMilli(0), "2026-01-01T00:00:00Z": time.Unix(testStart/1e9, 0)} {
		if got := savedAt(at); got != strings.TrimSpace(want) {
			t.Errorf("%v: %s, want %s", at, got, want)
		}
	}
}
