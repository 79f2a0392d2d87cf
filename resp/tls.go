package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// handshakeWithin is how long a TLS client may take to say who it is. Until
// then it costs a goroutine, and nobody waits for it.
const handshakeWithin = 5 * time.Second

// tlsRecord is the first byte of a TLS handshake. No command starts with it.
const tlsRecord = 0x16

// handshake does what TLS needs before the first command; other connections
// need nothing. It returns false when the connection is over.
func (srv *Server) handshake(nc net.Conn) bool {
	secure, ok := nc.(*tls.Conn)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), srv.within.handshake)
	defer cancel()
	err := secure.HandshakeContext(ctx)
	if err == nil {
		return true
	}
	srv.counters.tlsFailures.Add(1)
	srv.log.Debug("no TLS connection came about", "client", nc.RemoteAddr().String(), "err", err)
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil { // who speaks no TLS can read this
		plain.Conn.SetWriteDeadline(time.Now().Add(refuseWithin))
		plain.Conn.Write(appendError(nil, errNotTLS))
	}
	return false
}

// raw is the socket under a connection. Closing it never waits, where closing a
// TLS connection says goodbye first.
func raw(nc net.Conn) net.Conn {
	if secure, ok := nc.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return nc
}
