// Package persist keeps the entries of a shard.Store on disk, in Pebble, and brings them back at start-up.
//
// Call [Open] and [DB.Load] once at start-up, then [DB.Start]; from then on one goroutine, the flusher, cuts rounds from the store's
// feed and writes them. [DB.Save], [DB.Wait], [DB.Urgent] and [DB.Stats] only talk to the flusher: no caller of theirs ever waits for
// Pebble, except Wait, which waits for its round.
//
// Who has to wait for many rounds asks [DB.Ready] and is told by [DB.Notify] when to look again. A round that is asked for is written at
// once; while that goes on the next one fills, and is cut as soon as it is done: all who came meanwhile share one sync.
//
// # The directory
//
//	LOCK            held while a server uses the directory
//	FORMAT          the version of all that follows; read first, before anything is touched
//	CURRENT         which generation counts
//	MARK            the witness: the last round known to be durable, and whether the last stop was clean
//	gen-000001/     a generation: a Pebble store that holds everything
//
// FORMAT, CURRENT and MARK are a few lines of text with a checksum, replaced by write, fsync, rename, fsync of the directory. Files are
// 0600, directories 0700. A second gen directory is a generation being written, or one just replaced; at start-up such are removed.
//
// # Inside a generation
//
//	'b'                          base: up to which round the table is complete
//	'j' round(8) chunk(4)        journal: a part of a round, about 1000 changes
//	'j' round(8) ff ff ff ff     journal: the commit record of a round
//	'n' name                     table: a named limit; with # before the name, what an adaptive one has found
//	't' partition(1) key         table: an entry
//	's' step(8)                  a batch that wrote a part of the table
//
// Numbers in keys are big endian. The partition is the low byte of the key's CRC32C, so that any number of goroutines can share a load
// evenly. Values begin with a version byte and end with a CRC32C (little endian) over the key and everything before it:
//
//	entry    version, kind, deadline (uvarint, ms), the value as shard gave it, crc over the caller's key and this
//	limit    as an entry: the kind is its shard.Origin, the deadline 0, the value its expression
//	chunk    version, then per change: key length (uvarint), key, entry length (uvarint, 0 = tombstone), entry; crc. Of version 1 are
//	         those of entries; a chunk of version 2 has a byte more at its front, shard.LimitSpace: it is one of named limits
//	commit   version, then uvarints: flags (1 = cleared), chunks, changes, bytes, saved (Unix ms), keys held, chain; crc
//	base     version, then uvarints: round, saved (Unix ms), keys held, chain, first step record kept, last step; crc
//	step     version; crc
//
// The chain is a running CRC32C over the checksums of all chunks of the generation, round after round.
//
// # How a round becomes durable
//
// Pebble commits one batch atomically, but a round of 50,000 changes in one batch stalls, and in many batches could be torn by a crash:
// half of what one ACQUIREALL debited would be remembered. So a round goes into the journal first: its chunks without sync, then its
// commit record with one. From then on it is durable; a round without a commit record is ignored by the next start. Records written
// without sync wait in the process's memory, so without that sync even a killed process would lose them.
//
// Now and then the journal is merged into the table, newest round first, each key once: a hot key is written to the table once for many
// rounds, and that insert is the expensive part. It goes in steps, rounds in between. A merge can be cut off anywhere; the next start does
// it again. A round that begins with a
// clear (FLUSHALL) makes it drop the entries before; named limits stay.
//
// A sync vouches only for what was synced before it: damage in the last blocks of Pebble's log looks like a torn tail and is dropped
// silently. So a round is sealed: one more small synced record, then MARK outside Pebble is brought up to the round. A MARK newer than
// what Pebble holds means that a durable round was lost, and [Open] says so. After each merge the memtables are flushed to tables,
// whose damage is always noticed. Damage at the end of Pebble's MANIFEST takes whole tables away, as silently. So every batch that writes
// the table leaves its number, and a number missing among the others stops the start.
//
// # When writing fails
//
// Pebble exits the process, panics or silently drops data when its log cannot be written, so it never sees such an error: the file
// system under it (guard) freezes at the first failed write, as if the power had gone, reports the failure to the flusher and answers
// every later write with success, so that Pebble can still be closed. The frozen handle is never used again. With back-off the flusher
// writes a complete new generation from the store beside the old one, syncs it, points CURRENT at it and removes the old. Until then
// decisions go on from memory, or where replies wait for the disk those are refused that Trouble tells of; Stats says err, the log says so
// at most once a minute, and Wait answers with the reason.
//
// In mode Shutdown, and while writing fails, rounds are not written, and the feed keeps the slots of all that changes. If it keeps far
// more than there is, a round is cut and dropped (drop.go). From then on only a new generation can be saved, and is.
//
// # Tools
//
// [Check] reads all that a start would, and each table file by itself, and changes nothing. [Repair] cannot go through Pebble, which refuses
// what is damaged or, worse, leaves it out without a word: it reads MANIFEST, tables and logs by itself (raw*.go) and merges the versions
// of each key as Pebble does. A round of the journal counts if all of it verifies; those after a lost one count too, as changes are
// absolute. Where the last state of a key cannot be read the one before is taken: it admits no more than an absent key does. FORMAT is
// written last, so that nothing takes an unfinished directory for a whole one.
//
// [DB.Backup] has the flusher make a checkpoint right after a round, in DIR/backup.tmp and mostly of hard links, and brings it to its place
// beside the flusher's work. It is a data directory as a crash at that moment would have left it.
package persist
