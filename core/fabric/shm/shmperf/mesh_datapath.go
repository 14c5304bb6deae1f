package shmperf

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"transportbench/core/fabric/shm/mpsc"
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

// The ways in which the nodes of a mesh pass messages.
const (
	meshRings    = "rings"    // a ring for each ordered pair of nodes; "-" and a variant may follow
	meshQueue    = "mpsc"     // a queue with many producers for each node
	meshChannels = "channels" // a Go channel for each node, between goroutines
)

const (
	// meshVariant makes messages visible at once, which suits calls that wait for each other.
	meshVariant = "fastforward"

	meshNotify = "notify"
	meshCall   = "call-reply"

	meshPayload  = 32
	meshInFlight = 8  // calls from a node to each other node
	meshBatch    = 16 // messages that a node takes, or sends to a peer, in one step
	ringSlots    = 64 // more than the calls and replies of a pair
	// maxMesh is the largest mesh that is measured, and queueSlots more than the calls and replies
	// to one of its nodes.
	maxMesh    = 8
	queueSlots = 2 * maxMesh * ringSlots
)

var (
	meshGeometry = ring.Geometry{Slots: ringSlots}
)

// mesh measures each kind of mesh with 2, 4 and 8 nodes.
func (b *bench) mesh() error {
	for _, where := range []between{threads, processes} {
		for _, pattern := range []string{meshNotify, meshCall} {
			for _, nodes := range []int{2, 4, maxMesh} {
				if err := b.meshOf(where, pattern, nodes); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bench) meshOf(where between, pattern string, nodes int) error {
	name := func(kind string) string {
		return fmt.Sprintf("mesh/%s/%s/%d-%s", kind, pattern,
			nodes, where)
	}
	kinds := []string{meshQueue, meshChannels, meshRings}
	if pattern == meshCall && nodes == 4 { // that of the copyrpc document
		for _, variant := range variants() {
			if variant != meshVariant {
				kinds = append(kinds, meshRings+"-"+variant)
			}
		}
	}
	for _, kind := range kinds {
		if b.leavesOut(name(kind)) {
			continue
		}
		var o outcome
		var err error
		j := job{Work: "mesh", Variant: kind, Nodes: nodes}
		if pattern == meshCall {
			j.InFlight = meshInFlight
		}
		switch {
		case kind == meshChannels && where == processes:
			continue // a channel does not leave its process
		case kind == meshChannels:
			o, err = b.channelTeam(j)
		case kind == meshQueue:
			j.Body = nodes * mpsc.Bytes(queueSlots)
			o, err = b.team(j, where)
		default:
			j.Body = nodes * nodes * meshGeometry.Bytes()
			o, err = b.team(j, where)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name(kind), err)
		}
		m := transport.Measurement{Name: name(kind), Size: meshPayload, Rate: o.rate,
			Samples: o.samples}
		if kind != meshQueue {
			m.Baseline = name(meshQueue)
		}
		if err := b.report(m); err != nil {
			return err
		}
	}
	return nil
}

// meshMessage is a message between two nodes. Its payload repeats the token.
type meshMessage struct {
	from  int
	reply bool
	token uint64
}

// meshLinks pass messages from and to one node. send takes a message for a peer unless there is no
// room, and flush makes it visible. receive calls handle for each message that has arrived, for at
// most meshBatch from each link.
type meshLinks interface {
	send(to int, m meshMessage) (ok bool, err error)
	flush()
	receive(handle func(meshMessage) error) error
}

// meshSide is the load of one node of a mesh.
type meshSide struct {
	node     int
	links    meshLinks
	calls    uint64   // in flight to each peer; 0 to notify
	sent     []uint64 // messages to each peer
	answered []uint64 // replies from each peer
	expected []uint64 // the next token from each peer
	done     uint64   // messages received, or replies
}

func newMeshSide(j *job, links meshLinks) *meshSide {
	return &meshSide{node: j.Node, links: links, calls: uint64(j.InFlight),
		sent: make([]uint64, j.Nodes), answered: make([]uint64, j.Nodes),
		expected: make([]uint64, j.Nodes)}
}

// step sends to every other node, and handles what has arrived. It reports whether it did anything.
func (s *meshSide) step() (busy bool, err error) {
	for to := range s.sent {
		if to == s.node {
			continue
		}
		for range meshBatch {
			if s.calls > 0 && s.sent[to]-s.answered[to] >= s.calls {
				break
			}
			ok, err := s.links.send(to, meshMessage{from: s.node, token: s.sent[to]})
			if err != nil {
				return busy, err
			}
			if !ok {
				break
			}
			s.sent[to]++
			busy = true
		}
	}
	s.links.flush()
	err = s.links.receive(func(m meshMessage) error {
		busy = true
		return s.handle(m)
	})
	s.links.flush()
	return busy, err
}

// handle checks that a message is the next one from its node, and answers a call.
func (s *meshSide) handle(m meshMessage) error {
	if m.from < 0 || m.from >= len(s.sent) || m.from == s.node {
		return fmt.Errorf("a message from node %d of %d: the links are broken", m.from, len(s.sent))
	}
	next := &s.expected[m.from]
	if m.reply {
		next = &s.answered[m.from]
	}
	if m.token != *next {
		return fmt.Errorf("message %d from node %d, want %d: the links are broken", m.token,
			m.from, *next)
	}
	*next++
	if m.reply || s.calls == 0 {
		s.done++
		return nil
	}
	ok, err := s.links.send(m.from, meshMessage{from: s.node, reply: true, token: m.token})
	if err == nil && !ok {
		err = errors.New("no room for a reply: there are more calls in flight than the links hold")
	}
	return err
}

// meshNode is the work of a node of a mesh in shared memory.
func (n *node) meshNode() error {
	var links meshLinks
	var err error
	if n.Variant == meshQueue {
		links, err = n.newQueueLinks()
	} else {
		links, err = n.newRingLinks()
	}
	if err != nil {
		return err
	}
	s := newMeshSide(&n.job, links)
	return n.window(func() (uint64, error) {
		busy, err := s.step()
		if busy {
			n.found()
		} else {
			n.idle()
		}
		return s.done, err
	})
}

// ringLinks connect a node to each other one by two rings.
type ringLinks struct {
	out []ring.Producer // nil for the node itself
	in  []ring.Consumer
	m   ring.Message
	buf [meshPayload]byte
}

func (n *node) newRingLinks() (*ringLinks, error) {
	l := &ringLinks{out: make([]ring.Producer, n.Nodes), in: make([]ring.Consumer, n.Nodes)}
	_, variant, _ := strings.Cut(n.Variant, "-")
	variant = cmp.Or(variant, meshVariant)
	size := meshGeometry.Bytes()
	between := func(from, to int) []byte { return n.body[(from*n.Nodes+to)*size:][:size] }
	for peer := range n.Nodes {
		if peer == n.Node {
			continue
		}
		var err error
		if l.out[peer], err = newProducer(between(n.Node, peer), variant,
			meshGeometry); err != nil {
			return nil, err
		}
		if l.in[peer], err = newConsumer(between(peer, n.Node), variant,
			meshGeometry); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *ringLinks) send(to int, m meshMessage) (bool, error) {
	kind := ring.KindA
	if m.reply {
		kind = ring.KindB
	}
	binary.NativeEndian.PutUint64(l.buf[:], m.token)
	err := l.out[to].Push(kind, m.token, l.buf[:])
	if errors.Is(err, ring.ErrFull) {
		return false, nil
	}
	return err == nil, err
}

func (l *ringLinks) flush() {
	for _, out := range l.out {
		if out != nil {
			out.Publish()
		}
	}
}

func (l *ringLinks) receive(handle func(meshMessage) error) error {
	for from, in := range l.in {
		if in == nil {
			continue
		}
		for range meshBatch {
			ok, err := in.Pop(&l.m)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if err := checkPayload(l.m.Payload, l.m.Token); err != nil {
				return err
			}
			if err := handle(meshMessage{from: from, reply: l.m.Kind == ring.KindB,
				token: l.m.Token}); err != nil {
				return err
			}
		}
		in.Release()
	}
	return nil
}

func checkPayload(payload []byte, token uint64) error {
	if len(payload) != meshPayload || binary.NativeEndian.Uint64(payload) != token {
		return fmt.Errorf("message %d has a wrong payload of %d bytes: the links are broken", token,
			len(payload))
	}
	return nil
}

// queueLinks give each node a queue.
type queueLinks struct {
	node int
	all  []*mpsc.Queue // by consumer
	m    mpsc.Message
	buf  [meshPayload]byte
}

// replyBit marks a reply in the kind of a message of a queue. The other bits are the sender's
// number.
const replyBit = 1 << 31

func (n *node) newQueueLinks() (*queueLinks, error) {
	l := &queueLinks{node: n.Node}
	size := mpsc.Bytes(queueSlots)
	for consumer := range n.Nodes {
		q, err := mpsc.New(n.body[consumer*size:][:size], queueSlots)
		if err != nil {
			return nil, err
		}
		l.all = append(l.all, q)
	}
	l.all[n.Node].Clear()
	return l, n.join() // nobody pushes into a queue that is not cleared
}

func (l *queueLinks) send(to int, m meshMessage) (bool, error) {
	kind := uint32(m.from)
	if m.reply {
		kind |= replyBit
	}
	binary.NativeEndian.PutUint64(l.buf[:], m.token)
	return l.all[to].Push(kind, m.token, l.buf[:]), nil
}

func (l *queueLinks) flush() {}

func (l *queueLinks) receive(handle func(meshMessage) error) error {
	own := l.all[l.node]
	for range meshBatch * (len(l.all) - 1) {
		if !own.Pop(&l.m) {
			return nil
		}
		if err := checkPayload(l.m.Payload, l.m.Token); err != nil {
			return err
		}
		m := meshMessage{from: int(l.m.Kind &^ replyBit), reply: l.m.Kind&replyBit != 0,
			token: l.m.Token}
		if err := handle(m); err != nil {
			return err
		}
	}
	own.Release()
	return nil
}

// channelLinks give each node a channel.
type channelLinks struct {
	node int
	all  []chan channelMessage
}

type channelMessage struct {
	meshMessage
	payload [meshPayload]byte
}

func (l *channelLinks) send(to int, m meshMessage) (bool, error) {
	c := channelMessage{meshMessage: m}
	binary.NativeEndian.PutUint64(c.payload[:], m.token)
	select {
	case l.all[to] <- c:
		return true, nil
	default:
		return false, nil
	}
}

func (l *channelLinks) flush() {}

func (l *channelLinks) receive(handle func(meshMessage) error) error {
	for range meshBatch * (len(l.all) - 1) {
		select {
		case m := <-l.all[l.node]:
			if err := checkPayload(m.payload[:], m.token); err != nil {
				return err
			}
			if err := handle(m.meshMessage); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// channelTeam is [bench.team] for channels: the nodes are goroutines, which the runtime places.
func (b *bench) channelTeam(j job) (outcome, error) {
	j.Duration = b.Duration
	all := make([]chan channelMessage, j.Nodes)
	for i := range all {
		all[i] = make(chan channelMessage, queueSlots)
	}
	memory := make([]byte, bodyOffset)
	nodes := make([]*node, j.Nodes)
	ended := make(chan error, j.Nodes)
	for i := range nodes {
		j.Node = i
		n := newNode(b.ctx, j, memory)
		nodes[i] = n
		go func() {
			s := newMeshSide(&n.job, &channelLinks{node: n.Node, all: all})
			ended <- n.window(func() (uint64, error) {
				busy, err := s.step()
				if !busy {
					runtime.Gosched()
				}
				if err == nil && b.ctx.Err() != nil {
					err = b.ctx.Err()
				}
				return s.done, err
			})
		}()
	}
	var err error
	for range nodes {
		err = errors.Join(err, <-ended)
	}
	return outcomeOf(nodes[0]), err
}
