package replicate

import "encoding/binary"

// A Peer is another node: its id, and the address at which it announces that it
// listens.
type Peer struct{ ID, Addr string }

// A beat says that the primary is there, and who follows it.
type beat struct {
	term  uint64
	clock int64  // ms
	stamp uint64 // ns of the primary's own time: an ack says it again
	head  uint64
	peers []Peer
}

func appendBeat(dst []byte, b *beat) []byte {
	dst, at := openFrame(dst, typeBeat, 0)
	dst = binary.AppendUvarint(dst, b.term)
	dst = binary.AppendUvarint(dst, uint64(max(b.clock, 0)))
	dst = binary.AppendUvarint(dst, b.stamp)
	dst = binary.AppendUvarint(dst, b.head)
	peers := b.peers[:min(len(b.peers), maxPeers)]
	dst = binary.AppendUvarint(dst, uint64(len(peers)))
	for _, p := range peers {
		dst = appendString(appendString(dst, p.ID), p.Addr)
	}
	return closeFrame(dst, at)
}

func readBeat(f *frame) (b beat, err error) {
	r := reader{b: f.body}
	b.term, b.clock, b.stamp, b.head = r.num(), r.ms(), r.num(), r.num()
	n := r.num()
	if n > maxPeers {
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
	flags      byte
}

func appendPulled(dst []byte, p pulled) []byte {
	dst, at := openFrame(dst, typePulled, p.flags)
	dst = binary.AppendUvarint(dst, p.term)
	return closeFrame(binary.AppendUvarint(dst, p.head), at)
}

func readPulled(f *frame) (p pulled, err error) {
	r := reader{b: f.body}
	p.term, p.head, p.flags = r.num(), r.num(), f.flags
	return p, r.end()
}
