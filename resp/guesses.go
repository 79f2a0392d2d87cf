package resp

import (
	"net/netip"
	"sync"
	"time"
)

// Wrong passwords by where they come from. A connection that brings one is
// answered late; who opens another for each guess is not held up by that. So an
// address that brought many is answered late on whatever connection, and a right
// password as late as a wrong one: that it comes sooner would tell it. It is
// never refused, and no other address has to wait.
const (
	// freeGuesses are the wrong passwords of an address that cost others there
	// nothing: a program with an old password in it, started again and again.
	freeGuesses = 8
	// forgetEvery is when one of them is forgotten, ms.
	forgetEvery = 1000
	// mostGuesses are remembered, so that an address is forgotten soon.
	mostGuesses = freeGuesses + 16
	// maxGuessers are the addresses that are remembered, of which each takes 80
	// bytes.
	maxGuessers = 1024
	// guessersLookedAt is how many of them are compared for the one to be
	// forgotten in favour of a new one.
	guessersLookedAt = 8
	// guesserBits is how much of an IPv6 address says who it is: who has one has
	// all with these bits.
	guesserBits = 64
)

// guesses are the addresses that brought wrong passwords lately.
type guesses struct {
	mu   sync.Mutex
	from map[netip.Addr]guesser
}

// guesser is how many an address brought that are not forgotten, at a time, ms.
type guesser struct{ wrong, at int64 }

// at is what is not forgotten at now.
func (g guesser) fade(now int64) guesser {
	gone := max(now-g.at, 0) / forgetEvery
	return guesser{max(g.wrong-gone, 0), g.at + gone*forgetEvery}
}

// guesserOf is the address that a client is held to. All of this machine are
// one, those of unix sockets among them: the zero address.
func guesserOf(client string) netip.Addr {
	peer, err := netip.ParseAddrPort(client)
	addr := peer.Addr().Unmap().WithZone("")
	switch {
	case err != nil || addr.IsLoopback():
		return netip.Addr{}
	case addr.Is6():
		prefix, _ := addr.Prefix(guesserBits) // there are as many bits
		return prefix.Addr()
	}
	return addr
}

// level is how late an address is answered: 0 = at once, each step twice as
// late as the one before.
func (g *guesses) level(addr netip.Addr, now int64) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return int(max(g.from[addr].fade(now).wrong-freeGuesses, 0))
}

// add notes a wrong password.
func (g *guesses) add(addr netip.Addr, now int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was, known := g.from[addr]
	if !known && len(g.from) >= maxGuessers {
		g.forgetOne(now)
	}
	if g.from == nil {
		g.from = map[netip.Addr]guesser{}
	}
	if !known {
		was.at = now
	}
	was = was.fade(now)
	if was.wrong == 0 {
		was.at = now // the next one is forgotten a full time after it came
	}
	was.wrong = min(was.wrong+1, mostGuesses)
	g.from[addr] = was
}

// forgetOne makes room: of some addresses the one that brought fewest goes, and
// so do all of them that have brought none lately.
func (g *guesses) forgetOne(now int64) {
	least, fewest, looked := netip.Addr{}, int64(mostGuesses+1), 0
	for addr, is := range g.from { // in no order
		wrong := is.fade(now).wrong
		if wrong < fewest {
			least, fewest = addr, wrong
		}
		if wrong == 0 {
			delete(g.from, addr)
		}
		if looked++; looked == guessersLookedAt {
			break
		}
	}
	delete(g.from, least)
}

// lateBy is the delay of a level that begins at first and grows to most.
func lateBy(level int, first, most time.Duration) time.Duration {
	return min(first<<min(level, 20), most)
}
