// Package replicate makes one store follow another, and decides who of several
// nodes may answer callers.
//
// Node is what one server knows: Step takes a message (a tick, a frame from a
// peer, a Sentinel's word) and returns effects (send, apply, close the doors). It
// has no socket, no clock and no goroutine, so a simulation runs it by the
// thousand (sim_test.go). Everything else about it is how to reach it.
//
// # Words
//
// A history is a sequence of numbered frames under one name (replid); a frame is
// one round of the primary's feed: absolute changes, so that the last one for a
// key counts. A node that is promoted begins a new history, that shares with the
// one before all frames up to its end. A term is a lead: each lead has a higher
// one than all those that the leader knew of. A content is of a lead if it has all
// that this lead began with. The doors are open while a node may decide. The group of
// a node are those that follow it, or that it follows the primary of, and that primary.
//
// # Promises
//
// One decides. No two nodes have answers leave that were decided at the same time,
// if Sentinel's quorum is a majority, its down-after-milliseconds at least 2000
// (or more than fence-after by what a PING may take), and clocks run at about the
// same rate. What they show does not matter.
//
// Asynchronous (repl-ack 0): when a primary is lost, a key may be granted once
// more what it was granted in the lag, the age of the last frame that the promoted
// node has: at most burst + rate × lag. A node that is started judges what is on its
// disk by its machine's clock: by what that is behind the one it had by more than
// max-clock-skew, rate × that is granted once more.
//
// repl-ack 1, majority and all: nothing answered is lost if one node that has it can
// be reached, both ways and within 500 ms (100 ms if it is the primary and had been
// silent for fence-after), by the one that is promoted, from the
// beginning of its promotion to the end, and that node has not been started anew
// since, or decided it itself and was stopped cleanly.
//
// repl-ack all, besides: nothing answered is lost if the one that is promoted is one
// of those that acknowledged it, and has not been started anew since. Those are all
// that had followed the primary in its lead, or its former primary before that; not
// a former primary that has not come back: that is promoted only if no other replica
// can be.
//
// Both hold while replies are refused without acks (repl-ack-on-timeout refuse). Of a
// node that is promoted in the middle of a full sync the first one does.
//
// A primary that is started again, or resumes after it was in doubt and not all its
// replicas answer, asks its group in the same way before it decides: the same holds
// for it.
//
// Planned failover: nothing is lost and nobody decides twice, if the replica that
// is promoted has a link to the primary. One that an operator has promoted without,
// while Sentinels do reach the primary, decides from 100 ms later on, and the primary until
// Sentinel's word reaches it.
//
// Replicas become what the primary is; what the clock makes idle goes when the
// primary says so.
//
// # Why one decides
//
// A Sentinel takes a node for down when a PING has had no answer for down-after.
// Each PING whose answer is known to have arrived (Contact: the answer's bytes were
// acknowledged by the Sentinel's host) proves that this Sentinel does not do so
// before that PING's time + down-after. A primary decides only until the time at
// which fence-after has passed since the oldest of such contacts with a majority
// (the lease). To be promoted, a replica needs a majority of Sentinels that take the
// primary for down; both majorities share one. So whoever is promoted without the
// primary's knowledge is so after the lease. Doors are looked at before the decision
// and again before the reply leaves; a process that was stopped in between finds
// that the time is over.
//
// A Sentinel judges a promoted node as the primary from when it has switched to it,
// and counts anew then. That is not before the node is told to lead, nor before it
// has said in INFO that it does, so these two times count as contacts with all. They
// are needed: Sentinels drop their connections when they switch, and send the next
// PING up to two seconds after the last.
//
// A failover that has begun goes on though the primary is heard again. So a lease
// that has run out is not simply taken up again: the primary is in doubt until it
// has heard a majority of Sentinels again, and each known replica has answered a
// beat sent since then: one that is promoted later says so to the primary first, on
// that same link. If a replica does not answer, Sentinels must have been heard for
// 5 s, and a majority of them must have named this node since (a Hello, every 2 s);
// and the others are asked, as after a start, what they have of a lead in between.
// A Hello of a higher epoch that names another node deposes at once. Every start of a primary that has had replicas or Sentinels is in doubt too, and waits
// for a majority of Sentinels to name it; what it remembers of them is written behind,
// so that no decision waits for a disk. No replica may take its content over until it
// has been asked whether its own is younger.
//
// A replica that is promoted says so (a pull) to its primary on the link between
// them, or dials it, before it decides. The primary closes its doors, sends its last
// frames and the end; when that has come the replica opens, having everything. If no
// answer comes within 500 ms, it opens if it had heard nothing from the primary for
// fence-after before it was promoted, and otherwise 4 s after the last word (or after
// it was promoted, if it has never heard this primary), when Sentinel's switch has
// reached the primary or the lease is over. For the answer of a primary that had been
// silent for fence-after it waits 100 ms. What Sentinel does not know of (REPLICAOF NO
// ONE by hand while the link is down) is not fenced.
//
// # Why nothing acknowledged is lost
//
// A replica acknowledges a frame after it has applied it and put it into its log. A
// replica that is promoted sends the pull to all its siblings: each takes over the
// term, listens to no lower one any more (so it acknowledges nothing more to the
// old primary), and sends the frames that follow on those of who asks. If its frames
// do not follow on them (it has synced in full since, is of a later lead, or its log
// does not go back so far) it says of which lead its content is, and up to which
// frame. The promoted node takes the whole content of the youngest: of the latest lead,
// and of those of one lead with the highest number, if that is younger than its own.
// This is no loss: a content of a later lead has all that its primary found by the
// same rule. So after the pulls the promoted node has every frame that one of them has
// acknowledged. What it takes it keeps aside until it is there, up to 64 MiB; more is
// applied as it comes, and if the link then breaks and nobody else has a whole content
// a part is left.
//
// Who knows that somebody else leads, or is about to, and has not synced with that one
// yet, and who was started and has not synced at all, tells Sentinel a lower priority:
// it is promoted if there is no other.
//
// What a node had in memory when its process was killed counts no more, though
// some of it is on its disk: so a crashed primary that is started again takes the
// content of a replica. That a crash came before is remembered over clean stops.
//
// A full sync walks the store while frames go on: a chunk is sent before every frame
// cut after it was read, so applying both in order ends at the primary's content with
// the last frame cut after the walk. Only then does the replica acknowledge, or count
// as one that may be promoted.
//
// A partial resync needs that the frames the replica has are a beginning of the
// primary's: the same history, or the one before it up to the number at which the
// promoted node left it. A replica that was ahead of that number syncs in full, and
// so does every node that was started anew: its store was saved and loaded, and the
// clock has dropped what was idle.
//
// A deposed primary has everything up to its last frame, and no more: commands that
// were under way when the doors closed may still have changed something, so it looks,
// 100 ms later, whether its feed has anything to tell, and syncs in full if so.
//
// # Clocks
//
// A replica takes its primary's clock over from the frames and beats (of all, the
// least delayed counts), and keeps it when it is promoted, so that time goes on for
// entries as it did.
//
// # What is not promised
//
// A Sentinel quorum below a majority, SENTINEL FAILOVER while the replica and the
// primary do not reach each other (the old primary stops when the switch is told to
// it, a second or two later; the replica waits up to 4 s for that), and Sentinels
// that are removed while others are cut off. Of the contents of two leads neither of
// which, nor any replica that followed it, knew of the other, the one of the higher
// term counts as the younger, whichever came later.
package replicate
