package datagram

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"transportbench/core/fabric/rdma"
)

const (
	verbsDefaultBatch  = 64
	verbsDefaultSignal = 64
	verbsDefaultInline = 188 // as perftest's, which most adapters grant
	verbsLeastInline   = 60  // as eRPC's, which older ones grant
	verbsDefaultDepth  = 512

	// VerbsMaxPeers is the most that VerbsOptions.Peers may be.
	VerbsMaxPeers = 1024
)

// VerbsOptions say how to make a verbs port. The zero value of each field is its
// default.
type VerbsOptions struct {
	// MTU is the largest datagram in bytes; 0 is the device's.
	MTU int
	// Batch is the most datagrams between two flushes; 0 is 64.
	Batch int
	// SendDepth and ReceiveDepth are the requests of the queues; 0 is 512, or what
	// the device has if that is less. A datagram that finds no receive is lost.
	SendDepth, ReceiveDepth int
	// SignalInterval is every how many sends one asks for a completion; 0 is 64.
	// It is half of SendDepth at most.
	SignalInterval int
	// Inline is the longest datagram that goes within its request; 0 is 188 bytes, or
	// 60 or none where the device does not grant that, and -1 none. What is asked for the
	// device must grant.
	Inline int
	// Peers is how many peers may send to a port on the software device; 0 is 64.
	Peers int
}

// Verbs is a port on a UD queue pair. It implements [Port] and [Waiter].
type Verbs struct {
	options  VerbsOptions
	device   rdma.Device
	cq       rdma.CompletionQueue
	qp       rdma.QueuePair
	region   *rdma.Region // send buffers, then those of inline datagrams, then receive buffers
	endpoint rdma.Endpoint
	address  []byte
	stride   int  // of receive buffers
	routed   bool // what is before a datagram says which host sent it
	failed   error
	probe    *Verbs // a port for the probe alone; its own is nil
	probed   uint64 // nonce of the probe that was answered last
	closed   bool

	waking   sync.Mutex    // Wake is any thread's, and must not ring what was closed
	notifier rdma.Notifier // nil for the port of a probe, and once it is closed

	remotes []*verbsRemote
	known   map[string]rdma.PeerHandle // by endpoint: handles live as long as the queue pair

	send    verbsSend
	receive verbsReceive
	polled  []rdma.Completion
	counts  verbsCounts
}

var (
	_ Port   = (*Verbs)(nil)
	_ Waiter = (*Verbs)(nil)
)

// verbsRemote is a remote's address handle.
type verbsRemote struct {
	handle rdma.PeerHandle
	source Source
	probe  []byte // address of the remote's port for the probe
}

// verbsSend is the batch and the send queue behind it. A send's number gives its
// buffer and tells which sends a completion covers.
type verbsSend struct {
	requests []rdma.SendRequest // the batch
	inline   int                // bytes from one inline datagram of the batch to the next
	first    int                // that has not been posted
	kept     bool               // the last flush left some
	count    int
	next     uint64 // number of the next send
	done     uint64 // sends that have completed
}

// verbsReceive is where the receive buffers are: posted, arrived, handed out, or
// to be posted again.
type verbsReceive struct {
	arrived []arrival // a ring
	head    uint64
	tail    uint64
	lent    []rdma.ReceiveRequest // handed out by the last Receive
	spare   []rdma.ReceiveRequest // to be posted
	refill  int                   // how many at once
}

// arrival is a datagram that was polled.
type arrival struct {
	buffer uint32
	length uint32
	source uint32 // queue pair
}

// OpenVerbs makes a queue pair on a device, which the caller opened and closes after
// all its ports.
func OpenVerbs(device rdma.Device, o VerbsOptions) (*Verbs, error) {
	if err := o.complete(device.Attributes()); err != nil {
		return nil, err
	}
	p := &Verbs{options: o, device: device, known: map[string]rdma.PeerHandle{}}
	o.Batch, o.SendDepth, o.ReceiveDepth, o.SignalInterval = probeMost, min(2*probeMost, o.SendDepth), min(4*probeMost, o.ReceiveDepth), 1
	p.probe = &Verbs{options: o, device: device, known: map[string]rdma.PeerHandle{}}
	if err := errors.Join(p.probe.open(), p.open()); err != nil {
		return nil, errors.Join(fmt.Errorf("UD queue pair on %s: %w", device.Attributes().Name, err), p.Close())
	}
	return p, nil
}

func (o *VerbsOptions) complete(a rdma.Attributes) error {
	fill := func(value *int, standard int) {
		if *value == 0 {
			*value = standard
		}
	}
	fill(&o.MTU, a.MTU)
	fill(&o.Batch, verbsDefaultBatch)
	fill(&o.SendDepth, min(verbsDefaultDepth, a.MaxSendDepth))
	fill(&o.ReceiveDepth, min(verbsDefaultDepth, a.MaxReceiveDepth))
	fill(&o.SignalInterval, min(verbsDefaultSignal, max(o.SendDepth/2, 1)))
	fill(&o.Peers, 64)
	switch {
	case o.MTU < 1 || o.MTU > a.MTU:
		return fmt.Errorf("mtu of %d bytes: %s port %d has %d", o.MTU, a.Name, a.Port, a.MTU)
	case o.Batch < 1 || o.Batch > maxBatch:
		return fmt.Errorf("batch of %d datagrams is outside 1 to %d", o.Batch, maxBatch)
	case o.SendDepth < 2 || o.SendDepth > a.MaxSendDepth:
		return fmt.Errorf("send depth of %d is outside 2 to %d, which %s has", o.SendDepth, a.MaxSendDepth, a.Name)
	case o.ReceiveDepth < 1 || o.ReceiveDepth > a.MaxReceiveDepth:
		return fmt.Errorf("receive depth of %d is outside 1 to %d, which %s has", o.ReceiveDepth, a.MaxReceiveDepth, a.Name)
	case o.SignalInterval < 1 || o.SignalInterval > o.SendDepth/2:
		return fmt.Errorf("signal interval of %d is outside 1 to half of the send depth, %d", o.SignalInterval, o.SendDepth)
	case o.Peers < 1 || o.Peers > VerbsMaxPeers:
		return fmt.Errorf("%d peers is outside 1 to %d", o.Peers, VerbsMaxPeers)
	}
	return nil
}

func (p *Verbs) open() (err error) {
	o := &p.options
	if p.cq, err = p.device.NewCompletionQueue(o.SendDepth + o.ReceiveDepth); err != nil {
		return err
	}
	if p.probe != nil {
		if p.notifier, err = p.device.NewNotifier(p.cq); err != nil {
			return err
		}
	}
	if err := p.makePair(); err != nil {
		return err
	}
	p.endpoint = p.qp.Endpoint()
	// Peers tell by it whether datagrams fit, and not by the device's.
	p.endpoint.MTU = o.MTU
	if err := p.makeAddress(); err != nil {
		return err
	}
	// Without a global route the 40 bytes before a datagram say nothing.
	p.routed = p.endpoint.Provider == rdma.Verbs && p.endpoint.LID == 0
	p.stride = (rdma.GlobalRouteHeaderSize + o.MTU + 63) &^ 63
	if p.region, err = p.device.Allocate(p.receiveOffset(uint32(o.ReceiveDepth)), 0); err != nil {
		return err
	}
	p.polled = make([]rdma.Completion, 64)
	p.send.requests = make([]rdma.SendRequest, o.Batch)
	r := &p.receive
	r.arrived = make([]arrival, o.ReceiveDepth)
	r.lent = make([]rdma.ReceiveRequest, 0, o.ReceiveDepth)
	r.spare = make([]rdma.ReceiveRequest, 0, o.ReceiveDepth)
	r.refill = max(min(o.ReceiveDepth/4, 32), 1)
	for i := range o.ReceiveDepth {
		r.spare = append(r.spare, p.receiveInto(uint32(i)))
	}
	return p.refillWith(o.ReceiveDepth)
}

// makePair makes the queue pair, with as much inline as it is granted.
func (p *Verbs) makePair() (err error) {
	o := &p.options
	wanted := []int{max(o.Inline, 0)}
	if o.Inline == 0 {
		wanted = []int{verbsDefaultInline, verbsLeastInline, 0}
	}
	for _, inline := range wanted {
		// The key's highest bit would make it a privileged one.
		p.qp, err = p.device.NewQueuePair(rdma.QueuePairConfig{Type: rdma.UnreliableDatagram, Completions: p.cq,
			SendDepth: o.SendDepth, ReceiveDepth: o.ReceiveDepth, MaxInline: inline, QKey: rand.Uint32() >> 1, Peers: o.Peers})
		if err == nil {
			o.Inline = min(inline, p.qp.MaxInline())
			p.send.inline = (o.Inline + 63) &^ 63
			return nil
		}
		if !errors.Is(err, rdma.ErrInvalid) {
			break // it was not for the size
		}
	}
	return err
}

// makeAddress: lengths of the whole and of the endpoint, u16, big-endian; the endpoint;
// the address of the port for the probe.
func (p *Verbs) makeAddress() error {
	endpoint, err := p.endpoint.MarshalBinary()
	if err != nil {
		return err
	}
	var probe []byte
	if p.probe != nil {
		probe = p.probe.address
	}
	b := binary.BigEndian.AppendUint16(nil, uint16(4+len(endpoint)+len(probe)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(endpoint)))
	p.address = slices.Concat(b, endpoint, probe)
	return nil
}

func splitAddress(address []byte) (e rdma.Endpoint, probe []byte, err error) {
	if len(address) < 4 || len(address) != int(binary.BigEndian.Uint16(address)) || len(address)-4 < int(binary.BigEndian.Uint16(address[2:])) {
		return e, nil, fmt.Errorf("%d bytes is not its length", len(address))
	}
	end := 4 + int(binary.BigEndian.Uint16(address[2:]))
	return e, address[end:], e.UnmarshalBinary(address[4:end])
}

// receiveInto is the request that receives into a buffer.
func (p *Verbs) receiveInto(buffer uint32) rdma.ReceiveRequest {
	return rdma.ReceiveRequest{ID: receiveID | uint64(buffer), Local: p.region.Address + uint64(p.receiveOffset(buffer)),
		Length: uint32(rdma.GlobalRouteHeaderSize + p.options.MTU), LocalKey: p.region.LocalKey}
}

// sendOffset is where a send of that number has its buffer in the region.
func (p *Verbs) sendOffset(number uint64) int {
	return int(number%uint64(p.options.SendDepth)) * p.options.MTU
}

// inlineOffset is where an inline datagram of the batch lies until it is posted. Its
// request takes it along, so there is one place for each in the batch: few enough to stay
// in the cache, which send buffers, each a page behind the last, never are.
func (p *Verbs) inlineOffset(i int) int {
	return (p.options.SendDepth*p.options.MTU+63)&^63 + i*p.send.inline
}

// receiveOffset is where a receive buffer lies in the region.
func (p *Verbs) receiveOffset(buffer uint32) int {
	return p.inlineOffset(p.options.Batch) + int(buffer)*p.stride
}

// Address implements [Port].
func (p *Verbs) Address() []byte { return p.address }

// MTU implements [Port].
func (p *Verbs) MTU() int { return p.options.MTU }

// Notes implements [Port].
func (p *Verbs) Notes() map[string]string {
	a, o := p.device.Attributes(), &p.options
	notes := map[string]string{
		"device": fmt.Sprintf("%s port %d", a.Name, a.Port), "link": a.Link, "mtu": fmt.Sprint(o.MTU), "inline": fmt.Sprint(o.Inline),
		"send-depth": fmt.Sprint(o.SendDepth), "receive-depth": fmt.Sprint(o.ReceiveDepth), "signal-interval": fmt.Sprint(o.SignalInterval),
	}
	if a.GID != "" {
		notes["gid"] = fmt.Sprintf("%s (index %d)", a.GID, a.GIDIndex)
	}
	return notes
}

// ReceiveDepth is how many datagrams may arrive between two calls of Receive.
func (p *Verbs) ReceiveDepth() int { return p.options.ReceiveDepth }

// Open implements [Port].
func (p *Verbs) Open(address []byte) (Remote, error) {
	if p.closed {
		return 0, ErrClosed
	}
	e, probe, err := splitAddress(address)
	if err != nil {
		return 0, fmt.Errorf("the address is not one of a verbs port: %w", err)
	}
	if e.MTU != p.options.MTU {
		return 0, fmt.Errorf("the mtu of the remote port is %d and this one's %d: set mtu to the smaller on both sides", e.MTU, p.options.MTU)
	}
	key := string(address[4 : len(address)-len(probe)])
	handle, ok := p.known[key]
	if !ok {
		if handle, err = p.qp.AddPeer(e); err != nil {
			return 0, err
		}
		p.known[key] = handle
	}
	r := &verbsRemote{handle: handle, source: p.sourceOf(e), probe: slices.Clone(probe)}
	if i := slices.Index(p.remotes, nil); i >= 0 {
		p.remotes[i] = r
		return Remote(i), nil
	}
	p.remotes = append(p.remotes, r)
	return Remote(len(p.remotes) - 1), nil
}

// sourceOf is what packets of an endpoint have as their source. On an InfiniBand
// subnet without global routes that is the number of the queue pair alone, which
// hosts may share.
func (p *Verbs) sourceOf(e rdma.Endpoint) Source {
	s := Source{Port: uint64(e.Number)}
	if p.routed && len(e.GID) == 16 {
		s.High, s.Low = binary.BigEndian.Uint64(e.GID), binary.BigEndian.Uint64(e.GID[8:])
	}
	return s
}

// Release implements [Port]. The address handle stays, since a queue pair's live as
// long as it does.
func (p *Verbs) Release(r Remote) {
	if int(r) < len(p.remotes) {
		p.remotes[r] = nil
	}
}

// Source implements [Port].
func (p *Verbs) Source(r Remote) Source { return p.remotes[r].source }

// Wait implements [Waiter].
func (p *Verbs) Wait(timeout time.Duration) error {
	if p.closed {
		return ErrClosed
	}
	if p.failed != nil || p.receive.head != p.receive.tail {
		return nil
	}
	return p.notifier.Wait(max(timeout, 0))
}

// Wake implements [Waiter].
func (p *Verbs) Wake() {
	p.waking.Lock()
	defer p.waking.Unlock()
	if p.notifier != nil {
		p.notifier.Notify()
	}
}

// closeNotifier has later wakes do nothing.
func (p *Verbs) closeNotifier() error {
	p.waking.Lock()
	defer p.waking.Unlock()
	if p.notifier == nil {
		return nil
	}
	err := p.notifier.Close()
	p.notifier = nil
	return err
}

// Close implements [Port].
func (p *Verbs) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	var errs []error
	if p.probe != nil {
		errs = append(errs, p.probe.Close())
	}
	if p.qp != nil {
		errs = append(errs, p.qp.Close())
	}
	errs = append(errs, p.closeNotifier())
	if p.cq != nil {
		errs = append(errs, p.cq.Close())
	}
	if p.region != nil {
		errs = append(errs, p.region.Close())
	}
	return errors.Join(errs...)
}
