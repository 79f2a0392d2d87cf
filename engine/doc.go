// Package engine decides whether a call fits a rate limit, from the limit, what is remembered and a time that the caller hands in.
//
// Call [ParseLimit], [ParseWindow] or [ParseExpression] for the arguments and then [Acquire] with the entry's bytes; everything else looks
// at or edits the same bytes. No function asks what time it is, holds a lock, or keeps anything between calls.
//
// # Units
//
// Times are Unix milliseconds in [0, MaxNow]. Waits and resets are milliseconds, rounded up. A rate is the exact fraction P/Q tokens per
// millisecond in lowest terms. A bucket's credit is an int64 that counts units of 1/Q token, so one millisecond is worth exactly P units
// and one token exactly Q. Products are 128 bits wide. There is no floating point, nothing wraps and nothing saturates: what cannot be
// held is an error that names the largest accepted value. Windows count whole calls or tokens; where a share of them counts, it is rounded up.
//
// # Bytes of an entry
//
//	byte 0         high nibble: Algorithm; low nibble: flags
//	               (bit 0: blocked_until is present; bit 1: a name is present; bit 2: fixed windows are aligned; bit 3: certain_from is)
//	ts             uvarint, Unix ms up to which time has been counted
//	certain_from   uvarint, Unix ms, only with flag bit 3, always later than ts: the state is ahead, see Ahead; 0 = MaxNow; never of a log
//	blocked_until  uvarint, Unix ms, only with flag bit 0, always later than ts: the penalty
//	name           only with flag bit 1: its length as a uvarint, 1 to MaxNameBytes, and its bytes
//	limit          bucket: P, Q, Capacity (tokens), each a uvarint; windows: Window (ms), Capacity
//	state          bucket: credit at ts, zigzag varint in 1/Q token; negative in debt
//	               fixed: ms from the window's start to ts, unless windows are aligned; count
//	               sliding: count of the previous window, count of the current one
//	               log: what is counted in all; unless that is 0: ms from the newest record to ts, ms from the oldest record to the
//	               newest; unless that is 0: the newest record's count, and the others from the oldest on. Each of those is the ms to the
//	               next one times two, plus one if its count follows; the count less two, if it is not one
//
// A uvarint is that of encoding/binary in its shortest form, a zigzag varint likewise; the numbers of windows are uvarints. There is exactly
// one encoding of a state, and nothing follows it. Without a name a bucket in ordinary use takes 12 to 18 bytes and none more than 60; fixed
// and sliding windows take 12 to 20; a log takes 12 to 20 and as a rule 1 to 4 for each record, and the largest less than 24 KiB.
package engine
