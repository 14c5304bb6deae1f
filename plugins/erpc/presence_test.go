package erpc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A rank that has no descriptor left cannot look for its peers, and they do not die of that.
func TestPresence(t *testing.T) {
	p, err := newPresence()
	require.NoError(t, err)
	require.NoError(t, findPresence(p.name))

	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: limit.Max}))
	failure, present := findPresence(p.name), isPresent(p.name)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	require.ErrorIs(t, failure, unix.EMFILE)
	require.True(t, present)

	p.close()
	require.False(t, isPresent(p.name))
	require.False(t, isPresent(""))
}
