//go:build ibverbs

package carrier

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/fabric/rdma"
	rdmadevices "transportbench/core/fabric/rdma/devices"
	"transportbench/core/transport"
)

// make test-rdma sets these in its guest: a device of Soft-RoCE, one that it reaches over a wire,
// and one over an interface that is on a PCIe bus.
const (
	deviceVariable = "RDMA_TEST_DEVICE"
	peerVariable   = "RDMA_TEST_PEER"
	busVariable    = "RDMA_TEST_BUS"
)

// verbsSide is an end of a connection.
type verbsSide struct {
	rdma.Device
	cq     rdma.CompletionQueue
	qp     rdma.QueuePair
	region *rdma.Region
}

func openVerbs(t *testing.T, name string, size int) (s verbsSide) {
	t.Helper()
	var err error
	s.Device, err = rdmadevices.Open(rdma.Options{Provider: rdma.Verbs, Device: name,
		GIDIndex: rdma.AnyGID})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Device.Close()) })
	s.cq, err = s.NewCompletionQueue(16)
	require.NoError(t, err)
	s.qp, err = s.NewQueuePair(rdma.QueuePairConfig{Type: rdma.ReliableConnected, Completions: s.cq,
		SendDepth: 8, ReceiveDepth: 1})
	require.NoError(t, err)
	s.region, err = s.Allocate(size, rdma.RemoteWrite)
	require.NoError(t, err)
	return s
}

// TestVerbsPort checks what sysfs says of a port of Soft-RoCE, and that both ports and the
// interfaces below them count what went over the wire.
func TestVerbsPort(t *testing.T) {
	device, peer := os.Getenv(deviceVariable), os.Getenv(peerVariable)
	if peer == "" {
		t.Skip("needs two devices with a wire between them; run make test-rdma without DEVICE")
	}
	const size, writes = 64 << 10, 20
	a, b := openVerbs(t, device, size), openVerbs(t, peer, size)
	patient := rdma.ConnectOptions{Timeout: 17}
	require.NoError(t, a.qp.Connect(b.qp.Endpoint(), patient))
	require.NoError(t, b.qp.Connect(a.qp.Endpoint(), patient))

	path := Describe([]transport.Path{a.Attributes().Path()})[0]
	t.Logf("%+v", path)
	require.Equal(t, device, path.Device)
	require.NotEmpty(t, path.Interface)
	for name, want := range map[string]string{
		"gid_type": "RoCE v2", "link_layer": "Ethernet", "port_state": "ACTIVE",
		record.FactLinkRate: "Gb/sec", "gid": "0000:ffff:0a4d:0001",
		"port_mtu": "096",
	} {
		require.Contains(t, path.Facts[name], want, name)
	}
	require.NotContains(t, path.Facts, record.FactBus, "a pair of veth interfaces is on no bus")

	watch := NewWatch()
	for range writes {
		n, err := a.qp.PostSend([]rdma.SendRequest{{Opcode: rdma.Write, Flags: rdma.Signaled,
			Local: a.region.Address, Length: size,
			LocalKey: a.region.LocalKey, Remote: b.region.Remote.Address,
			RemoteKey: b.region.Remote.Key}})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		var completions [1]rdma.Completion
		require.Eventually(t, func() bool {
			n, err := a.cq.Poll(completions[:])
			return err == nil && n == 1
		}, time.Minute, 100*time.Microsecond)
		require.Equal(t, rdma.StatusOK, completions[0].Status)
	}
	carried := watch.Carried()
	packets := uint64(writes * size / a.Attributes().MTU)
	from, to := find(carried, record.KindPort, device+"/1"),
		find(carried, record.KindPort, peer+"/1")
	require.GreaterOrEqual(t, from.SentPackets, packets, "what the port sent")
	require.GreaterOrEqual(t, to.ReceivedPackets, packets, "what the peer's port received")
	require.Less(t, to.SentPackets, packets, "the peer's port only acknowledges")
	below := find(carried, record.KindInterface, path.Interface)
	require.GreaterOrEqual(t, below.Sent, uint64(writes*size),
		"what the interface below the port sent")
}

// TestVerbsBus checks the address and the link of the PCIe device below a port.
func TestVerbsBus(t *testing.T) {
	device := os.Getenv(busVariable)
	if device == "" {
		t.Skip("needs Soft-RoCE over an interface that is on a PCIe bus; run make test-rdma " +
			"without DEVICE")
	}
	path := Describe([]transport.Path{{Carrier: transport.MediumVerbs, Device: device, Port: 1,
		Facts: map[string]string{transport.FactGIDIndex: "0"}}})[0]
	t.Logf("%+v", path)
	require.NotEmpty(t, path.Interface)
	require.Regexp(t, `^0000:[0-9a-f]{2}:[0-9a-f]{2}\.0$`, path.Facts[record.FactBus])
	require.Regexp(t, `^[0-9.]+ GT/s PCIe x[0-9]+$`, path.Facts["pcie_link"])
	require.Equal(t, "1", path.Facts[record.FactNUMA])
}
