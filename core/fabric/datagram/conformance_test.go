package datagram_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core/fabric/datagram"
	"transportbench/core/fabric/datagram/datagramtest"
	"transportbench/core/fabric/rdma"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func udp(o datagram.UDPOptions) func() (datagram.Port, error) {
	if !o.Address.IsValid() {
		o.Address = netip.MustParseAddrPort("127.0.0.1:0")
	}
	return func() (datagram.Port, error) { return datagram.OpenUDP(o) }
}

// onDevice is a verbs port that owns its device.
type onDevice struct {
	*datagram.Verbs
	device rdma.Device
}

func (p onDevice) Close() error { return errors.Join(p.Verbs.Close(), p.device.Close()) }

func verbs(device rdma.Options, o datagram.VerbsOptions) func() (datagram.Port, error) {
	return func() (datagram.Port, error) {
		d, err := rdma.Open(device)
		if err != nil {
			return nil, err
		}
		p, err := datagram.OpenVerbs(d, o)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		return onDevice{p, d}, nil
	}
}

func faulty(open func() (datagram.Port, error), send, receive datagram.Faults) func() (datagram.Port, error) {
	return func() (datagram.Port, error) {
		p, err := open()
		if err != nil {
			return nil, err
		}
		return datagram.NewFaulty(p, send, receive)
	}
}

// needIPv6 skips a test if the machine has no IPv6.
func needIPv6(t *testing.T) {
	c, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	require.NoError(t, c.Close())
}

func TestUDPConformance(t *testing.T) {
	for name, o := range map[string]datagram.UDPOptions{
		"default":         {},
		"ipv6":            {Address: netip.MustParseAddrPort("[::1]:0")},
		"ethernet":        {MTU: datagram.UDPEthernetMTU, Offload: datagram.OffloadOn},
		"without-offload": {MTU: 4096, Offload: datagram.OffloadOff},
		"small":           {MTU: 256, Batch: 3, SendBuffer: 4096, ReceiveBuffer: 4096},
		"largest":         {MTU: datagram.UDPMaxMTU, Batch: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "ipv6" {
				needIPv6(t)
			}
			datagramtest.Run(t, datagramtest.Suite{Open: udp(o)})
		})
	}
}

func TestSoftConformance(t *testing.T) {
	for name, o := range map[string]datagram.VerbsOptions{
		"default":  {},
		"smallest": {MTU: 256, Batch: 1, SendDepth: 2, ReceiveDepth: 3, SignalInterval: 1, Inline: -1},
		"inline":   {MTU: 1024, Batch: 16, SendDepth: 128, ReceiveDepth: 64, SignalInterval: 64, Inline: 200},
	} {
		t.Run(name, func(t *testing.T) {
			datagramtest.Run(t, datagramtest.Suite{Open: verbs(rdma.Options{Provider: rdma.Soft}, o)})
		})
	}
}

func TestFaultyConformance(t *testing.T) {
	bad := datagram.Faults{Drop: 0.1, Duplicate: 0.2, Reorder: 0.2, Delay: 0.1}
	for name, open := range map[string]func() (datagram.Port, error){
		"udp":  udp(datagram.UDPOptions{MTU: 1472}),
		"soft": verbs(rdma.Options{Provider: rdma.Soft}, datagram.VerbsOptions{}),
	} {
		t.Run(name+"-unharmed", func(t *testing.T) {
			datagramtest.Run(t, datagramtest.Suite{Open: faulty(open, datagram.Faults{}, datagram.Faults{})})
		})
		t.Run(name+"-bad", func(t *testing.T) {
			datagramtest.Run(t, datagramtest.Suite{Open: faulty(open, bad, bad), Lossy: true})
		})
	}
}
