package datagram

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var loopbacks = map[string]netip.AddrPort{
	"ipv4": netip.MustParseAddrPort("127.0.0.1:0"),
	"ipv6": netip.MustParseAddrPort("[::1]:0"),
}

func openUDP(t *testing.T, o UDPOptions) *UDP {
	p, err := OpenUDP(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func TestUDPSmoke(t *testing.T) {
	for name, address := range loopbacks {
		for _, offload := range []Offload{OffloadOn, OffloadOff} {
			t.Run(fmt.Sprintf("%s-offload-%s", name, offload), func(t *testing.T) {
				a := openUDP(t, UDPOptions{Address: address, Offload: offload, MTU: 1472})
				b := openUDP(t, UDPOptions{Address: address, Offload: offload, MTU: 1472})
				to, err := a.Open(b.Address())
				require.NoError(t, err)
				from, err := b.Open(a.Address())
				require.NoError(t, err)
				sizes := []int{16, 1472, 0, 100, 100, 100, 50, 1472, 1472, 1472, 7}
				for i, size := range sizes {
					body := bytes.Repeat([]byte{byte(i)}, size)
					require.True(t, a.Send(to, body[:size/2], body[size/2:]))
				}
				require.NoError(t, a.Flush())
				packets := make([]Packet, 3)
				for i := 0; i < len(sizes); {
					require.NoError(t, b.Wait(time.Second))
					n, err := b.Receive(packets)
					require.NoError(t, err)
					for _, p := range packets[:n] {
						require.Equal(t, bytes.Repeat([]byte{byte(i)}, sizes[i]), append([]byte{}, p.Data...), "datagram %d", i)
						require.Equal(t, b.Source(from), p.Source)
						i++
					}
				}
				t.Log(a.Notes(), a.ReadStats(nil), b.ReadStats(nil))
			})
		}
	}
}
