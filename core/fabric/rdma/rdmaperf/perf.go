package rdmaperf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
	"transportbench/core/transport"
)

// Options configure the measurements.
type Options struct {
	Device rdma.Options
	MTU    int // of the path; 0 for the smaller of the ports' MTUs
	Inline int // payloads of up to this many bytes go inline; 0 for none
	// requests per doorbell of the -postlist and bandwidth measurements; at least 1
	Postlist int
	Depth    int           // of the send queue, if the measurement does not say
	Duration time.Duration // of each measurement
}

// Names returns the names of the measurements in the order in which Run runs them.
func Names() (names []string) {
	for _, b := range benchmarks() {
		if len(names) == 0 || names[len(names)-1] != b.name {
			names = append(names, b.name)
		}
	}
	return append(names, register, deregister)
}

// Run runs the measurements for which wanted returns true, and calls report after each. It
// stops at the first error, and with the cause of ctx when ctx ends. Latency is half of a round
// trip, but the whole of a READ or an atomic operation; fields that a measurement does not measure
// are 0. The note of a reading without samples says what the device refused.
func Run(ctx context.Context, o Options, wanted func(name string) bool,
	report func(transport.Measurement) error) error {
	for _, b := range benchmarks() {
		if !wanted(b.name) {
			continue
		}
		r, err := b.complete(o).run(ctx)
		if err != nil {
			return fmt.Errorf("%s of %d bytes: %w", b.reading(), b.size, err)
		}
		if err := report(r); err != nil {
			return err
		}
	}
	return memory(ctx, o, wanted, report)
}

// side is one of the two ends, with a thread of its own.
type side struct {
	benchmark
	device   rdma.Device
	cq       rdma.CompletionQueue
	pairs    []pair // by cookie
	region   *rdma.Region
	remote   rdma.RemoteRegion
	soft     bool
	stopped  *atomic.Bool
	requests []rdma.SendRequest
	receives []rdma.ReceiveRequest
	polled   [64]rdma.Completion
	posted   int // requests, on all pairs
	arrived  int // messages received
	done     int // requests completed
}

// pair is a queue pair of a side.
type pair struct {
	rdma.QueuePair
	peer       rdma.PeerHandle
	pending    int // requests posted and not completed
	unsignaled int // requests posted since the last signaled one
	consumed   int // receives to post again
}

// The two buffers of a region, in this order.
const (
	sendSize    = 1 << 20
	receiveSize = sendSize + rdma.GlobalRouteHeaderSize
)

func (b benchmark) side(stopped *atomic.Bool) (s *side, err error) {
	s = &side{benchmark: b, stopped: stopped}
	if s.device, err = devices.Open(b.options.Device); err != nil {
		return nil, err
	}
	s.soft = s.device.Attributes().Provider == rdma.Soft
	if s.cq, err = s.device.NewCompletionQueue(4 * b.depth * b.pairs); err != nil {
		return s, err
	}
	rights := rdma.RemoteRead | rdma.RemoteWrite
	if b.atomic() {
		if !s.device.Attributes().Atomics {
			return s, fmt.Errorf("%w: %s has no atomic operations", rdma.ErrInvalid,
				s.device.Attributes().Name)
		}
		rights |= rdma.RemoteAtomic
	}
	if s.region, err = s.device.Allocate(sendSize+receiveSize+4096, rights|b.access); err != nil {
		return s, err
	}
	s.receives = make([]rdma.ReceiveRequest, 2*b.depth)
	for i := range s.receives {
		if b.opcode == rdma.Send {
			s.receives[i] = rdma.ReceiveRequest{Local: s.region.Address + sendSize,
				Length: receiveSize, LocalKey: s.region.LocalKey}
		}
	}
	var shared rdma.SharedReceiveQueue
	if b.kind == rdma.DynamicallyConnected {
		if shared, err = s.device.NewSharedReceiveQueue(2 * b.depth); err != nil {
			return s, err
		}
	}
	for i := range b.pairs {
		qp, err := s.device.NewQueuePair(rdma.QueuePairConfig{Type: b.kind, Completions: s.cq,
			SendDepth:    b.depth,
			ReceiveDepth: 2 * b.depth, Shared: shared, MaxInline: b.inline, Cookie: uint32(i),
			QKey: 1})
		if err != nil {
			return s, err
		}
		s.pairs = append(s.pairs, pair{QueuePair: qp})
		if b.consumes() {
			if _, err := qp.PostReceive(s.receives); err != nil {
				return s, err
			}
		}
	}
	s.requests = make([]rdma.SendRequest, b.postlist)
	return s, nil
}

func (s *side) connect(other *side) error {
	s.remote = other.region.Remote
	for i := range s.pairs {
		p, remote := &s.pairs[i], other.pairs[i].Endpoint()
		var err error
		if s.kind != rdma.ReliableConnected {
			p.peer, err = p.AddPeer(remote)
		} else {
			err = p.Connect(remote, rdma.ConnectOptions{MTU: s.options.MTU,
				ReadsInFlight: min(s.device.Attributes().MaxReadsInFlight, maxReads)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxReads is the largest number of READs in flight of [rdma.ConnectOptions].
const maxReads = 128

func (s *side) close() error {
	if s == nil || s.device == nil {
		return nil
	}
	return s.device.Close()
}

// run opens two sides and measures between them.
func (b benchmark) run(ctx context.Context) (r transport.Measurement, err error) {
	r = transport.Measurement{Name: b.reading(), Size: b.size, Baseline: b.baseline}
	var stopped atomic.Bool
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()
	initiator, err := b.side(&stopped)
	defer func() { err = errors.Join(err, initiator.close()) }()
	if b.optional && errors.Is(err, rdma.ErrInvalid) {
		r.Note, err = err.Error(), nil
		return r, err
	}
	if err != nil {
		return r, err
	}
	responder, err := b.side(&stopped)
	defer func() { err = errors.Join(err, responder.close()) }()
	if err != nil {
		return r, err
	}
	if err := errors.Join(initiator.connect(responder), responder.connect(initiator)); err != nil {
		return r, err
	}
	a := initiator.device.Attributes()
	if a.Provider == rdma.Verbs {
		r.Witness = b.witness(a)
	}
	if b.access&rdma.RelaxedOrdering != 0 && !onBus(a.Name) {
		r.Note = a.Name + " is not on a PCIe bus, so relaxed ordering changes nothing"
	}
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
		if err == nil && b.atomic() {
			err = initiator.checkAtomics(responder.region.Bytes)
		}
	}()
	wait.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return r, errors.Join(err, theirs)
}

// onBus reports whether a device is on a bus, where transfers can be ordered.
func onBus(device string) bool {
	_, err := os.Stat(filepath.Join("/sys/class/infiniband", device, "device"))
	return err == nil
}
