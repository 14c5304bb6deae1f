package sock

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Keepalive probes fill the timeout, also one that is longer than the 127 s of a probe each second.
func TestKeepalivesFillTheTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{10 * time.Millisecond, time.Second, 10 * time.Second,
		127 * time.Second, 128 * time.Second, time.Hour} {
		o := Options{Address: netip.MustParseAddr("127.0.0.1"), Timeout: timeout}
		fd, err := o.newSocket(ToKernel(netip.AddrPortFrom(o.Address, 0)))
		require.NoError(t, err)
		interval, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)
		require.NoError(t, err)
		count, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		silence := time.Duration(interval*count) * time.Second
		require.InDelta(t, max(timeout, time.Second).Seconds(), silence.Seconds(),
			float64(interval)-0.5, timeout)
	}
}
