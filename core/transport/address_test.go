package transport

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLocalAddress(t *testing.T) {
	local := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("fd00::3")}
	for text, want := range map[string]string{
		"192.0.2.1":        "192.0.2.1", // whoever has it
		"::1":              "::1",
		"::ffff:127.0.0.1": "127.0.0.1",
		"10.0.0.0/8":       "10.1.2.3",
		"10.1.2.3/32":      "10.1.2.3",
		"0.0.0.0/0":        "127.0.0.1",
		"fd00::/64":        "fd00::3",
	} {
		a, problem := localAddress(text, local)
		require.Empty(t, problem, text)
		require.Equal(t, want, a.String(), text)
	}
	for text, want := range map[string]string{
		"":             "neither an IP address nor a network",
		"localhost":    "neither an IP address nor a network",
		"10.0.0.0/33":  "neither an IP address nor a network",
		"192.0.2.0/24": "this host has no address in 192.0.2.0/24; it has 127.0.0.1, 10.1.2.3, fd00::3",
	} {
		_, problem := localAddress(text, local)
		require.Contains(t, problem, want, text)
	}
	a, err := LocalAddress("address", "127.0.0.0/8")
	require.NoError(t, err)
	require.True(t, a.IsLoopback())
	_, err = LocalAddress("address", "here")
	var wrong *OptionError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "address", wrong.Option)
}
