package replicate

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// A Peer is another node: its id, and the address at which it announces that it
// listens.
type Peer struct{ ID, Addr string }

// A lead is whose decisions a content is of: the term in which they began, and
// the number of the last frame before them. Of two contents that do not follow one
// on the other, the one of the higher term is younger.
type lead struct{ term, from uint64 }

// A beat says that the primary is there, and who belongs to it.
type beat struct {
	term  uint64
	clock int64  // ms
	stamp uint64 // ns of the primary's own time: an ack says it again
	head  uint64
	lead  lead
	peers []Peer // the primary first, then its replicas
}

func appendBeat(dst []byte, b *beat) []byte {
	dst, at := openFrame(dst, typeBeat, 0)
	dst = binary.AppendUvarint(dst, b.term)
	dst = binary.AppendUvarint(dst, uint64(max(b.clock, 0)))
	dst = binary.AppendUvarint(dst, b.stamp)
	dst = binary.AppendUvarint(dst, b.head)
	dst = binary.AppendUvarint(dst, b.lead.term)
	dst = binary.AppendUvarint(dst, b.lead.from)
	peers := b.peers[:min(len(b.peers), maxPeers+1)]
	dst = binary.AppendUvarint(dst, uint64(len(peers)))
	for _, p := range peers {
		dst = appendString(appendString(dst, p.ID), p.Addr)
	}
	return closeFrame(dst, at)
}

func readBeat(f *frame) (b beat, err error) {
	r := reader{b: f.body}
	b.term, b.clock, b.stamp, b.head = r.num(), r.ms(), r.num(), r.num()
	b.lead = lead{r.num(), r.num()}
	n := r.num()
	if n > maxPeers+1 {
		return b, errFrame
	}
	for range n {
		b.peers = append(b.peers, r.peer())
	}
	return b, r.end()
}

func (r *reader) peer() Peer {
	return Peer{ID: string(r.bytes(maxStringLen)), Addr: string(r.bytes(maxStringLen))}
}

// A syncAnswer is what a primary says to RL.SYNC.
type syncAnswer struct {
	full   bool
	replid string
	number uint64 // the frame before the first one to come
	term   uint64
	lead   lead
}

func readSyncAnswer(text string) (a syncAnswer, err error) {
	words := strings.Fields(text)
	if len(words) != 6 || words[0] != "+CONTINUE" && words[0] != "+FULLRESYNC" {
		return a, errFrame
	}
	a.full, a.replid = words[0] == "+FULLRESYNC", words[1]
	for i, to := range []*uint64{&a.number, &a.term, &a.lead.term, &a.lead.from} {
		if *to, err = strconv.ParseUint(words[2+i], 10, 64); err != nil {
			return a, errFrame
		}
	}
	return a, nil
}

func appendSyncAnswer(dst []byte, a syncAnswer) []byte {
	word := "+CONTINUE "
	if a.full {
		word = "+FULLRESYNC "
	}
	dst = append(append(dst, word...), a.replid...)
	for _, v := range []uint64{a.number, a.term, a.lead.term, a.lead.from} {
		dst = strconv.AppendUint(append(dst, ' '), v, 10)
	}
	return append(dst, "\r\n"...)
}

func appendWhole(dst []byte, number uint64) []byte {
	dst, at := openFrame(dst, typeWhole, 0)
	return closeFrame(binary.AppendUvarint(dst, number), at)
}

func readWhole(f *frame) (number uint64, err error) {
	r := reader{b: f.body}
	number = r.num()
	return number, r.end()
}

// An ack says how far a replica is.
type ack struct{ number, stamp uint64 }

func appendAck(dst []byte, a ack) []byte {
	dst, at := openFrame(dst, typeAck, 0)
	dst = binary.AppendUvarint(dst, a.number)
	return closeFrame(binary.AppendUvarint(dst, a.stamp), at)
}

func readAck(f *frame) (a ack, err error) {
	r := reader{b: f.body}
	a.number, a.stamp = r.num(), r.num()
	return a, r.end()
}

// A pull is the word of a node that is being promoted.
type pull struct {
	term uint64
	by   Peer
}

func appendPull(dst []byte, p pull) []byte {
	dst, at := openFrame(dst, typePull, 0)
	dst = binary.AppendUvarint(dst, p.term)
	return closeFrame(appendString(appendString(dst, p.by.ID), p.by.Addr), at)
}

func readPull(f *frame) (p pull, err error) {
	r := reader{b: f.body}
	p.term, p.by = r.num(), r.peer()
	return p, r.end()
}

// A pulled is the end of the answer to a pull.
type pulled struct {
	term, head uint64
	lead       uint64 // term of the lead that the content is of
	replid     string // of the history
	flags      byte
}

func appendPulled(dst []byte, p pulled) []byte {
	dst, at := openFrame(dst, typePulled, p.flags)
	dst = binary.AppendUvarint(dst, p.term)
	dst = binary.AppendUvarint(dst, p.head)
	dst = binary.AppendUvarint(dst, p.lead)
	return closeFrame(appendString(dst, p.replid), at)
}

func appendFull(dst []byte) []byte {
	dst, at := openFrame(dst, typeFull, 0)
	return closeFrame(dst, at)
}

func readPulled(f *frame) (p pulled, err error) {
	r := reader{b: f.body}
	p.term, p.head, p.lead, p.flags = r.num(), r.num(), r.num(), f.flags
	p.replid = string(r.bytes(maxStringLen))
	return p, r.end()
}
