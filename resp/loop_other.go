//go:build !linux

package resp

import "net"

// loops are the event loops; this system has none, so every connection has a
// goroutine.
type loops struct{}

func (srv *Server) startLoops() {}

func (srv *Server) endLoops() {}

// gatesMayOpen has nobody to wake: who waits does so in Wait.
func (srv *Server) gatesMayOpen() {}

// carry makes the carrier of a connection.
func (srv *Server) carry(nc net.Conn) carrier {
	return srv.newConn(nc)
}
