package soft

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/rdma"
)

// TestSharedLine sends short messages both ways, in turns and at random, for more laps than the
// generation of a slot can count. Each message must arrive once, in order, with its payload.
func TestSharedLine(t *testing.T) {
	a, b, _ := hostilePair(t, rdma.ReliableConnected)
	pairs := [2]*queuePair{a, b}
	var sent, received [2]uint32
	var regions [2]*rdma.Region
	for i, q := range pairs {
		var err error
		regions[i], err = q.device.Allocate(4096, rdma.RemoteWrite)
		require.NoError(t, err)
	}
	shared := 0
	send := func(i int, length uint32) {
		from, to := regions[i], regions[1-i]
		binary.LittleEndian.PutUint32(from.Bytes, sent[i])
		request := rdma.SendRequest{Opcode: rdma.WriteWithImmediate, Flags: rdma.Inline,
			Local: from.Address, Length: length, Remote: to.Remote.Address + 2048,
			RemoteKey: to.Remote.Key, Immediate: sent[i] & 0x7fff}
		if sent[i]%4 == 3 {
			request.Flags |= rdma.Signaled
		}
		owned := pairs[i].shared.owned
		n, err := pairs[i].PostSend([]rdma.SendRequest{request})
		if n == 0 {
			require.ErrorIs(t, err, rdma.ErrQueueFull)
			return
		}
		sent[i]++
		if owned != pairs[i].shared.owned {
			shared++
		}
	}
	completions := make([]rdma.Completion, 8)
	poll := func(i int) {
		// One at a time: the next message overwrites the payload.
		n, err := pairs[i].cq.Poll(completions[:1])
		require.NoError(t, err)
		for _, c := range completions[:n] {
			require.Equal(t, rdma.StatusOK, c.Status)
			if c.Opcode != rdma.ReceiveWriteImmediate {
				continue
			}
			require.Equal(t, received[i]&0x7fff, c.Immediate)
			require.Equal(t, received[i], binary.LittleEndian.Uint32(regions[i].Bytes[2048:]))
			received[i]++
			n, err := pairs[i].PostReceive(make([]rdma.ReceiveRequest, 1))
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
	}
	for range 4000 { // in turns: hardly a message goes through a slot
		for i := range pairs {
			send(i, 56)
			poll(1 - i)
			poll(1 - i)
		}
	}
	require.Greater(t, shared, 5000)
	for range 20000 {
		if i := rand.IntN(2); rand.IntN(2) == 0 {
			send(i, 4+rand.Uint32N(60))
		} else {
			poll(i)
		}
	}
	for range 64 {
		poll(0)
		poll(1)
	}
	require.Equal(t, [2]uint32{received[1], received[0]}, sent)
}
