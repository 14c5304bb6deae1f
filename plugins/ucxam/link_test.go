package ucxam

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestLinkDown: in a new network namespace the link of the loopback is down.
func TestLinkDown(t *testing.T) {
	require.False(t, linkDown("lo"))
	require.False(t, linkDown("no-such-device"))
	require.False(t, linkDown(""))
	done := make(chan error)
	down := false
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with its namespace
		err := unix.Unshare(unix.CLONE_NEWNET)
		down = linkDown("mlx5_0:1,lo")
		done <- err
	}()
	if err := <-done; err != nil {
		t.Skipf("a network namespace needs CAP_SYS_ADMIN: %v", err)
	}
	require.True(t, down)
}
