package copyrpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transporttest"
)

// TestChosenProvider checks that a result shows which provider auto took.
func TestChosenProvider(t *testing.T) {
	p := transporttest.Properties(t, Driver{}, nil)
	require.Equal(t, map[string]string{"provider": p.Provider}, p.Chosen)
	p = transporttest.Properties(t, Driver{}, map[string]string{"provider": "soft"})
	require.Empty(t, p.Chosen)
	require.Equal(t, "none", p.Integrity)
	require.Empty(t, p.Uncounted)
}
