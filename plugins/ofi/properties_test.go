package ofi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transporttest"
	"transportbench/plugins/ofi/internal/fi"
)

// TestProviderIsShown: a result has the provider, its version and attributes, and the choice of
// auto.
func TestProviderIsShown(t *testing.T) {
	needLibrary(t)
	t.Setenv("FI_OFI_RXM_SAR_LIMIT", "262144")
	p := transporttest.Properties(t, Driver{}, map[string]string{optionProvider: "tcp",
		optionDomain: "lo"})
	require.Equal(t, "tcp;ofi_rxm", p.Provider)
	require.Equal(t, "tcp", p.Medium)
	require.Equal(t, fi.Version(), p.Libraries["libfabric"])
	require.Equal(t, "libfabric", p.Uncounted)
	require.Equal(t, "lo", p.Notes["domain"])
	require.Equal(t, []string{"FI_EP_RDM", "FI_PROTO_RXM"},
		[]string{p.Notes["endpoint"], p.Notes["protocol"]})
	require.Equal(t, "262144", p.Notes["FI_OFI_RXM_SAR_LIMIT"])
	require.Regexp(t, `^\d+\.\d+$`, p.Notes["provider version"])
	require.Regexp(t, `^\d+$`, p.Notes["inject size"])
	require.Empty(t, p.Chosen)

	p = transporttest.Properties(t, Driver{}, nil)
	require.Equal(t, map[string]string{optionProvider: p.Provider}, p.Chosen)
	require.Contains(t, append(hardware, "shm"), p.Provider)
}
