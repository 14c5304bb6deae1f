package devices_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/rdma"
)

var dynamicTests = []test{{"dc/messages", dcMessages}}

// refusesDC are the reasons for which a device has no DC queue pairs.
var refusesDC = regexp.MustCompile(`the soft device has no|need libmlx5|is not one of mlx5`)

// dcMessages sends from one DC queue pair to two others, or checks that the device says why it has
// none.
func dcMessages(t *testing.T, s *suite) {
	c := setup{shared: true}.complete(s)
	a, b, d := s.side(t, c), s.side(t, c), s.side(t, c)
	config := rdma.QueuePairConfig{Type: rdma.DynamicallyConnected, SendDepth: depth,
		MaxInline: inlineSize, Cookie: 7, QKey: qkey}
	for _, x := range []*side{a, b, d} {
		config.Completions, config.Shared = x.cq, nil
		_, err := x.device.NewQueuePair(config)
		require.ErrorIs(t, err, rdma.ErrInvalid, "without a shared receive queue")
		config.Shared = x.srq
		qp, err := x.device.NewQueuePair(config)
		if err != nil {
			require.ErrorIs(t, err, rdma.ErrInvalid)
			require.Regexp(t, refusesDC, err.Error())
			return
		}
		x.qp = qp
	}
	require.ErrorIs(t, a.qp.Connect(b.qp.Endpoint(), s.Connect), rdma.ErrInvalid)
	for i, x := range []*side{b, d} {
		peer, err := a.qp.AddPeer(x.qp.Endpoint())
		require.NoError(t, err)
		require.EqualValues(t, i, peer)
		x.receive(2, 4096, 64)
		for id, opcode := range []rdma.Opcode{rdma.Write, rdma.WriteWithImmediate, rdma.Send,
			rdma.Read} {
			fill(a.bytes(0, 32), 10*i+id)
			r := toward(a.request(opcode, uint64(id), 0, 32), x, 100)
			r.Peer, r.Immediate = peer, 99
			if opcode != rdma.Read {
				r.Flags |= rdma.Inline
			}
			a.post(r)
			a.succeed(x, uint64(id), opcode)
			switch opcode {
			case rdma.Write:
				require.Equal(t, pattern(10*i+id, 32), x.bytes(100, 32))
			case rdma.WriteWithImmediate:
				require.EqualValues(t, 99, x.succeed(a, 1000, rdma.ReceiveWriteImmediate).Immediate)
			case rdma.Send:
				x.succeed(a, 1001, rdma.Receive)
				require.Equal(t, pattern(10*i+id, 32), x.bytes(4096+64, 32))
			case rdma.Read:
				require.Equal(t, pattern(10*i+1, 32), a.bytes(0, 32),
					"what the WRITE WITH IMMEDIATE left")
			}
		}
	}
	quiet(a, b)
}
