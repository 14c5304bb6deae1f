package datagram

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"transportbench/core/fabric/control"
	"transportbench/core/transport"
)

// Port sends and receives unreliable datagrams for one thread. Its methods must not run
// concurrently, except for Address, MTU and the Wake of a [Waiter].
type Port interface {
	// Address returns the opaque address that a peer passes to Open to reach this port. It never
	// changes; the caller must not modify it.
	Address() []byte

	// MTU returns the maximum size of a datagram, head and body together. Ports that exchange
	// datagrams must have the same MTU.
	MTU() int

	// Open makes the port with this address a remote and returns its number, which is small and
	// dense and which Release frees. It does not wait for that port, and may be called again for
	// the same address. A port receives what its open remotes send; what others send it may receive
	// or drop. Open returns an error with the remedy for an address of another provider or another
	// MTU, and if the path's MTU is too small. Its error is [control.Unreachable] while there is
	// no route to the port. It does not keep address.
	Open(address []byte) (Remote, error)

	// Release closes a remote. Unflushed datagrams to it may be lost.
	Release(Remote)

	// Source returns the Source of packets from a remote. It panics if the remote is not open.
	Source(Remote) Source

	// Send appends one datagram, head followed by body, to the batch. It copies both; either may be
	// empty. It returns false if the batch is full: flush and try again. If that fails too the
	// device is full, and has room again once the network has made progress. The datagram may leave
	// at once but need not before Flush. Datagrams to one remote leave in order, with one
	// exception: within a batch, datagrams that have a body and are shorter than the MTU may
	// overtake each other. They overtake no others. Send panics if the datagram exceeds the MTU or
	// the remote is not open.
	Send(to Remote, head, body []byte) bool

	// Flush rings the doorbell for all datagrams sent since the last Flush. If the device is full
	// it keeps the rest for the next Flush or Receive and returns nil. Lost and refused datagrams
	// are counted, not reported. It returns ErrClosed, or the error of a device that failed for
	// good.
	Flush() error

	// Receive fills packets with up to len(packets) datagrams that have arrived and returns their
	// number; it does not wait. Their bytes are valid until the next Receive, and the caller may
	// modify them. Bodies may lie in target; the zero Target wants none there. Receive returns the
	// errors of Flush; the n packets are valid even then.
	Receive(packets []Packet, target Target) (n int, err error)

	// ReadStats appends the port's counters to dst. Their names depend on the provider. Values
	// never decrease.
	ReadStats(dst []transport.Stat) []transport.Stat

	// Work returns what the port has done for its datagrams: the copies of bodies, the system
	// calls and the doorbells. ReadStats leaves it out, so that the port's user can add its own.
	Work() control.Work

	// Notes returns settings in force that the options do not show, such as the socket buffer sizes
	// that the kernel granted.
	Notes() map[string]string

	// Close drops unflushed datagrams and frees the port. It is idempotent.
	Close() error
}

// Remote is the number of a port that another port sends to.
type Remote uint32

// Packet is a received datagram.
type Packet struct {
	Data   []byte // all of it, or only the head if there is a Body
	Body   []byte // the rest, in the memory of a [Target]
	Source Source
}

// Join moves the body behind the head, so that Data is all of the datagram.
func (p *Packet) Join() {
	p.Data = append(p.Data, p.Body...) // Data has the capacity
	p.Body = nil
}

// Target is where the next bodies belong, which saves a copy if they arrive there. It is an offer:
// a port may ignore it.
//
// The bodies of datagrams as long as the MTU, behind Head bytes each, follow each other in Memory.
// Receive knows no order and no sender: a datagram that it returns as its i-th has its body in
// Data, or as Body in the i-th part of Memory or a later one. So the caller may move a body to an
// earlier part once it has handled what lies there. Until the next Receive the port may write to
// all of Memory.
type Target struct {
	Memory []byte
	Head   int
}

// Source identifies the sender of a packet as far as the medium does; a forged packet may lie. It
// is comparable, and the same for all packets of one remote port. Its fields depend on the
// provider.
type Source struct {
	High, Low uint64 // the host's address
	Port      uint64 // the port or queue pair, and anything else that identifies it
}

// String returns the sender's address and its port or the number of its queue pair.
func (s Source) String() string {
	port := s.Port & (1<<32 - 1) // above it is the interface of a link-local address
	switch ip := s.Address(); {
	case !ip.IsValid():
		return fmt.Sprintf("queue pair %d", port)
	case ip.Is4() && s.Low>>32 == 0:
		return fmt.Sprintf("%v:%d", ip, port)
	default:
		return fmt.Sprintf("[%v]:%d", ip, port)
	}
}

// Address returns the IP address of the sender's host. It is not valid for a source that has a
// queue pair only.
func (s Source) Address() netip.Addr {
	var ip [16]byte
	binary.BigEndian.PutUint64(ip[:], s.High)
	binary.BigEndian.PutUint64(ip[8:], s.Low)
	switch {
	case s.High == 0 && s.Low == 0:
		return netip.Addr{}
	case s.High == 0 && s.Low>>32 == 0:
		return netip.AddrFrom4([4]byte(ip[12:]))
	}
	return netip.AddrFrom16(ip).Unmap()
}

// ErrClosed is the error of a closed port.
var ErrClosed = errors.New("datagram port is closed")

// errMisuse is the value that Send panics with.
var errMisuse = errors.New("datagram exceeds the MTU, or its remote is not open")

// Waiter is a port whose thread can sleep while there is nothing to receive.
type Waiter interface {
	// Wait blocks until Receive may have something or can send what a flush kept, until Wake is
	// called or until timeout has passed. It may return early. It returns at once if a datagram
	// arrived or Wake was called since the last Receive.
	Wait(timeout time.Duration) error
	// Wake ends the current or next Wait. Any thread may call it.
	Wake()
}

// Prober is a port that can measure the floor of its medium.
type Prober interface {
	// Probe measures as [transport.Prober] does, between this port and a remote.
	Probe(ctx context.Context, to Remote, probe transport.Probe) (transport.Floor, error)
}
