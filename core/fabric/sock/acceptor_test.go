package sock

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Connections with a whole hello are decided on, the others are refused: when they end, and when
// there are more than the limit.
func TestAcceptor(t *testing.T) {
	o := Options{Address: netip.MustParseAddr("127.0.0.1"), Timeout: time.Minute}
	listener, at, err := o.Listen(0)
	require.NoError(t, err)
	l := NewAcceptor(listener, &o, 4, 0)
	require.False(t, l.Ready())
	dial := func(said string) int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Connect(fd, ToKernel(at)))
		if said != "" {
			_, err = unix.Write(fd, []byte(said))
			require.NoError(t, err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	verdicts := map[string]Verdict{"take": Taken, "drop": Close, "evil": Stranger, "wait": Wait}
	var seen []string
	taken := -1
	accept := func() {
		require.NoError(t, l.Accept(func(a *Arrival) Verdict {
			seen = append(seen, string(a.Hello))
			if string(a.Hello) == "take" {
				taken = a.FD
			}
			return verdicts[string(a.Hello)]
		}))
	}
	part := dial("ta")
	for _, hello := range []string{"take", "drop", "evil", "wait"} {
		dial(hello)
	}
	require.True(t, l.Ready())
	accept()
	require.ElementsMatch(t, []string{"take", "drop", "evil", "wait"}, seen)
	require.NoError(t, unix.Close(taken))
	require.Len(t, l.Waiting, 2, "the part of a hello, and the one whose owner is not known")
	require.Len(t, l.Interests(nil), 2, "the listener, and the part of a hello")
	require.Equal(t, uint64(1), l.Strangers)

	require.NoError(t, unix.Shutdown(part, unix.SHUT_WR))
	accept()
	require.Len(t, l.Waiting, 1)
	require.Equal(t, uint64(2), l.Strangers)

	for range strangersHeld + 3 {
		dial("")
	}
	accept()
	accept() // Accept takes as many as it may hold at a time
	require.Len(t, l.Waiting, strangersHeld)
	require.Equal(t, uint64(2+4), l.Strangers)
	verdicts["wait"] = Close
	accept()
	require.Len(t, l.Waiting, strangersHeld-1, "a whole hello is not dropped for silent ones")
	require.NoError(t, l.Close())
	require.Empty(t, l.Waiting)
}
