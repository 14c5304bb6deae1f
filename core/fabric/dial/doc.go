// Package dial connects the workers of transports over stream sockets.
//
// Every worker listens (see [sock.Acceptor]) and has a random [Nonce], which only its peers learn,
// from its address. Of two workers the one with the smaller nonce dials all sockets of the
// connection. It begins the first one with a [Hello], by which the other side finds the peer that
// the socket belongs to. A socket without a proper hello belongs to a stranger and is closed.
//
// Connecting never blocks. Worker.Connect calls [Connector.Connect], and the worker's Poll and
// Flush call [Connector.Accept] and [Connector.Continue] until the connection is up. These
// allocate, which is allowed because nothing is measured before all peers are connected. While no
// packet reaches the peer's host, the dialling side dials again every 20 ms, until the connection
// times out.
package dial
