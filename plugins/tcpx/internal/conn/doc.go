// Package conn carries a stream of bytes in each direction over one connection of the tcpx
// transport.
//
// A [Conn] has a [Sender] and a [Receiver], one control socket, and data sockets (lanes) that carry
// nothing but the streams.
//
//	file                   what it does
//	conn*.go               a connection: its sockets, and what a poll does with them
//	messages_datapath.go   messages in the streams: announced on the control socket, delivered
//	stream_datapath.go     Sender: the stream (cursor end), and how it is cut into requests (cut)
//	sender_datapath.go     Sender: credits, chunks (assigned), acknowledgements (acked)
//	receiver_datapath.go   Receiver: receives, pages, unpacking; the stream in its ring (read)
//	control_datapath.go    the control socket, and the records on it (record.go)
//	lane_datapath.go       lanes, and the driver that moves their bytes: polling, or helpers
//	                       (helper*.go)
//	headers_datapath.go    the first bytes of messages that go to device memory
//	counters.go breakdown_datapath.go series.go trace.go
//	                       counters, and where the time of a connection goes
//	side.go                bulk transfers without messages
//
// Both sides number the requests of a direction from 0, and request n has index n%16 on the wire.
// The receiver posts a receive, and its credit allows the sender to send a request of that number.
// Errors end a connection: the two sides then disagree, or one of them has lost its hardware.
package conn
