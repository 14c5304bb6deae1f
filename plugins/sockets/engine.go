package sockets

import (
	"fmt"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/doublemap"
)

// engine moves the bytes of one worker's connections between their sockets and their streams.
// The worker's thread calls the methods. attach, prepareWait, detach and close may block and
// allocate; the others must not.
type engine interface {
	// attach begins to move the bytes of a connection, whose socket is connected and whose rings
	// are empty except for what was posted.
	attach(c *conn) error
	// lend sends what is unsent, and then payload from where it is: payload is not in the ring. It
	// returns how many bytes of payload the socket took, and adds them to posted and sent. An
	// engine that cannot send from the caller's memory returns 0.
	lend(c *conn, payload []byte) int
	// send begins to send what was posted and not sent yet. What the socket does not take now,
	// progress sends later.
	send(c *conn)
	// submit starts what the calls of send since the last submit began.
	submit()
	// progress receives what has come, as far as the rings have room, and continues to send. It
	// calls worker.found for each connection to which bytes came or whose conn.err it has set.
	progress()
	// release is called when in.released of a connection has grown.
	release(c *conn)
	// prepareWait prepares for the thread to sleep. It appends what poll(2) has to watch to list: a
	// descriptor is ready while progress has something to do. ready reports that it has already.
	prepareWait(list []unix.PollFd) (_ []unix.PollFd, ready bool)
	// detach closes the socket of a connection. Afterwards the engine does not use its rings.
	detach(c *conn) error
	// close releases the engine after the last connection is detached.
	close() error
}

// conn is what an engine knows of a connection. Positions count the bytes of a stream from its
// beginning; byte i of it is at i modulo the size of the ring.
type conn struct {
	fd    int // -1 if there is none
	index int // from 0, below Config.Peers; no other connection of the worker has it
	out   outStream
	in    inStream
	// err is set once by the engine, when nothing more will be received: io.EOF if the peer has
	// closed the socket, else the kernel's error. Bytes that were received before are delivered
	// first.
	err error
	// found is set while the worker has the connection in its list of those to look at.
	found bool
}

// outStream is the stream to the peer: sent <= posted.
type outStream struct {
	ring   ring
	posted uint64 // written by the worker, and by lend
	sent   uint64 // written by the engine; earlier bytes may be overwritten
}

// inStream is the stream from the peer: released <= read <= received <= released + the ring's size.
type inStream struct {
	ring     ring
	received uint64 // written by the engine
	read     uint64 // parsed by the worker
	released uint64 // written by the worker; earlier bytes may be overwritten
}

// room returns how many bytes may be received.
func (s *inStream) room() int { return s.ring.size() - int(s.received-s.released) }

// ring is memory that is mapped twice in a row, not on the Go heap. Its size is a power of two.
type ring []byte

func newRing(size int) (ring, error) {
	memory, err := doublemap.New("transportbench-sockets", size)
	if err != nil {
		return nil, fmt.Errorf("memory of a connection: %w", err)
	}
	return memory, nil
}

func (r ring) free() error { return doublemap.Free(r) }

func (r ring) size() int { return len(r) / 2 }

// at returns n bytes from a position on.
func (r ring) at(position uint64, n int) []byte {
	from := position & uint64(len(r)/2-1)
	return r[from : from+uint64(n)]
}
