package devices_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
)

func TestSoftConformance(t *testing.T) {
	runSuite(t, suite{Open: openSoft})
}

func openSoft() (rdma.Device, error) { return devices.Open(rdma.Options{Provider: rdma.Soft}) }

// TestInPlace writes into mapped memory of the peer, behind a message that the peer has not taken
// yet. Withdrawing the key makes the next request fail.
func TestInPlace(t *testing.T) {
	s := &suite{Open: openSoft, Timeout: 30 * time.Second}
	a, b := s.pair(t, setup{access: rdma.RemoteWrite})
	b.receive(2, 0, 0)
	to := b.memory.Remote
	mapper, ok := a.qp.(rdma.RemoteMapper)
	require.True(t, ok)
	require.Nil(t, mapper.MapRemote(to.Address, to.Key^0xff, 1), "another key")
	require.Nil(t, mapper.MapRemote(to.Address+1, to.Key, uint32(to.Length)), "beyond the region")
	memory := mapper.MapRemote(to.Address, to.Key, uint32(to.Length))
	require.Len(t, memory, int(to.Length))

	fill(a.bytes(0, 16), 1)
	request := toward(a.request(rdma.WriteWithImmediate, 1, 0, 16), b, 0)
	a.post(request)
	fill(memory[5000:10000], 2)
	request = rdma.SendRequest{ID: 2, Opcode: rdma.WriteWithImmediate,
		Flags: rdma.Signaled | rdma.InPlace, Length: 5000, Immediate: 7}
	request = toward(request, b, 5000)
	a.post(request)
	b.succeed(a, 1000, rdma.ReceiveWriteImmediate)
	require.Equal(t, pattern(1, 16), b.bytes(0, 16))
	c := b.succeed(a, 1001, rdma.ReceiveWriteImmediate)
	require.EqualValues(t, 7, c.Immediate)
	require.EqualValues(t, 5000, c.Length)
	require.Equal(t, pattern(2, 5000), b.bytes(5000, 5000))
	a.succeed(b, 1, rdma.WriteWithImmediate)
	a.succeed(b, 2, rdma.WriteWithImmediate)

	require.NoError(t, b.memory.Close())
	a.post(request)
	require.Equal(t, rdma.StatusRemoteAccess, a.next(b).Status)
}

// TestMapReadOnly checks that memory without the right to write is not mapped.
func TestMapReadOnly(t *testing.T) {
	s := &suite{Open: openSoft}
	a, b := s.pair(t, setup{access: rdma.RemoteRead})
	to := b.memory.Remote
	require.Nil(t, a.qp.(rdma.RemoteMapper).MapRemote(to.Address, to.Key, 1))
}
