package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestWhileUnreachable(t *testing.T) {
	down := fmt.Errorf("no route: %w", os.NewSyscallError("connect", unix.ENETUNREACH))
	refused := os.NewSyscallError("connect", unix.ECONNREFUSED)
	require.True(t, Unreachable(down))
	require.False(t, Unreachable(refused), "the host has answered")
	require.False(t, Unreachable(nil))

	tries := 0
	require.Equal(t, refused, WhileUnreachable(t.Context(), func() error {
		if tries++; tries < 3 {
			return down
		}
		return refused
	}))
	require.Equal(t, 3, tries)

	over := errors.New("peer-timeout, 5s, has passed")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	err := WhileUnreachable(ctx, func() error { return down })
	require.ErrorIs(t, err, over)
	require.EqualError(t, err,
		"peer-timeout, 5s, has passed: no route: connect: network is unreachable")
}
