//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	contendedKeys  = 5
	contendedBurst = 100          // tokens of each key's bucket
	contendedCalls = 8000         // calls to each key, by all connections at once
	slowRate       = 0.0000003858 // tokens per second: one in 30 days, so none comes back during the race
	slowLimit      = "1/30d"      // the same for rlserver
	naiveTries     = 5            // races after which the naive limiter must have lost at least one update
)

// A contender is a way to take a token from a bucket of contendedBurst that is shared by all connections.
type contender struct {
	title       string
	server      string // a kind's name
	connections int
	exact       bool // must admit exactly the burst
	acquire     func(c *client, key string) (bool, error)
}

func contenders(connections int) []contender {
	return []contender{
		{"GET, compute, SET", "redis", 1, true, naive},
		{"GET, compute, SET", "redis", connections, false, naive},
		{"tokenbucket.lua by EVALSHA", "redis", connections, true, script},
		{"RL.ACQUIRE", "rlserver", connections, true, native},
	}
}

// naive is what a first limiter on Redis looks like: read the bucket, compute, write it back. Between its GET and its SET
// others read the same tokens.
func naive(c *client, key string) (bool, error) {
	answer, err := c.ask("GET", key)
	if err != nil {
		return false, err
	}
	now := float64(time.Now().UnixMilli())
	tokens := float64(contendedBurst)
	if state, ok := answer.(string); ok {
		t, ts, _ := strings.Cut(state, " ")
		stored, err1 := strconv.ParseFloat(t, 64)
		since, err2 := strconv.ParseFloat(ts, 64)
		if err := errors.Join(err1, err2); err != nil {
			return false, err
		}
		tokens = min(tokens, stored+max(now-since, 0)*slowRate/1000)
		now = max(now, since)
	}
	if tokens < 1 {
		return false, nil
	}
	_, err = c.ask("SET", key, fmt.Sprintf("%.17g %.0f", tokens-1, now))
	return true, err
}

func script(c *client, key string) (bool, error) {
	now := strconv.FormatInt(time.Now().UnixMilli(), 10)
	answer, err := c.ask("EVALSHA", scriptHash(), "1", key, strconv.FormatFloat(slowRate, 'f', -1, 64), strconv.Itoa(contendedBurst), now, "1")
	if err != nil {
		return false, err
	}
	return isAllowed(answer)
}

func native(c *client, key string) (bool, error) {
	answer, err := c.ask("RL.ACQUIRE", key, slowLimit, strconv.Itoa(contendedBurst))
	if err != nil {
		return false, err
	}
	return isAllowed(answer)
}

// A contest is what a contender did in all its races, a race being all the keys one after another.
type contest struct {
	contender
	tries    int
	admitted []int // by key, of the last try
}

// over is what was admitted beyond the burst, in all and at worst on one key. Less than the burst counts as negative.
func (c contest) over() (all, most int) {
	for i, admitted := range c.admitted {
		over := admitted - contendedBurst
		all += over
		if i == 0 || over > most {
			most = over
		}
	}
	return all, most
}

// verdict says what is wrong, nil if the contest ended as it must.
func (c contest) verdict() error {
	all, _ := c.over()
	if !c.exact && all <= 0 {
		return fmt.Errorf("%s under %d connections admitted no more than the burst in %d tries: the race that this shows did not happen", c.title, c.connections, c.tries)
	}
	for key, admitted := range c.admitted {
		if c.exact && admitted != contendedBurst {
			return fmt.Errorf("%s under %d connections admitted %d of a burst of %d on key %d", c.title, c.connections, admitted, contendedBurst, key)
		}
	}
	return nil
}

// contend lets every contender race, one after another.
func (b *bench) contend(ctx context.Context) ([]contest, error) {
	running := map[string]*server{}
	for _, k := range b.kinds {
		s, err := b.start(ctx, k)
		if err != nil {
			return nil, err
		}
		defer s.stop()
		running[k.name] = s
	}
	var all []contest
	for n, c := range contenders(b.options.connections) {
		fmt.Fprintf(os.Stderr, "race of %s, connections: %d\n", c.title, c.connections)
		ended := contest{contender: c}
		for ended.tries == 0 || !c.exact && ended.tries < naiveTries && ended.verdict() != nil {
			ended.tries++
			ended.admitted = nil
			for i := range contendedKeys {
				admitted, err := c.race(ctx, running[c.server], fmt.Sprintf("race:%d:%d:%d", n, ended.tries, i))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", c.title, err)
				}
				ended.admitted = append(ended.admitted, admitted)
			}
		}
		all = append(all, ended)
	}
	return all, nil
}

// race makes contendedCalls calls on one key, by all connections, and counts what was admitted.
func (c contender) race(ctx context.Context, s *server, key string) (int, error) {
	var begun, admitted atomic.Int64
	errs := make([]error, c.connections)
	var wait sync.WaitGroup
	for i := range c.connections {
		wait.Go(func() {
			connection, err := s.connect()
			if err != nil {
				errs[i] = err
				return
			}
			defer connection.close()
			for begun.Add(1) <= contendedCalls && ctx.Err() == nil {
				allowed, err := c.acquire(connection, key)
				if err != nil {
					errs[i] = err
					return
				}
				if allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wait.Wait()
	return int(admitted.Load()), errors.Join(append(errs, ctx.Err())...)
}
