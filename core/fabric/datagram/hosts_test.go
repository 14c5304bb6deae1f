package datagram_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/datagram"
	"transportbench/core/fabric/fabrictest/hosts"
)

// TestUDPBetweenHosts runs the conformance suite with every second port on another host.
func TestUDPBetweenHosts(t *testing.T) {
	for name, c := range map[string]struct {
		wire    hosts.Wire
		ipv6    bool
		options datagram.UDPOptions
	}{
		"ethernet":      {},
		"ethernet-ipv6": {ipv6: true},
		"limited":       {wire: hosts.Wire{Rate: 100 << 20}},
		"without-offload": {wire: hosts.Wire{MTU: 9000},
			options: datagram.UDPOptions{Offload: datagram.OffloadOff}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.ipv6 {
				needIPv6(t)
			}
			a, b := hosts.Pair(t, c.wire)
			opened := 0
			runSuite(t, suite{Open: func() (p datagram.Port, err error) {
				h := []*hosts.Host{a, b}[opened%2]
				opened++
				o := c.options
				o.Address = netip.AddrPortFrom(h.Address, 0)
				if c.ipv6 {
					o.Address = netip.AddrPortFrom(h.Address6, 0)
				}
				return onHost{host: h}.open(o)
			}})
		})
	}
}

// onHost is a port whose control path runs on its host.
type onHost struct {
	*datagram.UDP
	host *hosts.Host
}

func (p onHost) open(o datagram.UDPOptions) (datagram.Port, error) {
	err := p.host.Do(func() (err error) { p.UDP, err = datagram.OpenUDP(o); return err })
	return p, err
}

func (p onHost) Open(address []byte) (r datagram.Remote, err error) {
	err = p.host.Do(func() (err error) { r, err = p.UDP.Open(address); return err })
	return r, err
}

// TestUDPPathTooSmall: Open refuses a path whose MTU is too small.
func TestUDPPathTooSmall(t *testing.T) {
	a, b := hosts.Pair(t, hosts.Wire{MTU: 1400})
	var x [2]datagram.Port
	for i, h := range []*hosts.Host{a, b} {
		p, err := onHost{host: h}.open(datagram.UDPOptions{
			Address: netip.AddrPortFrom(h.Address, 0), MTU: 1373})
		require.NoError(t, err)
		defer p.Close()
		x[i] = p
	}
	_, err := x[0].Open(x[1].Address())
	require.ErrorContains(t, err, "carries datagrams of at most 1372 bytes: set mtu to that")
}

// TestUDPSendsTheRestLater: datagrams that a flush kept because the socket's buffer was full leave
// while the port only receives.
func TestUDPSendsTheRestLater(t *testing.T) {
	a, b := hosts.Pair(t, hosts.Wire{Rate: 4 << 20})
	var x [2]datagram.Port
	for i, h := range []*hosts.Host{a, b} {
		p, err := onHost{host: h}.open(datagram.UDPOptions{
			Address: netip.AddrPortFrom(h.Address, 0), SendBuffer: 8 << 10,
			Offload: datagram.OffloadOff})
		require.NoError(t, err)
		defer p.Close()
		x[i] = p
	}
	to, err := x[0].Open(x[1].Address())
	require.NoError(t, err)
	_, err = x[1].Open(x[0].Address())
	require.NoError(t, err)
	sent := 0
	for counted(x[0], "send_buffer_full") == 0 { // the wire carries a burst at first
		require.Less(t, sent, 10_000, "the socket's buffer never filled up")
		for range 16 {
			if x[0].Send(to, make([]byte, 1400), nil) {
				sent++
			}
		}
		require.NoError(t, x[0].Flush())
	}
	// Nothing arrives at this port, so only room in the buffer ends Wait.
	packets, waits := make([]datagram.Packet, 64), 0
	for deadline := time.Now().Add(30 * time.Second); counted(x[0], "datagrams_sent") <
		sent; waits++ {
		waiter, _ := x[0].(datagram.Waiter)
		require.NoError(t, waiter.Wait(time.Until(deadline)))
		_, err := x[0].Receive(packets, datagram.Target{})
		require.NoError(t, err)
		require.True(t, time.Now().Before(deadline), "timed out waiting for the rest to be sent")
	}
	require.Less(t, waits, sent, "Wait returned too often")
	require.Equal(t, 1, counted(x[0], "send_buffer_full"))
	arrived := 0
	require.Eventually(t, func() bool {
		n, err := x[1].Receive(packets, datagram.Target{})
		require.NoError(t, err)
		arrived += n
		return arrived == sent
	}, 30*time.Second, 100*time.Microsecond, "datagrams did not arrive")
}
