package rdmaperf

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

// Options configure the measurements.
type Options struct {
	Device   rdma.Options
	MTU      int           // of the path; 0 for the smaller of the ports' MTUs
	Inline   int           // payloads of up to this many bytes go inline; 0 for none
	Postlist int           // requests per doorbell of the -postlist and bandwidth measurements; at least 1
	Depth    int           // of the send queue
	Duration time.Duration // of each measurement
}

// benchmark is one measurement.
type benchmark struct {
	name     string
	opcode   rdma.Opcode
	kind     rdma.QueuePairType
	size     int
	postlist int  // 0 for Options.Postlist
	latency  bool // ping-pong; otherwise a stream
}

const small = 32

func benchmarks() (list []benchmark) {
	rc := []struct {
		name   string
		opcode rdma.Opcode
	}{{"write", rdma.Write}, {"write-imm", rdma.WriteWithImmediate}, {"send", rdma.Send}, {"read", rdma.Read}}
	for _, k := range rc {
		list = append(list, benchmark{k.name + "-latency", k.opcode, rdma.ReliableConnected, small, 1, true})
	}
	list = append(list, benchmark{"ud-send-latency", rdma.Send, rdma.UnreliableDatagram, small, 1, true})
	for _, k := range rc {
		list = append(list, benchmark{k.name + "-rate", k.opcode, rdma.ReliableConnected, small, 1, false},
			benchmark{k.name + "-rate-postlist", k.opcode, rdma.ReliableConnected, small, 0, false})
	}
	list = append(list, benchmark{"ud-send-rate", rdma.Send, rdma.UnreliableDatagram, small, 1, false},
		benchmark{"ud-send-rate-postlist", rdma.Send, rdma.UnreliableDatagram, small, 0, false})
	for _, k := range rc {
		for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
			list = append(list, benchmark{k.name + "-bandwidth", k.opcode, rdma.ReliableConnected, size, 0, false})
		}
	}
	return list
}

// Names returns the names of the measurements in the order in which Run runs them.
func Names() (names []string) {
	for _, b := range benchmarks() {
		if len(names) == 0 || names[len(names)-1] != b.name {
			names = append(names, b.name)
		}
	}
	return names
}

// Run runs the measurements for which wanted returns true, and calls report after each. It
// stops at the first error, and with the cause of ctx when ctx ends. Latency is half of a round
// trip, but the whole of a READ; fields that a measurement does not measure are 0.
func Run(ctx context.Context, o Options, wanted func(name string) bool, report func(transport.Measurement) error) error {
	for _, b := range benchmarks() {
		if !wanted(b.name) {
			continue
		}
		if b.postlist == 0 {
			b.postlist = o.Postlist
		}
		r, err := b.run(ctx, o)
		if err != nil {
			return fmt.Errorf("%s of %d bytes: %w", b.name, b.size, err)
		}
		if err := report(r); err != nil {
			return err
		}
	}
	return nil
}

// side is one of the two queue pairs.
type side struct {
	benchmark
	options  Options
	device   rdma.Device
	cq       rdma.CompletionQueue
	qp       rdma.QueuePair
	region   *rdma.Region
	peer     rdma.PeerHandle
	remote   rdma.RemoteRegion
	soft     bool
	stopped  *atomic.Bool
	requests []rdma.SendRequest
	receives []rdma.ReceiveRequest
	polled   [64]rdma.Completion
	pending  int // requests posted and not completed
	arrived  int // messages received
	done     int // requests completed
}

// The two buffers of a region, in this order.
const (
	sendSize    = 1 << 20
	receiveSize = sendSize + rdma.GlobalRouteHeaderSize
)

func (b benchmark) side(o Options, stopped *atomic.Bool) (s *side, err error) {
	s = &side{benchmark: b, options: o, stopped: stopped}
	if s.device, err = rdma.Open(o.Device); err != nil {
		return nil, err
	}
	s.soft = s.device.Attributes().Provider == rdma.Soft
	if s.cq, err = s.device.NewCompletionQueue(4 * o.Depth); err != nil {
		return s, err
	}
	s.qp, err = s.device.NewQueuePair(rdma.QueuePairConfig{Type: b.kind, Completions: s.cq, SendDepth: o.Depth,
		ReceiveDepth: 2 * o.Depth, MaxInline: o.Inline, QKey: 1})
	if err != nil {
		return s, err
	}
	if s.region, err = s.device.Allocate(sendSize+receiveSize+4096, rdma.RemoteRead|rdma.RemoteWrite); err != nil {
		return s, err
	}
	s.receives = make([]rdma.ReceiveRequest, 2*o.Depth)
	for i := range s.receives {
		if b.opcode == rdma.Send {
			s.receives[i] = rdma.ReceiveRequest{Local: s.region.Address + sendSize, Length: receiveSize, LocalKey: s.region.LocalKey}
		}
	}
	if b.consumes() {
		_, err = s.qp.PostReceive(s.receives)
	}
	s.requests = make([]rdma.SendRequest, b.postlist)
	return s, err
}

// consumes reports whether a message consumes a receive.
func (b benchmark) consumes() bool {
	return b.opcode == rdma.Send || b.opcode == rdma.WriteWithImmediate
}

func (s *side) connect(other *side) (err error) {
	s.remote = other.region.Remote
	if s.kind == rdma.UnreliableDatagram {
		s.peer, err = s.qp.AddPeer(other.qp.Endpoint())
		return err
	}
	return s.qp.Connect(other.qp.Endpoint(), rdma.ConnectOptions{MTU: s.options.MTU})
}

func (s *side) close() error {
	if s == nil || s.device == nil {
		return nil
	}
	return s.device.Close()
}

// run opens two sides and measures between them.
func (b benchmark) run(ctx context.Context, o Options) (r transport.Measurement, err error) {
	var stopped atomic.Bool
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()
	initiator, err := b.side(o, &stopped)
	defer func() { err = errors.Join(err, initiator.close()) }()
	if err != nil {
		return r, err
	}
	responder, err := b.side(o, &stopped)
	defer func() { err = errors.Join(err, responder.close()) }()
	if err != nil {
		return r, err
	}
	if err := errors.Join(initiator.connect(responder), responder.connect(initiator)); err != nil {
		return r, err
	}
	r.Name, r.Size = b.name, b.size
	var wait sync.WaitGroup
	var theirs error
	wait.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		theirs = responder.respond()
	})
	func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer stopped.Store(true)
		if b.latency {
			err = initiator.latencies(&r)
		} else {
			err = initiator.stream(&r)
		}
	}()
	wait.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return r, errors.Join(err, theirs)
}
