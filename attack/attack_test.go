//go:build linux

package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

// Only this machine is attacked, whatever the command line says.
func TestLoopbackOnly(t *testing.T) {
	for _, addr := range []string{"192.0.2.1:6379", "0.0.0.0:6379", "[2001:db8::1]:6379", ":6379"} {
		err := single(context.Background(), []string{"-addr", addr, "lengths"}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "not on this machine") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestUnknownNames(t *testing.T) {
	for _, args := range []string{"nosuch", "-time 1h deaf", "-time 1ms deaf", "-scale 2 deaf", "-scale 0 deaf", "strangers"} {
		if err := single(context.Background(), strings.Fields(args), io.Discard); err == nil || strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: %v", args, err)
		}
	}
}
