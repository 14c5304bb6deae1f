package datagram

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

const (
	verbsDefaultInline = 188 // perftest's, which most adapters grant
	verbsMinInline     = 60  // eRPC's, which older adapters grant
	verbsDefaultDepth  = 512

	// VerbsMaxPeers is the maximum of VerbsOptions.Peers.
	VerbsMaxPeers = 1024
)

// VerbsOptions configure a verbs port. The zero value of each field selects its default.
type VerbsOptions struct {
	// MTU is the size of the largest datagram in bytes; 0 is the device's.
	MTU int
	// Batch is the maximum number of datagrams between two flushes; 0 is 64.
	Batch int
	// SendDepth and ReceiveDepth are the depths of the queues; 0 is 512, or the device's maximum if
	// that is less. A datagram that finds no receive is lost.
	SendDepth, ReceiveDepth int
	// SignalInterval is the number of sends for each that asks for a completion; 0 is 64. It is at
	// most half of SendDepth.
	SignalInterval int
	// Inline is the size in bytes of the largest datagram that is sent within its request. 0 takes
	// 188, 60 or none, whichever the device grants first; -1 is none. The device must grant any
	// other value.
	Inline int
	// Peers is how many peers may send to a port on the software device; 0 is 64.
	Peers int
}

// Verbs is a port on a UD queue pair. It implements [Port], [Waiter] and [Prober].
type Verbs struct {
	options  VerbsOptions
	device   rdma.Device
	cq       rdma.CompletionQueue
	qp       rdma.QueuePair
	region   *rdma.Region // send buffers, then those of inline datagrams, then receive buffers
	endpoint rdma.Endpoint
	address  []byte
	stride   int        // from receive buffer to receive buffer
	routed   bool       // the header before a datagram identifies the sending host
	failed   error      // first error of the device, after which the port is useless
	probe    *Verbs     // a port for the probe alone; nil in that port
	probed   uint64     // nonce of the last probe that was answered, without a loop
	loop     *rdma.Loop // of the probe's port; nil for the soft device
	closed   bool

	waking   sync.Mutex    // any thread may call Wake, which must not notify a closed notifier
	notifier rdma.Notifier // nil in the probe's port and once it is closed

	remotes []*verbsRemote
	handles map[string]rdma.PeerHandle // by endpoint; they live as long as the queue pair

	send    verbsSend
	receive verbsReceive
	polled  []rdma.Completion
	counts  verbsCounts
}

var (
	_ Port   = (*Verbs)(nil)
	_ Waiter = (*Verbs)(nil)
)

// verbsRemote is a remote with its address handle.
type verbsRemote struct {
	handle rdma.PeerHandle
	source Source
	probe  []byte // address of the remote's probe port
}

// verbsSend is the batch and the send queue. The number of a send determines its buffer; a
// completion covers all sends up to its number.
type verbsSend struct {
	requests []rdma.SendRequest // the batch
	inline   int                // bytes from one inline datagram of the batch to the next
	first    int                // first request that is not posted
	unsent   bool               // the last flush kept some
	count    int
	next     uint64 // number of the next send
	done     uint64 // sends that have completed
}

// verbsReceive tracks the receive buffers that are not posted.
type verbsReceive struct {
	arrived []arrival // ring of datagrams that Receive has not returned yet
	head    uint64
	tail    uint64
	lent    []rdma.ReceiveRequest // of the packets that the last Receive returned
	free    []rdma.ReceiveRequest // to post
	refill  int                   // how many to post at once
}

// arrival is a datagram that was polled.
type arrival struct {
	buffer uint32
	length uint32
	source uint32 // queue pair
}

// OpenVerbs opens a port on a new queue pair of the device. The caller closes the device after all
// its ports.
func OpenVerbs(device rdma.Device, o VerbsOptions) (*Verbs, error) {
	if err := o.complete(device.Attributes()); err != nil {
		return nil, err
	}
	p := &Verbs{options: o, device: device, handles: map[string]rdma.PeerHandle{}}
	// The probe's queues do not follow the port's, which may be too shallow for one message: while
	// the receiver is preempted, all its datagrams need receives.
	o.Batch, o.SignalInterval = maxProbe, 1
	a := device.Attributes()
	o.SendDepth, o.ReceiveDepth = min(2*maxProbe, a.MaxSendDepth),
		min(4*maxProbe, a.MaxReceiveDepth)
	p.probe = &Verbs{options: o, device: device, handles: map[string]rdma.PeerHandle{}}
	if err := errors.Join(p.probe.open(), p.open()); err != nil {
		return nil, errors.Join(fmt.Errorf("UD queue pair on %s: %w", device.Attributes().Name,
			err), p.Close())
	}
	return p, nil
}

// complete fills in defaults and checks the options.
func (o *VerbsOptions) complete(a rdma.Attributes) error {
	o.MTU = cmp.Or(o.MTU, a.MTU)
	o.Batch = cmp.Or(o.Batch, 64)
	o.SendDepth = cmp.Or(o.SendDepth, min(verbsDefaultDepth, a.MaxSendDepth))
	o.ReceiveDepth = cmp.Or(o.ReceiveDepth, min(verbsDefaultDepth, a.MaxReceiveDepth))
	o.SignalInterval = cmp.Or(o.SignalInterval, min(64, max(o.SendDepth/2, 1)))
	o.Peers = cmp.Or(o.Peers, 64)
	device := fmt.Sprintf("%s port %d: ", a.Name, a.Port)
	for _, c := range []struct {
		option          string
		value, from, to int
	}{
		{device + "mtu", o.MTU, 1, a.MTU},
		{"batch", o.Batch, 1, maxBatch},
		{device + "send depth", o.SendDepth, 2, a.MaxSendDepth},
		{device + "receive depth", o.ReceiveDepth, 1, a.MaxReceiveDepth},
		{"signal interval", o.SignalInterval, 1, o.SendDepth / 2},
		{"peers", o.Peers, 1, VerbsMaxPeers},
	} {
		if c.value < c.from || c.value > c.to {
			return outOfRange(c.option, c.value, c.from, c.to)
		}
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
	if err := p.newQueuePair(); err != nil {
		return err
	}
	p.endpoint = p.qp.Endpoint()
	p.endpoint.MTU = o.MTU // peers compare it with theirs
	if p.address, err = p.encodeAddress(); err != nil {
		return err
	}
	// Without a global route the 40 bytes before a datagram are undefined.
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
	r.free = make([]rdma.ReceiveRequest, 0, o.ReceiveDepth)
	r.refill = max(min(o.ReceiveDepth/4, 32), 1)
	for i := range o.ReceiveDepth {
		r.free = append(r.free, p.receiveInto(uint32(i)))
	}
	return p.postReceives()
}

// newQueuePair makes the queue pair, with the largest inline size that the device grants.
func (p *Verbs) newQueuePair() (err error) {
	o := &p.options
	wanted := []int{max(o.Inline, 0)}
	if o.Inline == 0 {
		wanted = []int{verbsDefaultInline, verbsMinInline, 0}
	}
	for _, inline := range wanted {
		// A key whose highest bit is set is privileged.
		p.qp, err = p.device.NewQueuePair(rdma.QueuePairConfig{Type: rdma.UnreliableDatagram,
			Completions: p.cq,
			SendDepth:   o.SendDepth, ReceiveDepth: o.ReceiveDepth, MaxInline: inline,
			QKey: rand.Uint32() >> 1, Peers: o.Peers})
		if err == nil {
			o.Inline = min(inline, p.qp.MaxInline())
			p.send.inline = (o.Inline + 63) &^ 63
			return nil
		}
		if !errors.Is(err, rdma.ErrInvalid) {
			break // the reason was not the size
		}
	}
	return err
}

// encodeAddress returns the port's address: the lengths of the whole and of the endpoint (u16,
// big-endian), the endpoint, and the address of the probe's port.
func (p *Verbs) encodeAddress() ([]byte, error) {
	endpoint, err := p.endpoint.MarshalBinary()
	if err != nil {
		return nil, err
	}
	var probe []byte
	if p.probe != nil {
		probe = p.probe.address
	}
	b := binary.BigEndian.AppendUint16(nil, uint16(4+len(endpoint)+len(probe)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(endpoint)))
	return slices.Concat(b, endpoint, probe), nil
}

func decodeAddress(address []byte) (e rdma.Endpoint, probe []byte, err error) {
	if len(address) < 4 || len(address) != int(binary.BigEndian.Uint16(address)) ||
		len(address)-4 < int(binary.BigEndian.Uint16(address[2:])) {
		return e, nil, fmt.Errorf("its length does not match its %d bytes", len(address))
	}
	end := 4 + int(binary.BigEndian.Uint16(address[2:]))
	return e, address[end:], e.UnmarshalBinary(address[4:end])
}

// receiveInto returns a request that receives into a buffer.
func (p *Verbs) receiveInto(buffer uint32) rdma.ReceiveRequest {
	return rdma.ReceiveRequest{ID: receiveID | uint64(buffer),
		Local:  p.region.Address + uint64(p.receiveOffset(buffer)),
		Length: uint32(rdma.GlobalRouteHeaderSize + p.options.MTU), LocalKey: p.region.LocalKey}
}

// sendOffset returns the offset in the region of the buffer of a send.
func (p *Verbs) sendOffset(number uint64) int {
	return int(number%uint64(p.options.SendDepth)) * p.options.MTU
}

// inlineOffset returns the offset in the region of an inline datagram of the batch. The device
// copies it when it is posted, so there is only one buffer for each datagram of the batch: few
// enough to stay in the cache, unlike the send buffers.
func (p *Verbs) inlineOffset(i int) int {
	return (p.options.SendDepth*p.options.MTU+63)&^63 + i*p.send.inline
}

// receiveOffset returns the offset in the region of a receive buffer.
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
		"device": fmt.Sprintf("%s port %d", a.Name, a.Port), "link": a.Link,
		"mtu": fmt.Sprint(o.MTU), "inline": fmt.Sprint(o.Inline),
		"send-depth": fmt.Sprint(o.SendDepth), "receive-depth": fmt.Sprint(o.ReceiveDepth),
		"signal-interval": fmt.Sprint(o.SignalInterval),
	}
	if a.GID != "" {
		notes["gid"] = fmt.Sprintf("%s (index %d)", a.GID, a.GIDIndex)
	}
	return notes
}

// Open implements [Port].
func (p *Verbs) Open(address []byte) (Remote, error) {
	if p.closed {
		return 0, ErrClosed
	}
	e, probe, err := decodeAddress(address)
	if err != nil {
		return 0,
			fmt.Errorf(
				"the address is not one of a verbs port (%w); use the same provider on both sides",
				err)
	}
	if e.MTU != p.options.MTU {
		return 0, fmt.Errorf("the mtu of the remote port is %d and that of this port is %d: set "+
			"mtu to the smaller one on both sides",
			e.MTU, p.options.MTU)
	}
	key := string(address[4 : len(address)-len(probe)])
	handle, ok := p.handles[key]
	if !ok {
		if handle, err = p.qp.AddPeer(e); err != nil {
			return 0, err
		}
		p.handles[key] = handle
	}
	r := &verbsRemote{handle: handle, source: p.sourceOf(e), probe: slices.Clone(probe)}
	if i := slices.Index(p.remotes, nil); i >= 0 {
		p.remotes[i] = r
		return Remote(i), nil
	}
	p.remotes = append(p.remotes, r)
	return Remote(len(p.remotes) - 1), nil
}

// sourceOf returns the Source of an endpoint's packets. On an InfiniBand subnet without global
// routes it is the number of the queue pair alone, which several hosts may use.
func (p *Verbs) sourceOf(e rdma.Endpoint) Source {
	s := Source{Port: uint64(e.Number)}
	if p.routed && len(e.GID) == 16 {
		s.High, s.Low = binary.BigEndian.Uint64(e.GID), binary.BigEndian.Uint64(e.GID[8:])
	}
	return s
}

// Release implements [Port]. The address handle lives as long as the queue pair.
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

// closeNotifier makes later calls of Wake do nothing.
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

// verbsCounts are the counters of ReadStats.
type verbsCounts struct {
	sent, sentBytes, doorbells, signaled, full         uint64
	received, receivedBytes, polls, refills, truncated uint64
	copies, copiedBytes                                uint64
}

// Work implements [Port]. It includes what a soft device does.
func (p *Verbs) Work() control.Work {
	c := &p.counts
	return control.Work{Copies: c.copies, CopiedBytes: c.copiedBytes, Doorbells: c.doorbells}.
		Plus(rdma.WorkOf(p.qp)).Plus(rdma.WorkOf(p.notifier))
}

// ReadStats implements [Port].
func (p *Verbs) ReadStats(dst []transport.Stat) []transport.Stat {
	c := &p.counts
	notReady := uint64(0)
	if !p.closed {
		notReady = p.device.ReceiverNotReady()
	}
	return append(dst,
		transport.Stat{Name: "datagrams_sent", Help: "datagrams that the device took",
			Value: c.sent},
		transport.Stat{Name: "bytes_sent", Help: "bytes of these datagrams", Value: c.sentBytes},
		transport.Stat{Name: "send_calls", Help: "postlists: doorbells rung for sends",
			Value: c.doorbells},
		transport.Stat{Name: "sends_signaled", Help: "datagrams that asked for a completion",
			Value: c.signaled},
		transport.Stat{Name: "send_queue_full", Means: transport.MeansShortage,
			Help: "times a datagram had to wait because the send queue was full", Value: c.full},
		transport.Stat{Name: "datagrams_received", Help: "datagrams received", Value: c.received},
		transport.Stat{Name: "bytes_received", Help: "bytes of these datagrams",
			Value: c.receivedBytes},
		transport.Stat{Name: "receive_calls",
			Help: "polls of the completion queue that returned something", Value: c.polls},
		transport.Stat{Name: "receive_refills", Help: "postlists of receives", Value: c.refills},
		transport.Stat{Name: "datagrams_too_long",
			Help: "datagrams dropped because they exceeded the MTU", Value: c.truncated},
		transport.Stat{Name: "receive_drops", Means: transport.MeansRetransmission,
			Help: "datagrams of all ports of the device that found no receive, if the device " +
				"counts them", Value: notReady},
	)
}
