package erpc

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/datagram"
	"transportbench/core/fabric/datagram/faulty"
	"transportbench/core/transport"
)

// target is a worker with an established session, calls in flight and an unanswered request, and
// its peer, from whose port an attacker sends.
type target struct {
	network *network
	victim  *member
	peer    *member
	session *session
}

func newTarget(t testing.TB) *target {
	n := newNetwork(1, faulty.Faults{})
	s := settingsOf(t, transport.Config{Workers: 1, Peers: 2, InFlight: 4, MaxPayload: 600},
		map[string]string{"window": "8"})
	small := func(*rand.Rand) int { return 16 }
	a, b := n.member(t, s, 256, 1, small), n.member(t, s, 256, 1, small)
	join(t, a, b)
	n.run(t, second, a, b)
	for i := range 3 {
		_, err := a.w.Post([]transport.Op{{Kind: transport.OpCall, Token: transport.Token(100 + i),
			Payload: make([]byte, 300*i)}})
		require.NoError(t, err)
	}
	require.NoError(t, a.w.Flush())
	return &target{network: n, victim: a, peer: b, session: a.w.sessions[0]}
}

// number returns the session's number in packets to the victim.
func (x *target) number() uint16 { return x.victim.w.firstNumber + x.session.localNumber }

// deliver delivers packets to the victim, as if from a port.
func (x *target) deliver(from int, packets ...[]byte) (events []transport.Event) {
	p := x.victim.w.port.(*simulated)
	for _, b := range packets {
		p.arrived = append(p.arrived, b)
		p.from = append(p.from, from)
	}
	for range len(packets)/len(x.victim.events) + 1 {
		n, _ := x.victim.w.Poll(x.victim.events)
		events = append(events, x.victim.events[:n]...)
	}
	return events
}

// packet returns a packet with a valid checksum for a key.
func packet(h header, key uint32, body []byte) []byte {
	var head [headerSize]byte
	h.put(&head)
	putChecksum(key, &head, body)
	return append(head[:], body...)
}

// next returns the header of the request that the victim would accept next.
func (x *target) next(size int) header {
	s := &x.session.serverSlots[3]
	return header{request: s.request + 8, session: x.number(), kind: kindRequest,
		size: uint32(size)}
}

// TestHostilePackets: each hostile packet is counted by its defect, and none makes an event.
func TestHostilePackets(t *testing.T) {
	x := newTarget(t)
	w, key, body := x.victim.w, x.session.localKey, make([]byte, 32)
	peer, stranger := x.peer.w.port.(*simulated).number, x.network.port(256).number
	with := func(change func(*header)) header {
		h := x.next(32)
		change(&h)
		return h
	}
	for name, c := range map[string]struct {
		packet []byte
		from   int
		count  *uint64
	}{
		"empty":          {nil, peer, &w.counts.malformed},
		"short":          {make([]byte, headerSize-1), peer, &w.counts.malformed},
		"zeros":          {make([]byte, headerSize), peer, &w.counts.strangers},
		"wrong key":      {packet(x.next(32), key+1, body), peer, &w.counts.corrupt},
		"from elsewhere": {packet(x.next(32), key, body), stranger, &w.counts.forged},
		"unknown session": {packet(with(func(h *header) { h.session++ }), key, body),
			peer, &w.counts.strangers},
		"truncated":             {packet(x.next(32), key, body)[:40], peer, &w.counts.corrupt},
		"shorter than its size": {packet(x.next(33), key, body), peer, &w.counts.malformed},
		"longer than its size":  {packet(x.next(31), key, body), peer, &w.counts.corrupt},
		"oversized": {packet(x.next(601), key, make([]byte, 240)), peer,
			&w.counts.malformed},
		"unknown kind": {packet(with(func(h *header) { h.kind = 0 }), key, body), peer,
			&w.counts.malformed},
		"handshake kind": {packet(with(func(h *header) { h.kind = kindHello }), key,
			body), peer, &w.counts.malformed},
		"old request": {packet(with(func(h *header) { h.request -= 16 }), key, body),
			peer, &w.counts.stale},
		"request too far ahead": {packet(with(func(h *header) { h.request += 8 }), key, body),
			peer, &w.counts.stale},
		"middle of a request": {packet(with(func(h *header) { h.number, h.size = 1, 272 }),
			key, body), peer, &w.counts.outOfOrder},
		"RFR for nothing": {packet(with(func(h *header) { h.kind = kindRFR }), key, nil),
			peer, &w.counts.stale},
		"response to nothing": {packet(
			with(func(h *header) { h.kind = kindResponse; h.request = 4000 }), key, body), peer,
			&w.counts.duplicates},
		"handshake, wrong key": {packet(header{session: noSession, kind: kindHello}, key,
			body), peer, &w.counts.corrupt},
		"handshake from a stranger": {packet(header{session: noSession, kind: kindHello}, w.key,
			make([]byte, offerSize)), stranger, &w.counts.strangers},
		"handshake, nonsense": {packet(header{session: noSession, kind: kindPing}, w.key,
			x.hello()[headerSize:]), peer, &w.counts.malformed},
		"handshake from elsewhere": {x.hello(), stranger, &w.counts.forged},
		"bye from elsewhere": {packet(header{session: noSession, kind: kindBye}, w.key,
			x.hello()[headerSize:headerSize+8]), stranger, &w.counts.forged},
	} {
		before := *c.count
		require.Empty(t, x.deliver(c.from, c.packet), name)
		require.Equal(t, before+1, *c.count, name)
	}
	require.Equal(t, established, x.session.state)

	events := x.deliver(peer, packet(x.next(32), key, body))
	require.Len(t, events, 1, "the same packet without a defect")
	require.Equal(t, transport.EventRequest, events[0].Kind)
	require.Empty(t,
		x.deliver(peer, packet(header{request: uint32(events[0].Token), session: x.number(),
			kind: kindRequest, size: 32}, key, body)), "a repeated request")
}

// TestGuessedPackets: a sender that does not see the packets of a session, and forges the address
// of the peer, has to guess the number of the session, the key and the request, of which each bit
// is random.
func TestGuessedPackets(t *testing.T) {
	x := newTarget(t)
	peer, body := x.peer.w.port.(*simulated).number, make([]byte, 32)
	const window = 8
	for bit := range 32 {
		before := x.victim.w.counts.corrupt
		require.Empty(t, x.deliver(peer, packet(x.next(32), x.session.localKey^1<<bit, body)))
		require.Equal(t, before+1, x.victim.w.counts.corrupt, "bit %d of the key", bit)
		h := x.next(32)
		if h.request ^= 1 << bit; 1<<bit < window {
			continue // another slot's next request
		}
		require.Empty(t, x.deliver(peer, packet(h, x.session.localKey, body)),
			"bit %d of the request", bit)
		h = x.next(32)
		h.session ^= 1 << (bit % 16)
		require.Empty(t, x.deliver(peer, packet(h, x.session.localKey, body)),
			"bit %d of the session", bit)
	}
	var keys, requests, nonces, numbers [2]uint64 // the bits that were set and clear
	for range 60 {
		p := newTarget(t)
		for i, v := range []uint64{uint64(p.session.localKey),
			uint64(p.session.serverSlots[0].request), p.victim.w.nonce, uint64(p.number())} {
			seen := []*[2]uint64{&keys, &requests, &nonces, &numbers}[i]
			seen[0], seen[1] = seen[0]|v, seen[1]|^v
		}
	}
	require.EqualValues(t, 1<<16-1, uint16(numbers[0])&uint16(numbers[1]))
	require.EqualValues(t, 1<<32-1, uint32(keys[0])&uint32(keys[1]))
	require.EqualValues(t, 1<<32-window, uint32(requests[0])&uint32(requests[1]))
	require.EqualValues(t, uint64(1<<64-1), nonces[0]&nonces[1])
	require.Equal(t, established, x.session.state)
}

// TestReplayedPackets: recorded packets of the peer, delivered again with its address, make no
// event and end nothing: a hello, a request that was answered or not, and a response.
func TestReplayedPackets(t *testing.T) {
	n := newNetwork(1, faulty.Faults{})
	s := settingsOf(t, transport.Config{Workers: 1, Peers: 1, InFlight: 4, MaxPayload: 64}, nil)
	a, b := n.member(t, s, 256, 20, mixed(64)), n.member(t, s, 256, 20, mixed(64))
	n.recorded = &[]flight{}
	join(t, a, b)
	n.run(t, 10*second, a, b)
	replayed := map[kind]bool{}
	for _, f := range *n.recorded {
		to := n.ports[f.to]
		for _, m := range []*member{a, b} {
			if m.w.port != to {
				continue
			}
			to.arrived, to.from = append(to.arrived, slices.Clone(f.data)), append(to.from, f.from)
			k, err := m.w.Poll(m.events)
			require.NoError(t, err)
			require.Zero(t, k)
			require.Equal(t, established, m.w.sessions[0].state)
			replayed[parse(f.data).kind] = true
		}
	}
	for _, k := range []kind{kindHello, kindRequest, kindResponse} {
		require.True(t, replayed[k], "%d", k)
	}
}

// hello returns the hello that the victim's peer would send.
func (x *target) hello() []byte {
	o := x.peer.w.offer(x.peer.w.sessions[0])
	return packet(header{session: noSession, kind: kindHello, size: offerSize}, x.victim.w.key,
		o.encode())
}

// TestOtherOptions: a peer with different options is cut off and reported as lost.
func TestOtherOptions(t *testing.T) {
	n := newNetwork(1, faulty.Faults{})
	cfg := transport.Config{Workers: 1, Peers: 1, InFlight: 4, MaxPayload: 64}
	a := n.member(t, settingsOf(t, cfg, map[string]string{"window": "8"}), 256, 0, mixed(64))
	b := n.member(t, settingsOf(t, cfg, map[string]string{"window": "16"}), 256, 0, mixed(64))
	join(t, a, b)
	corrupt, lost := 0, 0
	for range 100 {
		for _, m := range []*member{a, b} {
			k, err := m.w.Poll(m.events)
			if err != nil {
				require.ErrorIs(t, err, transport.ErrCorrupt)
				corrupt++
			}
			for _, e := range m.events[:k] {
				require.Equal(t, transport.EventPeerLost, e.Kind)
				lost++
			}
		}
		n.pass(10_000)
	}
	require.NotZero(t, corrupt)
	require.Equal(t, 2, lost)
}

// flood is a port that always has packets to receive.
type flood struct{ datagram.Port }

func (flood) Flush() error { return nil }
func (flood) Receive(packets []datagram.Packet, _ datagram.Target) (int, error) {
	for i := range packets {
		packets[i] = datagram.Packet{Data: make([]byte, headerSize+beatSize)}
	}
	return len(packets), nil
}

// TestBeatEndsInAFlood: a beat ends however much arrives, because Connect and Close wait for it.
func TestBeatEndsInAFlood(t *testing.T) {
	h := &heartbeat{port: flood{}, packets: make([]datagram.Packet, heartbeatBatch)}
	h.beat()
}

// TestPongAmongStrangers: strangers that fill the buffer of the heartbeat's port keep no pong out.
func TestPongAmongStrangers(t *testing.T) {
	s := settingsOf(t, transport.Config{Workers: 1, Peers: 2}, nil)
	ports, err := openPorts(s)
	require.NoError(t, err)
	open := func() datagram.Port {
		p, err := ports.open(heartbeatPort)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		return p
	}
	own, peer, other := open(), open(), open()
	h := &heartbeat{port: own, packets: make([]datagram.Packet, heartbeatBatch), maxMissed: 100}
	watched, err := h.watch(&workerAddress{Heartbeat: peer.Address(), Nonce: 1}, 2, func() {})
	require.NoError(t, err)
	_, err = h.watch(&workerAddress{Heartbeat: other.Address(), Nonce: 3}, 2, func() {})
	require.NoError(t, err)
	watched.up.Store(true)
	watched.missed = 50

	stranger, err := net.Dial("udp", own.Notes()["address"])
	require.NoError(t, err)
	defer stranger.Close()
	for range 5000 {
		_, err := stranger.Write(make([]byte, headerSize+beatSize))
		require.NoError(t, err)
	}
	to, err := peer.Open(own.Address())
	require.NoError(t, err)
	(&heartbeat{port: peer}).send(&watch{remote: to}, kindPong, 1)
	require.NoError(t, peer.Flush())
	h.beat()
	require.Equal(t, 1, watched.missed, "the pong arrived, and one ping is on its way")
}

// countingPort counts the packets sent.
type countingPort struct {
	flood
	count int
}

func (a *countingPort) Send(datagram.Remote, []byte, []byte) bool {
	a.count++
	return true
}

// TestNoPongForClosedWorker: the heartbeat does not answer pings for a closed worker, even if
// another worker of its rank has the same peer.
func TestNoPongForClosedWorker(t *testing.T) {
	const open, closed = 11, 22
	port := &countingPort{}
	h := &heartbeat{port: port, watches: []*watch{{nonce: 1, local: open}}}
	ping := func(nonce uint64, from datagram.Source) int {
		var body [beatSize]byte
		binary.LittleEndian.PutUint64(body[:], nonce)
		before := port.count
		h.receive(
			&datagram.Packet{Data: packet(header{session: noSession, kind: kindPing,
				size: beatSize}, handshakeKey(nonce), body[:]), Source: from})
		return port.count - before
	}
	require.Equal(t, 1, ping(open, datagram.Source{}))
	require.Zero(t, ping(closed, datagram.Source{}))
	require.Zero(t, ping(open, datagram.Source{Port: 7}), "a ping from a stranger")
}

// FuzzPackets: no packet crashes a worker, makes an event out of bounds or moves the credits out of
// theirs, not even one from the session's own peer with a valid checksum. Other packets make no
// event.
func FuzzPackets(f *testing.F) {
	f.Add([]byte{3, 40, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Add([]byte{0, 0, 1, 5, 2, 255, 3, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0, 16, 0, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		x := newTarget(t)
		w, p := x.victim.w, x.session
		peer, stranger := x.peer.w.port.(*simulated).number, x.network.port(256).number
		for len(script) >= 2 {
			how, size := script[0], int(script[1])
			script = script[2:]
			b := append([]byte(nil), script[:min(size, len(script))]...)
			script = script[len(b):]
			from, key := peer, p.localKey
			if how&1 != 0 {
				from = stranger
			}
			if how&8 != 0 {
				key = w.key
			}
			valid := how&2 == 0 && len(b) >= headerSize
			if valid {
				h := parse(b)
				if h.session = x.number(); how&8 != 0 {
					h.session = noSession
				}
				if how&4 != 0 { // close to an acceptable packet
					h.request = p.serverSlots[h.request%8].request + uint32(how>>4)&8
					h.number, h.size = h.number%8, h.size%640
				}
				b = packet(h, key, b[headerSize:])
			}
			for _, e := range x.deliver(from, b) {
				require.True(t, valid && from == peer, "an outsider caused an event")
				require.LessOrEqual(t, e.Size, 600)
				require.Len(t, e.Payload, e.Size)
				if e.Kind == transport.EventRequest && how&16 != 0 {
					_, _ = w.Post([]transport.Op{{Kind: transport.OpReply, Peer: e.Peer,
						Token: e.Token, Payload: make([]byte, 500)}})
				}
			}
			require.GreaterOrEqual(t, p.credits, 0)
			require.LessOrEqual(t, p.credits, p.maxCredits)
			x.network.now += 1_000_000
		}
	})
}
