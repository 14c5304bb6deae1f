package sock

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// TestControlInDmabuf: the kernel returns EFAULT if bytes in a dmabuf are read as ordinary
// ones.
func TestControlInDmabuf(t *testing.T) {
	_, err := received(-1, unix.EFAULT)
	require.ErrorIs(t, err, transport.ErrUnavailable)
	require.ErrorContains(t, err, "the port of the option data-port")
	require.NoError(t, peeked(received(-1, unix.EFAULT)), "a socket with such bytes is open")
}
