package shmperf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

const (
	spscSlots   = 256
	spscPayload = 32
	spscBatch   = 32 // messages that are published together
	callBatch   = 64 // round trips that are timed together
	pingTime    = 5 * time.Millisecond
)

var spscGeometry = ring.Geometry{Slots: spscSlots}

// spsc measures each ring as a one-way stream and as calls.
func (b *bench) spsc() error {
	for _, where := range []between{threads, processes} {
		for _, name := range variants() {
			readings := []struct {
				name string
				job  job
			}{
				{"stream", job{Work: "stream"}},
				{"call-1", job{Work: "call", InFlight: 1}},
				{"call-32", job{Work: "call", InFlight: 32}},
			}
			for _, r := range readings {
				full := fmt.Sprintf("spsc/%s/%s/%s", name, r.name, where)
				if b.leavesOut(full) {
					continue
				}
				j := r.job
				j.Variant, j.Nodes, j.Body = name, 2, 2*spscGeometry.Bytes()
				o, err := b.team(j, where)
				if err != nil {
					return fmt.Errorf("%s of %s between %s: %w", r.name, name, where, err)
				}
				m := transport.Measurement{Name: full, Size: spscPayload, Rate: o.rate,
					Samples: o.samples, Floor: o.floor,
					Latency: floor.Median(o.latencies)}
				if name == ring.FastForward.String() && r.job.Work == "call" && where == processes {
					m.Layer = "ring, between processes"
				}
				if err := b.report(m); err != nil {
					return err
				}
			}
		}
	}
	name := "spsc/" + demoted
	part := strings.HasPrefix(b.Reading, name) // a reading of the ring that cannot run
	if demotes() || b.leavesOut(name) && !part {
		return nil
	}
	b.found = true
	return b.report(transport.Measurement{Name: name,
		Note: "the processor has no CLDEMOTE, which Xeons have since Sapphire Rapids"})
}

// measureFloor measures the round trip of a cache line between nodes 0 and 1.
func (n *node) measureFloor() error {
	f, err := floor.CacheLine(n.ctx, shm.Word64(n.memory, pingOffset), n.Node == 0, pingTime)
	n.floor = f.RoundTrip
	return err
}

// rings returns a producer of one ring of the body and a consumer of the other. Node 0 produces
// into the first.
func (n *node) rings() (ring.Producer, ring.Consumer, error) {
	size := spscGeometry.Bytes()
	out, in := n.body[:size], n.body[size:]
	if n.Node != 0 {
		out, in = in, out
	}
	p, err := newProducer(out, n.Variant, spscGeometry)
	if err != nil {
		return nil, nil, err
	}
	c, err := newConsumer(in, n.Variant, spscGeometry)
	return p, c, err
}

// checkMessage returns an error unless m is the message with that token.
func checkMessage(m *ring.Message, token uint64) error {
	if m.Token != token || len(m.Payload) != spscPayload ||
		binary.NativeEndian.Uint64(m.Payload) != token {
		return fmt.Errorf(
			"received message %d with %d bytes, want message %d with %d: the ring is broken",
			m.Token, len(m.Payload), token, spscPayload)
	}
	return nil
}

// stream sends from node 1 to node 0, which measures.
func (n *node) stream() error {
	if err := n.measureFloor(); err != nil {
		return err
	}
	producer, consumer, err := n.rings()
	if err != nil {
		return err
	}
	if n.Node != 0 {
		return n.produce(producer)
	}
	var m ring.Message
	next := uint64(0)
	return n.window(func() (uint64, error) {
		before := next
		for range spscSlots {
			ok, err := consumer.Pop(&m)
			if err != nil {
				return 0, err
			}
			if !ok {
				break
			}
			if err := checkMessage(&m, next); err != nil {
				return 0, err
			}
			next++
		}
		if next == before {
			n.idle()
		} else {
			consumer.Release()
			n.found()
		}
		return next, nil
	})
}

// produce pushes messages until the measurement is over.
func (n *node) produce(producer ring.Producer) error {
	var payload [spscPayload]byte
	for token := uint64(0); n.phase.Load() != over; {
		first := token
		for token-first < spscBatch {
			binary.NativeEndian.PutUint64(payload[:], token)
			err := producer.Push(ring.KindA, token, payload[:])
			if errors.Is(err, ring.ErrFull) {
				break
			}
			if err != nil {
				return err
			}
			token++
		}
		if token == first {
			n.idle()
			continue
		}
		producer.Publish()
		n.found()
	}
	return nil
}

// call keeps calls in flight from node 0 to node 1.
func (n *node) call() error {
	if err := n.measureFloor(); err != nil {
		return err
	}
	producer, consumer, err := n.rings()
	if err != nil {
		return err
	}
	if n.Node != 0 {
		return n.answer(producer, consumer)
	}
	if n.InFlight == 1 {
		n.minimum = 2 * callBatch // one whole batch
	}
	var payload [spscPayload]byte
	var m ring.Message
	sent, got := uint64(0), uint64(0)
	mark := time.Now()
	return n.window(func() (uint64, error) {
		posted := sent
		for ; sent-got < uint64(n.InFlight); sent++ {
			binary.NativeEndian.PutUint64(payload[:], sent)
			if err := producer.Push(ring.KindA, sent, payload[:]); err != nil {
				return 0, err // there are more slots than calls in flight
			}
		}
		if sent != posted {
			producer.Publish()
		}
		before := got
		for got != sent {
			ok, err := consumer.Pop(&m)
			if err != nil {
				return 0, err
			}
			if !ok {
				break
			}
			if err := checkMessage(&m, got); err != nil {
				return 0, err
			}
			got++
		}
		if got == before {
			n.idle()
			return got, nil
		}
		consumer.Release()
		n.found()
		if n.InFlight == 1 && got%callBatch == 0 {
			now := time.Now()
			if n.phase.Load() == measuring {
				n.latencies = append(n.latencies, float64(now.Sub(mark))/callBatch)
			}
			mark = now
		}
		return got, nil
	})
}

// answer echoes calls until the measurement is over.
func (n *node) answer(producer ring.Producer, consumer ring.Consumer) error {
	var m ring.Message
	for n.phase.Load() != over {
		answered := false
		for range spscBatch { // the slots of more calls would not be released
			ok, err := consumer.Pop(&m)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if err := producer.Push(ring.KindB, m.Token, m.Payload); err != nil {
				return err // the caller keeps fewer calls in flight than there are slots
			}
			answered = true
		}
		if !answered {
			n.idle()
			continue
		}
		producer.Publish()
		consumer.Release()
		n.found()
	}
	return nil
}
