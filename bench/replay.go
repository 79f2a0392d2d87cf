//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
)

// replayed is what an algorithm did with a traffic.
type replayed struct {
	allowed   []bool // by call
	granted   []int64
	worst     int // admitted in any (t - window, t]
	otherwise int // calls decided other than LOG decides them
}

// replay sends each traffic to a key of each algorithm, on a fresh server that trusts the caller's clock.
func (b *bench) replay(ctx context.Context, traffics []traffic) ([][]replayed, error) {
	s, err := b.start(ctx, b.kinds[0])
	if err != nil {
		return nil, err
	}
	defer s.stop()
	c, err := s.connect()
	if err != nil {
		return nil, err
	}
	defer c.close()
	all := make([][]replayed, len(traffics))
	for i, t := range traffics {
		fmt.Fprintf(os.Stderr, "%s: %d calls to each algorithm\n", t.name, len(t.at))
		for j, a := range algorithms() {
			f := newFrame("RL.ACQUIRE", fmt.Sprintf("%d:%d:%s", i, j, keyHole), a.expr, nowHole)
			r := replayed{}
			if r.allowed, err = c.decide(ctx, f, t.at); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", t.name, a.title, err)
			}
			r.granted = granted(t.at, r.allowed)
			r.worst = worst(r.granted, limitWindow)
			all[i] = append(all[i], r)
		}
		for j := range all[i] {
			all[i][j].otherwise = otherwise(all[i][j].allowed, all[i][exactly].allowed)
		}
	}
	return all, nil
}

// decide makes a call on one key at each of the times and returns the decisions.
func (c *client) decide(ctx context.Context, f frame, at []int64) ([]bool, error) {
	decisions := make([]bool, 0, len(at))
	for len(at) > 0 && ctx.Err() == nil {
		now := at[:min(len(at), fullBatch)]
		at = at[len(now):]
		var out []byte
		for _, t := range now {
			out = f.appendTo(out, 0, t)
		}
		if err := c.send(out); err != nil {
			return nil, err
		}
		for range now {
			allowed, err := c.allowed()
			if err != nil {
				return nil, err
			}
			decisions = append(decisions, allowed)
		}
	}
	return decisions, ctx.Err()
}
