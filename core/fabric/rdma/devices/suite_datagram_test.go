package devices_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/rdma"
)

var datagramTests = []test{
	{"ud/send", udSend},
	{"ud/immediate", udImmediate},
	{"ud/inline", udInline},
	{"ud/many-senders", udManySenders},
	{"ud/no-receive", udNoReceive},
	{"ud/wrong-qkey", udWrongQKey},
	{"ud/refuses", udRefuses},
}

const grh = rdma.GlobalRouteHeaderSize

// datagram returns a SEND to a peer.
func (x *side) datagram(p rdma.PeerHandle, id uint64, offset, length int) rdma.SendRequest {
	r := x.request(rdma.Send, id, offset, length)
	r.Peer = p
	return r
}

func (x *side) peer(y *side) rdma.PeerHandle {
	p, err := x.qp.AddPeer(y.qp.Endpoint())
	require.NoError(x.t, err)
	return p
}

func udSend(t *testing.T, s *suite) {
	for _, shared := range []bool{false, true} {
		a, b := s.pair(t, setup{kind: rdma.UnreliableDatagram, shared: shared})
		p := a.peer(b)
		mtu := a.device.Attributes().MTU
		for i, n := range []int{0, 1, 48, 49, 64, 255, 256, 1000, mtu - 1, mtu} {
			if n > mtu {
				continue
			}
			b.receive(1, 0, grh+mtu)
			fill(a.bytes(0, n), i)
			a.post(a.datagram(p, uint64(i), 0, n))
			a.succeed(b, uint64(i), rdma.Send)
			c := b.succeed(a, 1000, rdma.Receive)
			require.EqualValues(t, grh+n, c.Length, "length with the GRH")
			require.Equal(t, a.qp.Endpoint().Number, c.Source, "number of the sender's queue pair")
			require.Zero(t, c.HasImmediate)
			require.Equal(t, pattern(i, n), b.bytes(grh, n), "payload after the GRH")
		}
		quiet(a, b)
	}
}

func udImmediate(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{kind: rdma.UnreliableDatagram})
	p := a.peer(b)
	b.receive(1, 0, 256)
	r := a.datagram(p, 1, 0, 20)
	r.Opcode, r.Immediate = rdma.SendWithImmediate, 0xfedcba98
	a.post(r)
	c := b.succeed(a, 1000, rdma.Receive)
	require.EqualValues(t, 1, c.HasImmediate)
	require.Equal(t, r.Immediate, c.Immediate)
}

func udInline(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{kind: rdma.UnreliableDatagram})
	p := a.peer(b)
	for i := range 50 {
		b.receive(1, 0, 256)
		fill(a.bytes(0, inlineSize), i)
		r := a.datagram(p, uint64(i), 0, inlineSize)
		r.Flags |= rdma.Inline
		r.LocalKey = 0
		a.post(r)
		fill(a.bytes(0, inlineSize), i+1)
		b.succeed(a, 1000, rdma.Receive)
		require.Equal(t, pattern(i, inlineSize), b.bytes(grh, inlineSize))
		a.succeed(b, uint64(i), rdma.Send)
	}
}

// udManySenders has one receiver that answers each sender.
func udManySenders(t *testing.T, s *suite) {
	c := setup{kind: rdma.UnreliableDatagram, memory: 256 << 10}.complete(s)
	server := s.side(t, c)
	const senders = 5
	byNumber := map[uint32]rdma.PeerHandle{}
	var others []*side
	for range senders {
		x := s.side(t, c)
		byNumber[x.qp.Endpoint().Number] = server.peer(x)
		others = append(others, x)
	}
	for round := range 20 {
		server.receive(senders, 0, 128)
		for i, x := range others {
			if round == 0 {
				require.Zero(t, x.peer(server), "the first peer's handle")
			}
			x.receive(1, 0, 128)
			fill(x.bytes(1024, 32), i)
			r := x.datagram(0, 1, 1024, 32)
			r.Opcode, r.Immediate = rdma.SendWithImmediate, uint32(i)
			x.post(r)
			x.succeed(server, 1, rdma.SendWithImmediate)
		}
		for range senders {
			c := server.next(others[0])
			require.Equal(t, rdma.Receive, c.Opcode)
			at := int(c.ID-1000) * 128
			require.Equal(t, pattern(int(c.Immediate), 32), server.bytes(at+grh, 32),
				"datagram of sender %d", c.Immediate)
			r := server.datagram(byNumber[c.Source], 2, at+grh, 32)
			r.Flags = 0
			if int(c.Immediate) == senders-1 || round%8 == 7 {
				r.Flags = rdma.Signaled
			}
			server.post(r)
			if r.Flags != 0 {
				until("the answer to be sent", func() bool {
					for i, c := range server.queue {
						if c.Opcode == rdma.Send {
							server.queue = append(server.queue[:i], server.queue[i+1:]...)
							return true
						}
					}
					return false
				}, server)
			}
		}
		for i, x := range others {
			x.succeed(server, 1000, rdma.Receive)
			require.Equal(t, pattern(i, 32), x.bytes(grh, 32), "the answer to sender %d", i)
		}
	}
}

// udNoReceive checks that a datagram without a receive is dropped and the next one arrives.
func udNoReceive(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{kind: rdma.UnreliableDatagram})
	p := a.peer(b)
	a.post(a.datagram(p, 1, 0, 16))
	a.succeed(b, 1, rdma.Send)
	quiet(a, b)
	b.receive(1, 0, 128)
	fill(a.bytes(0, 16), 9)
	a.post(a.datagram(p, 2, 0, 16))
	a.succeed(b, 2, rdma.Send)
	b.succeed(a, 1000, rdma.Receive)
	require.Equal(t, pattern(9, 16), b.bytes(grh, 16), "payload of the second datagram")
}

func udWrongQKey(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{kind: rdma.UnreliableDatagram})
	forged := b.qp.Endpoint()
	forged.QKey++
	wrong, err := a.qp.AddPeer(forged)
	require.NoError(t, err)
	right := a.peer(b)
	b.receive(2, 0, 128)
	a.post(a.datagram(wrong, 1, 0, 16))
	a.succeed(b, 1, rdma.Send)
	quiet(a, b)
	a.post(a.datagram(right, 2, 0, 16))
	a.succeed(b, 2, rdma.Send)
	b.succeed(a, 1000, rdma.Receive)
}

func udRefuses(t *testing.T, s *suite) {
	a, b := s.pair(t, setup{kind: rdma.UnreliableDatagram})
	p := a.peer(b)
	mtu := a.device.Attributes().MTU
	large := a.datagram(p, 1, 0, mtu+1)
	stranger := a.datagram(p+1, 1, 0, 16)
	oneSided := toward(a.datagram(p, 1, 0, 16), b, 0)
	oneSided.Opcode = rdma.Write
	for name, r := range map[string]rdma.SendRequest{"large": large, "stranger": stranger,
		"write": oneSided} {
		n, err := a.qp.PostSend([]rdma.SendRequest{r})
		require.ErrorIs(t, err, rdma.ErrInvalid, name)
		require.Zero(t, n)
	}
	require.ErrorIs(t, a.qp.Connect(b.qp.Endpoint(), s.Connect), rdma.ErrInvalid)
	b.receive(1, 0, 128)
	a.post(a.datagram(p, 2, 0, 16))
	b.succeed(a, 1000, rdma.Receive)
}
