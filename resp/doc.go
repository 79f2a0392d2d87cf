// Package resp is the server's wire: sessions that turn bytes into commands and
// commands into replies in the Redis protocol (RESP2 and RESP3), the command
// table with everything derived from it, and the connections that carry them.
//
// The two things to call: [New] makes a [Server] over a keyspace, and
// [Server.Serve] answers a listener's connections until [Server.Shutdown].
//
// A [Session] is bytes in, bytes out: it owns no socket, goroutine or clock of
// its own. What carries it reads, feeds it, waits at the gate for the round it
// names, and writes. On Linux a few event loops carry all plain sockets (sock);
// elsewhere, and for what is no plain socket, each connection has a goroutine
// (conn). The rules both live by are in life.go. Nothing that a peer sends
// allocates before its length was checked; see reader.go.
package resp
