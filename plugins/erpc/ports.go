package erpc

import (
	"errors"
	"fmt"
	"net/netip"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/datagram"
	"transportbench/core/fabric/datagram/faulty"
	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
	"transportbench/core/transport"
)

// portFactory opens a rank's ports: one for each worker and one for the heartbeat.
type portFactory struct {
	settings *settings
	address  netip.Addr  // udp
	device   rdma.Device // verbs and soft; nil for udp
}

// heartbeatPort is the index that open takes for the heartbeat's port.
const heartbeatPort = -1

const (
	// spareReceives are the receives for handshake packets.
	spareReceives = 64
	// spareSenders is how many more senders than peers a port of the software device has room for.
	// The device never forgets a sender, so a peer that restarts needs room again.
	spareSenders = 32
)

func openPorts(s *settings) (*portFactory, error) {
	if s.provider == providerUDP {
		address, err := control.LocalAddress("address", s.address)
		if err != nil {
			return nil, err
		}
		return &portFactory{settings: s, address: address}, nil
	}
	if s.peers > datagram.VerbsMaxPeers {
		return nil, fmt.Errorf("%w: %d peers of one worker exceed the limit of provider %s, %d",
			transport.ErrUnsupported, s.peers, s.provider, datagram.VerbsMaxPeers)
	}
	device, err := devices.Open(s.device)
	if err != nil {
		return nil, err
	}
	f := &portFactory{settings: s, device: device}
	if f.credits() == 0 {
		a := device.Attributes()
		return nil,
			errors.Join(fmt.Errorf("%w: a queue of %s has %d receives, too few for %d peers",
				transport.ErrUnsupported, a.Name, a.MaxReceiveDepth, s.peers), device.Close())
	}
	return f, nil
}

// open opens the port of a worker, or the heartbeat's. The faults of the options apply to workers
// only: how the protocol handles loss and which peers are alive are separate questions.
func (f *portFactory) open(worker int) (datagram.Port, error) {
	s := f.settings
	open := f.openUDP
	if f.device != nil {
		open = f.openVerbs
	}
	p, err := open(worker)
	if err != nil {
		return nil, err
	}
	faults := s.faults
	if worker == heartbeatPort || faults.Drop+faults.Duplicate+faults.Reorder+faults.Corrupt+
		faults.Delay == 0 {
		return p, nil
	}
	faults.Seed = faults.Seed<<32 ^ uint64(s.rank)<<16 ^ uint64(worker)
	lossy, err := faulty.New(p, faults, faults)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return lossy, nil
}

func (f *portFactory) openUDP(worker int) (datagram.Port, error) {
	s := f.settings
	o := s.udp
	number := uint16(0)
	if s.port != 0 {
		number = uint16(s.port + 1 + worker)
	}
	o.Address = netip.AddrPortFrom(f.address, number)
	if worker == heartbeatPort {
		o.SendBuffer, o.ReceiveBuffer, o.Batch, o.OnlyRemotes = heartbeatBuffer, heartbeatBuffer,
			heartbeatBatch, true
	}
	return datagram.OpenUDP(o)
}

func (f *portFactory) openVerbs(worker int) (datagram.Port, error) {
	s := f.settings
	o := datagram.VerbsOptions{MTU: s.mtu, Batch: s.batch, Peers: senders(s.peers),
		// Every peer may send as many requests and answers as it has credits.
		ReceiveDepth: 2*s.peers*f.credits() + spareReceives}
	if worker == heartbeatPort {
		peers := s.peers * s.workers
		o.Peers, o.ReceiveDepth, o.Batch = senders(peers), 4*peers+spareReceives, heartbeatBatch
	}
	return datagram.OpenVerbs(f.device, o)
}

func senders(peers int) int { return min(peers+spareSenders, datagram.VerbsMaxPeers) }

// credits returns how many credits a session has: those of the options, and on a device no more
// than its receive queue has room for. A socket's buffer holds bytes, not packets, and most packets
// are short; packets that find it full are dropped and retransmitted.
func (f *portFactory) credits() int {
	if f.device == nil {
		return f.settings.credits
	}
	room := f.device.Attributes().MaxReceiveDepth - spareReceives
	return min(f.settings.credits, room/(2*f.settings.peers))
}

func (f *portFactory) libraries() map[string]string {
	if f.device == nil {
		return nil
	}
	return f.device.Attributes().Libraries
}

func (f *portFactory) close() error {
	if f.device == nil {
		return nil
	}
	return f.device.Close()
}
