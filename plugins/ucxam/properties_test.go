package ucxam

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transporttest"
)

// TestChosenTransport checks that a result shows UCX's choice, unless the user left it none, and
// that UCX's own work is not counted.
func TestChosenTransport(t *testing.T) {
	p := transporttest.Properties(t, Driver{}, nil)
	require.Equal(t, map[string]string{"tls": p.Provider}, p.Chosen)
	require.Equal(t, "UCX", p.Uncounted)
	require.Empty(t, transporttest.Properties(t, Driver{},
		map[string]string{"tls": "posix", "error-handling": "none"}).Chosen)
}
