package datagram_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/datagram"
	"transportbench/core/datagram/datagramtest"
	"transportbench/core/datagram/datagramtest/hosts"
)

// TestUDPBetweenHosts runs the conformance suite with every second port on another
// host.
func TestUDPBetweenHosts(t *testing.T) {
	for name, c := range map[string]struct {
		wire    hosts.Wire
		ipv6    bool
		options datagram.UDPOptions
	}{
		"ethernet":        {},
		"ethernet-ipv6":   {ipv6: true},
		"limited":         {wire: hosts.Wire{Rate: 100 << 20}},
		"without-offload": {wire: hosts.Wire{MTU: 9000}, options: datagram.UDPOptions{Offload: datagram.OffloadOff}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.ipv6 {
				needIPv6(t)
			}
			a, b := hosts.Pair(t, c.wire)
			turn := 0
			datagramtest.Run(t, datagramtest.Suite{Open: func() (p datagram.Port, err error) {
				h := []*hosts.Host{a, b}[turn%2]
				turn++
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

// onHost is a port whose control calls are made where it is.
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

// TestUDPPathTooSmall: a datagram that the way to a peer does not take is not found
// out by silence.
func TestUDPPathTooSmall(t *testing.T) {
	a, b := hosts.Pair(t, hosts.Wire{MTU: 1400})
	var x [2]datagram.Port
	for i, h := range []*hosts.Host{a, b} {
		p, err := onHost{host: h}.open(datagram.UDPOptions{Address: netip.AddrPortFrom(h.Address, 0), MTU: 1373})
		require.NoError(t, err)
		defer p.Close()
		x[i] = p
	}
	_, err := x[0].Open(x[1].Address())
	require.ErrorContains(t, err, "takes datagrams of 1372 bytes at most: set mtu to that")
}
