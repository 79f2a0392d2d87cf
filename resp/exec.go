package resp

import (
	"fmt"

	"github.com/rlserver/rlserver/shard"
)

// EXEC. Everything that works on keys runs on one Tx over the keys of all queued
// commands and of all watches. What is about the connection or the server is
// run when the keys are free again, so that no other lock is ever taken under
// theirs, and in turns, so that others are served meanwhile; its replies stand
// where they belong.

// execMulti is EXEC.
func execMulti(s *Session, args [][]byte) {
	m := s.multi
	if m == nil {
		s.fail(errNoExec)
		return
	}
	s.multi = nil
	if m.spoiled {
		s.endWatches()
		s.fail(errExecAbort)
		return
	}
	e := &execution{s: s, queue: m.queue, words: m.words, bytes: m.bytes, at: len(s.out)}
	if e.onKeys(m.whole) && e.others() {
		s.inTurns(e.step)
	}
	s.cmd = s.srv.table.byName["exec"]
}

// maxExecState is the size of the states, in bytes, after which EXEC runs no
// more commands that work on keys, counted for each command: only those of long
// logs are as large, and nobody else gets at the keys meanwhile.
const maxExecState = 16 << 20

// maxExecReply is the reply, in bytes, from which on EXEC runs only commands that
// write of those that work on keys, whose own replies are short: those that only
// tell get an error.
const maxExecReply = 16 << 20

// execution is an EXEC under way.
type execution struct {
	s     *Session
	queue []queuedCall
	words int   // of all of them
	bytes int   // that the queue keeps
	at    int   // where its reply begins in the session's output
	told  int   // the count of bytes told when it began
	ends  []int // where the reply of each command that works on keys ends

	// What is done when the keys are free again.
	next    int                 // the command whose turn it is
	replies []byte              // of the keys, from that command on
	from    int                 // where they stood
	inner   func(*Session) bool // what is left of a command that works in turns itself, nil = none
}

// onKeys runs what works on keys. It answers itself, and says no, if a watched
// key has changed.
func (e *execution) onKeys(whole bool) (ok bool) {
	s := e.s
	tx := e.lock(whole)
	s.atOnce, s.looked = true, 0
	defer func() { // a fault in a command must not keep the keys
		s.tx, s.atOnce = nil, false
		s.unlock(&tx)
	}()
	if !s.stillWatched(&tx) {
		s.nullArray()
		return false
	}
	part := tx.Alias()
	e.told = tx.Told()
	s.tx = &part // handlers get copies of it
	s.array(len(e.queue))
	for _, q := range e.queue {
		if q.cmd.locks() {
			e.run(q)
		}
		e.ends = append(e.ends, len(s.out))
	}
	return true
}

// lock locks the keys of all commands and watches, or all there are.
func (e *execution) lock(whole bool) shard.Tx {
	if whole {
		return e.s.srv.store.LockAll(e.s.now)
	}
	keys := e.s.appendWatched(make([][]byte, 0, len(e.s.watches)+e.words))
	for _, q := range e.queue {
		keys = q.cmd.appendKeys(keys, q.args)
	}
	return e.s.srv.store.Lock(e.s.now, keys...)
}

// others says whether there is more to run. The replies from the first such
// command on are taken back until their turn comes.
func (e *execution) others() bool {
	for e.next < len(e.queue) && e.queue[e.next].cmd.locks() {
		e.next++
	}
	if e.next == len(e.queue) {
		return false
	}
	e.from = e.ends[e.next]
	e.replies = append([]byte(nil), e.s.out[e.from:]...)
	e.s.out = e.s.out[:e.from]
	e.unmuted()
	return true
}

// step runs some of the rest and puts the replies in order.
func (e *execution) step(s *Session) (done bool) {
	s.exec, s.atOnce = e, true
	defer func() {
		s.exec, s.atOnce = nil, false
		s.cmd = s.srv.table.byName["exec"]
	}()
	s.touring = e.bytes + cap(e.replies)
	t := stint{clock: s.srv.clock, began: s.srv.clock.NowNs()}
	for e.next < len(e.queue) {
		e.one(e.queue[e.next])
		if e.inner != nil {
			return false
		}
		e.next++
		if full := len(s.out) >= flushAt || s.delay > 0; (full || t.over(eachCost)) && s.act == actionNone {
			break
		}
	}
	if e.next < len(e.queue) {
		return false
	}
	s.touring = 0
	return true
}

// one runs a command, or a turn of it, or puts the reply there that it has.
func (e *execution) one(q queuedCall) {
	s := e.s
	switch inner := e.inner; {
	case inner != nil:
		if inner(s) {
			e.inner = nil
		}
	case !q.cmd.locks():
		e.run(q)
	default:
		s.out = append(s.out, e.replies[e.ends[e.next-1]-e.from:e.ends[e.next]-e.from]...)
	}
	e.unmuted()
}

// unmuted keeps what is answered so far, or takes back what is not to be: CLIENT
// REPLY may be among the commands, and holds from then on.
func (e *execution) unmuted() {
	s := e.s
	if s.mute == muteThis || s.mute == muteAll {
		s.out = s.out[:s.mark]
	}
	s.mark = len(s.out)
}

// run runs a command, if the client still has the right to it.
func (e *execution) run(q queuedCall) {
	s := e.s
	s.begin(q.cmd, s.srv.clock.NowNs())
	s.cmd = q.cmd
	switch {
	case !s.user.rights.Load().everything && !s.permitted(q.cmd, q.args):
	case s.tx != nil && len(s.out)-e.at > maxExecReply && q.cmd.flags&flagWrite == 0:
		s.fail(fmt.Sprintf("ERR not run: the transaction's reply has more than %d bytes already", maxExecReply))
	case s.tx != nil && s.tx.Told()-e.told > maxExecState:
		s.fail(fmt.Sprintf("ERR not run: the transaction has worked on more than %d bytes of states already", maxExecState))
	default:
		s.run.args = q.args
		q.cmd.run(s, q.args)
	}
}
