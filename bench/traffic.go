//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Everything is compared under the same limit, in time that is made up: the same in every run.
const (
	limitCalls  = 100
	limitWindow = 60_000        // ms in which they fit
	epoch       = 1767225600000 // Unix ms of 2026-01-01 00:00 UTC, where the traffic begins: a multiple of window
	minutes     = 10            // that steady and Poisson traffic last
)

const (
	steadyEvery = 400    // ms between calls: half more than the limit
	steadyFrom  = 20_000 // ms into a window

	burstCalls = 150   // calls in each half of a double burst: more than any limit lets pass
	burstEvery = 6     // ms between its calls
	burstLead  = 2_000 // ms from its first half to the window's edge
	bursts     = 3     // double bursts
	burstApart = 3     // windows from one to the next

	poissonMean = 500 // ms between calls: a fifth more than the limit
	poissonSeed = 1

	greedyEvery   = 20    // ms between calls
	greedyLead    = 5_000 // ms from the first call to a window's edge
	greedyMinutes = 5
)

// Names of the traffics that are looked at more closely.
const (
	atTheEdge    = "double burst"
	greedyCaller = "greedy caller"
)

// A traffic is the calls on one key: their times in Unix ms, never falling. Who calls does not look at the answers, so
// that it is the same for every algorithm.
type traffic struct {
	name, what string
	at         []int64
}

func traffics() []traffic {
	return []traffic{
		{"steady", fmt.Sprintf("a call each %d ms for %d minutes", steadyEvery, minutes), steady()},
		{atTheEdge, fmt.Sprintf("a single call, then %d calls just before the window that it opens ends and %d just after; an aligned window ends there as well; %d times", burstCalls, burstCalls, bursts), doubleBurst()},
		{"Poisson", fmt.Sprintf("at random, on average a call each %d ms, for %d minutes", poissonMean, minutes), poisson(poissonSeed)},
		{greedyCaller, fmt.Sprintf("one caller who asks each %d ms for %d minutes, whatever the answer", greedyEvery, greedyMinutes), greedy()},
	}
}

// every returns calls times, apart ms from one to the next.
func every(start int64, apart, calls int) []int64 {
	at := make([]int64, calls)
	for i := range at {
		at[i] = start + int64(i*apart)
	}
	return at
}

func steady() []int64 {
	return every(epoch+steadyFrom, steadyEvery, minutes*limitWindow/steadyEvery)
}

// doubleBurst is bad for both kinds of fixed window. At each edge, where an aligned window ends, one has begun with a
// single call a window and half of burstLead earlier: so it ends between the two halves as well.
func doubleBurst() []int64 {
	var at []int64
	for n := range bursts {
		edge := int64(epoch + (2+n*burstApart)*limitWindow)
		at = append(at, edge-limitWindow-burstLead/2)
		at = append(at, every(edge-burstLead, burstEvery, burstCalls)...)
		at = append(at, every(edge, burstEvery, burstCalls)...)
	}
	return at
}

// poisson has exponentially distributed gaps, rounded down to whole ms in sum.
func poisson(seed uint64) []int64 {
	random := rand.New(rand.NewPCG(seed, 0))
	var at []int64
	for t := random.ExpFloat64() * poissonMean; t < minutes*limitWindow; t += random.ExpFloat64() * poissonMean {
		at = append(at, epoch+int64(t))
	}
	return at
}

func greedy() []int64 {
	return every(epoch+limitWindow-greedyLead, greedyEvery, greedyMinutes*limitWindow/greedyEvery)
}

// granted returns the times of the calls that were allowed.
func granted(at []int64, allowed []bool) []int64 {
	var times []int64
	for i, t := range at {
		if allowed[i] {
			times = append(times, t)
		}
	}
	return times
}

// within counts the times in (t - window, t]. The times never fall.
func within(times []int64, t, window int64) int {
	until := func(end int64) int {
		n, _ := slices.BinarySearch(times, end+1)
		return n
	}
	return until(t) - until(t-window)
}

// worst is the most times in any (t - window, t]: such a stretch may as well end at one of them.
func worst(times []int64, window int64) int {
	most := 0
	for _, t := range times {
		most = max(most, within(times, t, window))
	}
	return most
}

// otherwise counts the calls that a and b decide differently.
func otherwise(a, b []bool) int {
	n := 0
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}
