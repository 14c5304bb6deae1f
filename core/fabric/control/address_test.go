package control

import (
	"net"
	"net/netip"
	"testing"

	"transportbench/core/transport"

	"github.com/stretchr/testify/require"
)

func TestLocalAddress(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1":        "192.0.2.1", // not checked
		"::1":              "::1",
		"::ffff:127.0.0.1": "127.0.0.1",
		"127.0.0.0/8":      "127.0.0.1",
	} {
		a, err := LocalAddress("address", text)
		require.NoError(t, err, text)
		require.Equal(t, want, a.String(), text)
	}
	for text, want := range map[string]string{
		"":               "neither an IP address nor a network",
		"localhost":      "neither an IP address nor a network",
		"10.0.0.0/33":    "neither an IP address nor a network",
		"203.0.113.0/24": "this host has no address in 203.0.113.0/24; it has 127.0.0.1",
	} {
		_, err := LocalAddress("address", text)
		var wrong *transport.OptionError
		require.ErrorAs(t, err, &wrong, text)
		require.Equal(t, "address", wrong.Option)
		require.Contains(t, wrong.Problem, want, text)
	}
}

func TestWithin(t *testing.T) {
	var local []net.Addr
	for _, text := range []string{"127.0.0.1/8", "10.1.2.3/24", "fe80::1/64", "fd00::3/64"} {
		ip, network, err := net.ParseCIDR(text)
		require.NoError(t, err)
		local = append(local, &net.IPNet{IP: ip, Mask: network.Mask})
	}
	for network, want := range map[string]string{
		"10.0.0.0/8":  "10.1.2.3",
		"10.1.2.3/32": "10.1.2.3",
		"0.0.0.0/0":   "127.0.0.1",
		"fd00::/64":   "fd00::3",
		"::/0":        "fd00::3",
	} {
		a, _ := within(netip.MustParsePrefix(network), local)
		require.Equal(t, want, a.String(), network)
	}
	a, has := within(netip.MustParsePrefix("fe80::/10"), local)
	require.False(t, a.IsValid())
	require.Equal(t, []string{"127.0.0.1", "10.1.2.3", "fd00::3"}, has)
}
