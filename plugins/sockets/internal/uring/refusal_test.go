package uring

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// Sandboxes refuse io_uring with different errors. The filter holds for one thread, which ends.
func TestRefusedBySandbox(t *testing.T) {
	for _, c := range []struct {
		call  uint32
		errno unix.Errno
		want  string
	}{
		{unix.SYS_IO_URING_SETUP, unix.EPERM,
			"a seccomp filter or security module forbids io_uring"},
		{unix.SYS_IO_URING_SETUP, unix.EACCES,
			"a seccomp filter or security module forbids io_uring"},
		{unix.SYS_IO_URING_SETUP, unix.ENOSYS, "has no io_uring"},
		{unix.SYS_IO_URING_SETUP, unix.ENOMEM, "ulimit -l"},
		{unix.SYS_IO_URING_SETUP, unix.EINVAL, "needs Linux " + minimumKernel},
		{unix.SYS_IO_URING_REGISTER, unix.EPERM, "forbids io_uring"},
		{unix.SYS_IO_URING_ENTER, unix.EPERM, "forbids io_uring"},
	} {
		require.NoError(t, Check(), "without the filter")
		before := descriptors(t)
		result := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked
			if err := forbid(c.call, c.errno); err != nil {
				t.Errorf("seccomp: %v", err)
			}
			result <- Check()
		}()
		err := <-result
		require.ErrorIs(t, err, transport.ErrUnavailable)
		require.ErrorIs(t, err, c.errno)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "engine=epoll", "the remedy")
		require.NotContains(t, err.Error(), "\n")
		require.Equal(t, before, descriptors(t), "descriptors after %v", err)
	}
}

// A kernel that lacks an operation is refused by the operation's number.
func TestUnknownOperation(t *testing.T) {
	r := newRing(t)
	require.NoError(t, r.probe(opSend, opRecv))
	err := r.probe(probeOps - 1)
	if err == nil {
		t.Skip("this kernel has 64 operations")
	}
	require.ErrorIs(t, err, transport.ErrUnavailable)
	require.ErrorContains(t, err, "operation 63")
}
