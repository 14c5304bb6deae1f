package erpc

import (
	"errors"
	"fmt"
	"net/netip"

	"transportbench/core/fabric/datagram"
	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

func openSource(s *settings) (source, error) {
	if s.provider == providerUDP {
		return openUDP(s)
	}
	return openVerbs(s)
}

// udpSource makes sockets.
type udpSource struct {
	settings *settings
	address  netip.Addr
}

func openUDP(s *settings) (source, error) {
	address, err := transport.LocalAddress("address", s.address)
	if err != nil {
		return nil, err
	}
	return &udpSource{s, address}, nil
}

func (u *udpSource) port(worker int) (datagram.Port, error) {
	o := u.settings.udp
	number := uint16(0)
	if u.settings.port != 0 {
		number = uint16(u.settings.port + 1 + worker)
	}
	o.Address = netip.AddrPortFrom(u.address, number)
	if worker < 0 { // seldom used, by packets that are small
		o.SendBuffer, o.ReceiveBuffer, o.Batch = heartBuffer, heartBuffer, heartBatch
	}
	p, err := datagram.OpenUDP(o)
	if err != nil {
		return nil, err
	}
	return u.settings.withFaults(p, worker)
}

// withFaults has the options' faults done to a worker's datagrams. Heartbeats are
// spared: how the protocol bears with loss is one thing, who is alive another.
func (s *settings) withFaults(p datagram.Port, worker int) (datagram.Port, error) {
	f := s.faults
	if worker < 0 || f.Drop+f.Duplicate+f.Reorder+f.Corrupt+f.Delay == 0 {
		return p, nil
	}
	f.Seed = f.Seed<<32 ^ uint64(s.rank)<<16 ^ uint64(worker)
	faulty, err := datagram.NewFaulty(p, f, f)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return faulty, nil
}

// credits is what the options say: a datagram takes as much of a socket's buffer as it
// is long, and most are short. What finds no room is dropped, and sent again.
func (u *udpSource) credits(s *settings) int { return s.credits }

func (*udpSource) libraries() map[string]string { return nil }

func (*udpSource) close() error { return nil }

// verbsSource makes UD queue pairs, of an RDMA device or the software one.
type verbsSource struct {
	settings *settings
	device   rdma.Device
}

// spareReceives are for the packets of handshakes.
const spareReceives = 64

// spareSenders is how many more than its peers may send to a port of the software device,
// which keeps a place for each that ever did: a peer that is started again takes another.
const spareSenders = 32

func senders(peers int) int { return min(peers+spareSenders, datagram.VerbsMaxPeers) }

func openVerbs(s *settings) (source, error) {
	if s.peers > datagram.VerbsMaxPeers {
		return nil, fmt.Errorf("%w: %d peers of one worker, and provider %s has %d at most", transport.ErrUnsupported, s.peers, s.provider, datagram.VerbsMaxPeers)
	}
	device, err := rdma.Open(s.device)
	if err != nil {
		return nil, err
	}
	v := &verbsSource{s, device}
	if v.credits(s) == 0 {
		return nil, errors.Join(fmt.Errorf("%w: %s has %d receives in a queue, too few for %d peers",
			transport.ErrUnsupported, device.Attributes().Name, device.Attributes().MaxReceiveDepth, s.peers), device.Close())
	}
	return v, nil
}

func (v *verbsSource) port(worker int) (datagram.Port, error) {
	s := v.settings
	o := datagram.VerbsOptions{MTU: s.mtu, Batch: s.batch, Peers: senders(s.peers), ReceiveDepth: v.receives(v.credits(s))}
	if worker < 0 {
		o.Peers, o.ReceiveDepth, o.Batch = senders(s.peers*s.workers), 4*s.peers*s.workers+spareReceives, heartBatch
	}
	p, err := datagram.OpenVerbs(v.device, o)
	if err != nil {
		return nil, err
	}
	return s.withFaults(p, worker)
}

// receives is how many a worker needs, so that none is missing for what its peers send,
// each as much as the session's credits allow: requests, and answers.
func (v *verbsSource) receives(credits int) int { return 2*v.settings.peers*credits + spareReceives }

// credits is as many as the device has receives for.
func (v *verbsSource) credits(s *settings) int {
	room := v.device.Attributes().MaxReceiveDepth - spareReceives
	return min(s.credits, room/(2*s.peers))
}

func (v *verbsSource) libraries() map[string]string { return v.device.Attributes().Libraries }

func (v *verbsSource) close() error { return v.device.Close() }
