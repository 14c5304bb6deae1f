package erpc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// check checks an answer as the client does, by its kind.
func (x *rpc) check(h *header, dataSize, next, sent, maxData, maxPayload int) verdict {
	if h.kind == kindCredit {
		return x.checkCredit(h, dataSize, next, sent)
	}
	return x.checkResponse(h, dataSize, next, sent, maxData, maxPayload)
}

// TestRPC drives both sides of an RPC through all packets.
func TestRPC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxData := rapid.IntRange(1, 100).Draw(t, "maxData")
		request := rapid.IntRange(0, 1000).Draw(t, "request")
		response := rapid.IntRange(0, 1000).Draw(t, "response")
		client := rpc{requestSize: request, requestPackets: packetsOf(request, maxData)}
		var server rpc
		sent, arrived, returned := 0, 0, 0
		for client.responsePackets == 0 || sent < client.packets() {
			number, size := sent, 0
			sent++
			if number < client.requestPackets {
				from, to := fragment(number, request, maxData)
				size = to - from
				h := header{kind: kindRequest, number: uint32(number), size: uint32(request)}
				if number == 0 {
					require.True(t, server.begin(&h, size, maxData, 1000))
				}
				require.Equal(t, inOrder, server.checkRequest(&h, size, number, maxData))
				if number > 0 {
					require.Equal(t, duplicate, server.checkRequest(&h, size, number+1, maxData))
					require.Equal(t, outOfOrder, server.checkRequest(&h, size, number-1, maxData))
				}
				arrived += size
			} else {
				h := header{kind: kindRFR, number: uint32(number)}
				require.Equal(t, inOrder, server.checkRFR(&h, 0, number))
				require.Equal(t, malformed, server.checkRFR(&h, 1, number))
			}
			if arrived == request && number >= server.requestPackets-1 &&
				server.responsePackets == 0 {
				server.responseSize, server.responsePackets = response, packetsOf(response, maxData)
			}
			h := header{kind: kindCredit, number: uint32(number)}
			size = 0
			if i := number - (server.requestPackets - 1); i >= 0 {
				from, to := fragment(i, response, maxData)
				h.kind, h.size, size = kindResponse, uint32(response), to-from
			}
			returned += size
			require.Equal(t, malformed, client.check(&h, size+1, number, sent, maxData, 1000))
			require.Equal(t, outOfOrder, client.check(&h, size, number, number, maxData, 1000),
				"an answer to a packet that was not sent")
			require.Equal(t, inOrder, client.check(&h, size, number, sent, maxData, 1000))
			require.Equal(t, duplicate, client.check(&h, size, number+1, sent, maxData, 1000))
		}
		require.Equal(t, client.requestPackets+client.responsePackets-1, sent)
		require.Equal(t, []int{request, response}, []int{arrived, returned})
	})
}

// FuzzExchange: the data of every packet that a check accepts fits into its message.
func FuzzExchange(f *testing.F) {
	f.Add(uint32(0), uint32(5), uint8(kindRequest), 5, 0, 1, 16, 100, 40)
	f.Add(uint32(3), uint32(90), uint8(kindResponse), 10, 3, 4, 16, 100, 40)
	f.Fuzz(func(t *testing.T, number, size uint32, k uint8, data, received, sent, maxData,
		maxPayload, request int) {
		number &= 1<<numberBits - 1
		size &= maxMessage
		if maxData < 1 || maxData > 1<<16 || maxPayload < 0 || maxPayload > maxMessage ||
			request < 0 || request > maxPayload ||
			data < 0 || data > maxData || received < 0 || sent < 0 {
			return
		}
		h := header{kind: kind(k), number: number, size: size}
		var server rpc
		if server.begin(&h, data, maxData, maxPayload) {
			require.LessOrEqual(t, server.requestSize, maxPayload)
			require.LessOrEqual(t, data, server.requestSize)
		}
		server = rpc{requestSize: request, requestPackets: packetsOf(request, maxData)}
		if server.checkRequest(&h, data, received, maxData) == inOrder {
			require.LessOrEqual(t, received*maxData+data, request)
		}
		client := server
		if k != uint8(kindCredit) && k != uint8(kindResponse) {
			return
		}
		if client.check(&h, data, received, sent, maxData, maxPayload) == inOrder &&
			h.kind == kindResponse {
			i := received - (client.requestPackets - 1)
			require.GreaterOrEqual(t, i, 0)
			require.LessOrEqual(t, client.responseSize, maxPayload)
			require.LessOrEqual(t, i*maxData+data, client.responseSize)
		}
	})
}
