// Package shard is the keyspace: entries of a kind byte, opaque bytes and a
// deadline, under locks by key, with a feed of what changed.
//
// Commands use Store.Lock, that gives a Tx over their keys; whoever ships
// changes to a disk or a peer uses Store.NewFeed, Feed.Cut and Round.Next. The
// package knows nothing of what the bytes mean: engine tells it when an entry
// is idle, that is, says no more than an absent one. Time is an argument
// everywhere.
//
// Store.LockAll gives a Tx over the whole keyspace. Tx.Watch notes a key so that
// a later Tx knows whether it changed; Store.Scan goes through all keys, a page
// at a time from a number, with nothing kept between.
//
// A feed that nobody needs is switched off and on again (Feed.Off). Store.Apply
// takes what another store's feed told; a store that follows one (Store.Follow)
// drops nothing by the clock.
//
// Store.Limits has the named limits. An entry that carries a name is judged by
// what the name means now: whether it is idle when its deadline has come, in a
// Get, in the sweep and in a Load.
//
// # Layout
//
// A store has a power of two of shards (32, or 16 for each core), each behind
// one mutex. The hash is maphash with a seed of this process, so nobody outside
// can choose keys that meet. A shard is a table: an index and an arena.
//
// The index is extendible hashing. The top bits of the hash choose an entry of
// the directory, that points to a segment of 1024 bytes: one cache line of head
// (earliest deadline, count, depth) and 15 lines of 12 slots, each slot a tag of
// one byte and a ref of four. A key is looked for in the line its hash names and
// in those after it only as far as entries were passed on. A segment that is 14
// parts of 15 full splits alone, so that growing copies at most 168 entries;
// two sisters with few keys are merged by the sweep. Segments hold no pointers.
//
// The arena holds the records:
//
//	0      flags: four dirty bits (feed, round parity), gone, tombstone, held, free
//	1      kind
//	2..7   deadline, ms, little endian
//	8..9   length of the key
//	10..11 length of the value, and of what is behind it
//	12..   key, value; under the promise Ahead what is held for the disk, see held.go
//
// A record lies in a slot of its size class (steps of 4 bytes to 128, then of an
// eighth) in a chunk of at most 64 KiB; a ref is chunk number and place. Free
// slots are linked through themselves, chunks that become empty are given back,
// and the sweep empties sparse ones. The garbage collector follows one pointer
// for each chunk and each segment, none for an entry.
//
// A value that still fits its slot is overwritten there. One that does not moves
// the record. A slot listed in a round that is not drained is kept until it is,
// moved, deleted or not: that is why a tombstone always comes before the key
// made again.
//
// # Memory
//
// A store knows at any moment how many bytes it takes (Used), and may have a
// ceiling (SetMaxBytes). At the ceiling Tx.Room denies new keys and never one
// that is held: nothing live is given up for another. A new key that finds a
// free slot costs nothing and is let in. Before the ceiling is reached the sweep
// gives back more than else. A slot whose entry is gone is free when the feeds
// have told it.
//
// # Rounds
//
// Each shard has two change sets for each feed, one for rounds of even and one
// for rounds of odd number: a list of slots, where the dirty bit in the record
// is the truth. A Tx reads the numbers of the open rounds while it holds all its
// locks, so all it does is in one round. Cut opens the next round and then passes
// through every lock, so nobody is in the closed one any more. Who changes
// an entry that the closed round has not told yet saves a copy for it first.
//
// # Figures
//
// Measured on 2 cores of an AMD EPYC, Go 1.26, as resident memory with the keys
// less that without, per key of 16 bytes with a bucket's value of 12 or 13
// (TestMemory, BenchmarkMemory; GOGC as by default):
//
//	                                  1 M    2 M    3 M keys
//	this layout                        59     58     59
//	slots in steps of 8 bytes          63     62     63
//	Go map[string][]byte              160           121
//
// Of the 59 bytes 44 are the slot, 8 to 11 the index (full segments split all at
// about the same time), the rest lists of changed slots and the runtime's own.
//
// A lock, get, put and unlock of an existing key (BenchmarkHit) takes 71 ns when
// its memory is in the cache and 155 to 300 ns for a random one of 100,000, nearly
// all of it the wait for two cache lines, bucket and record; a Go map behind
// 32 mutexes takes 125 to 350 ns there, in the same minutes. Who
// knows the next keys beforehand has them fetched together (prefetch.go). Nothing is
// allocated. A Tx that carried its state by value instead of leaving it in the
// shard took 94 ns. Huge pages under the chunks made the random case a tenth
// faster, which did not pay for memory outside the Go heap.
//
// A cycle of the sweep over a million keys with nothing due takes 0.2 ms; with
// all of them due 210 ns a key, and no lock is held for longer than about 35 µs.
package shard
