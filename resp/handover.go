package resp

import (
	"bytes"
	"net"
)

// handOver gives a connection away to whoever a peer wants to talk to from now
// on; rest came behind its command.
func (srv *Server) handOver(nc net.Conn, s *Session, rest []byte) {
	l := s.leaves
	go srv.repl.Take(nc, bytes.Clone(rest), l.from, l.args)
}
