package datagram

import (
	"context"
	"errors"
	"time"

	"transportbench/core/transport"
)

// Port is one thread's endpoint for unreliable datagrams. No two of its methods
// run concurrently, save Address, MTU and the Wake of a [Waiter].
type Port interface {
	// Address is opaque and says to a peer's Open how to reach this port. It is
	// constant; the caller must not change the bytes.
	Address() []byte

	// MTU is the most bytes of one datagram, head and body together. Ports that
	// exchange datagrams must have the same.
	MTU() int

	// Open makes the port whose Address is given known, as a small dense number
	// that Release makes free for use again. It does not wait for that port, and
	// may be called again for the same address. A port hears the remotes that it has
	// open; others it may hear or not. It refuses, with the remedy, an
	// address of another provider or MTU, and one that the path's MTU is too small
	// for. The caller may keep the address only for as long as the call.
	Open(address []byte) (Remote, error)

	// Release forgets a remote. Datagrams to it that were not flushed may be lost.
	Release(Remote)

	// Source is what packets from a remote carry as their Source. It panics where
	// the remote is not open.
	Source(Remote) Source

	// Send appends one datagram, head followed by body, to the batch. It copies
	// both, either may be empty. False means that the batch is full: Flush and
	// try again; where that fails as well the device is full, and takes more
	// once the network has moved on. The datagram may reach the remote at once,
	// and does not have to before Flush. It panics where the datagram is over the
	// MTU or the remote is not open: those are faults of the caller.
	Send(to Remote, head, body []byte) bool

	// Flush rings the doorbell for all that was sent since the last one. Where
	// the device is full it keeps the rest for the next Flush, which is no error; and
	// Receive flushes too while there is such a rest.
	// What is lost on the way, a remote that refuses among it, is not told
	// either, but counted. The only error is ErrClosed and a device that failed
	// for good.
	Flush() error

	// Receive fills packets with what has arrived, n of them, without waiting.
	// Their Data is valid, and the caller's to change, until the next Receive.
	// Errors are those of Flush; the n packets are valid all the same.
	Receive(packets []Packet) (n int, err error)

	// ReadStats appends the port's counters to dst. Names are the provider's own,
	// and the values only grow.
	ReadStats(dst []transport.Stat) []transport.Stat

	// Notes are settings in force that the options do not show, such as the size
	// of socket buffers that the kernel granted.
	Notes() map[string]string

	// Close gives up what was not flushed. It is idempotent.
	Close() error
}

// Remote is a port that another one sends to, a small dense number.
type Remote uint32

// Packet is one datagram that arrived.
type Packet struct {
	Data   []byte
	Source Source
}

// Source says where a packet came from, as far as its medium tells: a forged one
// may lie. It is comparable, and the same for all packets of one remote port. Its
// fields are the provider's own.
type Source struct {
	High, Low uint64 // the address of a host
	Port      uint64 // the port or queue pair there, and what else tells it apart
}

// ErrClosed is the error of a port that is closed.
var ErrClosed = errors.New("datagram port is closed")

// errMisuse is what Send panics with.
var errMisuse = errors.New("datagram over the MTU, or to a remote that is not open")

// Waiter is a port that can give its core away while there is nothing to receive.
type Waiter interface {
	// Wait blocks until Receive may have something or may send what a flush kept, Wake
	// is called, or timeout has passed, whichever is first; it may return early for no
	// reason. A Wake or an arrival since the last Receive makes it return at once.
	Wait(timeout time.Duration) error
	// Wake ends the current or next Wait. Any thread may call it.
	Wake()
}

// AsWaiter returns the [Waiter] of a port that is one.
func AsWaiter(p Port) (Waiter, bool) {
	if f, ok := p.(*Faulty); ok {
		w, ok := AsWaiter(f.port)
		return faultyWaiter{f, w}, ok
	}
	w, ok := p.(Waiter)
	return w, ok
}

// Prober is a port that can measure the least that its medium can cost.
type Prober interface {
	// Probe measures the floor between this port and a remote for about d. Both
	// sides call it at about the same time, each with the other as its remote, one
	// with initiate true; that side gets the reading, and the other a zero Floor.
	// It gives up when ctx ends.
	Probe(ctx context.Context, to Remote, initiate bool, d time.Duration) (transport.Floor, error)
}
