package resp

import (
	"fmt"

	"github.com/rlserver/rlserver/shard"
)

// EXEC. Everything that works on keys runs on one Tx over the keys of all queued
// commands and of all watches. What is about the connection or the server is
// run when the keys are free again, so that no other lock is ever taken under
// theirs; its replies stand where they belong.

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
	e := execution{s: s, queue: m.queue, words: m.words, at: len(s.out)}
	s.atOnce = true
	defer func() { s.atOnce = false }()
	if e.onKeys(m.whole) {
		e.onOthers()
	}
	s.cmd = s.srv.table.byName["exec"]
}

// maxExecReply is the reply, in bytes, from which on EXEC runs only commands that
// write, whose own replies are short: those that only tell get an error.
const maxExecReply = 16 << 20

// execution is an EXEC under way.
type execution struct {
	s     *Session
	queue []queuedCall
	words int   // of all of them
	at    int   // where its reply begins in the session's output
	ends  []int // where the reply of each command ends, once it has run
}

// onKeys runs what works on keys. It answers itself, and says no, if a watched
// key has changed.
func (e *execution) onKeys(whole bool) (ok bool) {
	s := e.s
	tx := e.lock(whole)
	defer func() { // a fault in a command must not keep the keys
		s.tx = nil
		s.unlock(&tx)
	}()
	if !s.stillWatched(&tx) {
		s.nullArray()
		return false
	}
	part := tx.Alias()
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

// onOthers runs the rest and puts the replies in order.
func (e *execution) onOthers() {
	s := e.s
	first := 0
	for first < len(e.queue) && e.queue[first].cmd.locks() {
		first++
	}
	if first == len(e.queue) {
		return
	}
	from := e.ends[first]
	rest := append([]byte(nil), s.out[from:]...) // the replies of the keys from there on
	s.out = s.out[:from]
	for i, q := range e.queue[first:] {
		end := e.ends[first+i] - from
		if !q.cmd.locks() {
			e.run(q)
			continue
		}
		begin := e.ends[first+i-1] - from
		s.out = append(s.out, rest[begin:end]...)
	}
}

// run runs a command, if the client still has the right to it.
func (e *execution) run(q queuedCall) {
	s := e.s
	s.begin(q.cmd, s.srv.clock.NowNs())
	s.cmd = q.cmd
	switch {
	case !s.user.rights.Load().everything && !s.permitted(q.cmd, q.args):
	case len(s.out)-e.at > maxExecReply && q.cmd.flags&flagWrite == 0:
		s.fail(fmt.Sprintf("ERR not run: the transaction's reply has more than %d bytes already", maxExecReply))
	default:
		s.run.args = q.args
		q.cmd.run(s, q.args)
	}
}
