//go:build linux

package main

import "time"

// attacks are all there are, in the order in which they are made. Those that fill the keyspace come last.
func attacks() []attack {
	return []attack{
		{name: "lengths", clients: 20, what: "an argument that declares up to 2^64 bytes, again and again", run: lengths},
		{name: "counts", clients: 20, what: "a command that declares up to 2^64 arguments", run: counts},
		{name: "bulk", clients: 4, what: "one argument of 512 MB, streamed", run: bulk},
		{name: "empties", clients: 4, what: "4 million empty arguments", run: empties},
		{name: "inline", clients: 20, what: "a line of 64 MB without an end", run: inline},
		{name: "hoard", clients: 1000, lasts: deadlines, settles: settleLong, what: "1 MB of a command that is never finished, from each client", run: hoard},
		{name: "cramped", clients: 400, lasts: deadlines, settles: settleLong, what: "the same to a server whose maxmemory is 10 MB", run: cramped},
		{name: "dribble", clients: 100, what: "a command of 1 MB, a byte at a time", run: dribble},
		{name: "loris", clients: 1000, lasts: deadlines, what: "half commands, then a byte a second", run: loris},
		{name: "deaf", clients: 200, lasts: deadlines, what: "a long pipeline whose answers are never read", run: deaf},
		{name: "sipping", clients: 200, lasts: deadlines, what: "the same, read by a few bytes a second", run: sipping},
		{name: "idle", clients: 5000, what: "connections that say nothing", run: idle},
		{name: "connects", clients: 16, what: "more connections than maxclients (1000 for the time of the attack)", run: connects},
		{name: "churn", clients: 16, what: "connect, ask, hang up", run: churn},
		{name: "reset", clients: 16, what: "connections reset with answers under way", run: resets},
		{name: "http", clients: 16, what: "requests of a browser", run: web},
		{name: "handshakes", clients: 64, what: "TLS greetings, each of which costs a signature, and no more", run: handshakes},
		{name: "greetings", clients: 4000, lasts: deadlines, what: "half a TLS greeting, and no more", run: greetings},
		{name: "headers", clients: 2000, lasts: 8 * time.Second, what: "half requests to the port of HTTP, then a byte a second", run: headers},
		{name: "scrapes", clients: 100, what: "pipelines of GET /metrics", run: scrapes},
		{name: "random", clients: 16, what: "random bytes, and commands with some bytes changed", run: random},
		{name: "strangers", clients: 200, guarded: true, lasts: 8 * time.Second, what: "before AUTH: pipelines never read, big arguments, wrong passwords", run: strangers},
		{name: "guessing", clients: 50, guarded: true, what: "wrong passwords, as fast as they are answered", run: guessing},
		{name: "heavy", clients: 50, what: "the commands with the longest answers", run: heavy},
		{name: "many", clients: 20, what: "commands of as many keys as they may have", run: many},
		{name: "queued", clients: 20, what: "MULTI and a hundred thousand commands, never executed", run: queued},
		{name: "watching", clients: 100, what: "WATCH of a thousand keys of 1000 bytes, and calls on them", run: watching},
		{name: "hotkey", clients: 50, what: "one key, in pipelines", run: hotkey},
		{name: "keys", clients: 50, what: "a new key with each call, in pipelines", run: keys},
		{name: "globs", clients: 8, what: "patterns that take long to match, over keys of 1000 bytes", run: globs},
	}
}
