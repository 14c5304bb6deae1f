package ofi

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
	"transportbench/plugins/ofi/internal/fi"
)

// TestBadInput: what libfabric does not have is an error in one line, which names the option and
// what there is.
func TestBadInput(t *testing.T) {
	needLibrary(t)
	for name, c := range map[string]struct {
		raw    map[string]string
		option string
		words  []string
	}{
		"unknown provider": {map[string]string{optionProvider: "tpc"}, optionProvider, []string{`no provider "tpc" here`, "shm", "tcp;ofi_rxm"}},
		"near provider":    {map[string]string{optionProvider: "socket"}, optionProvider, []string{`did you mean "sockets"?`}},
		"unknown domain":   {map[string]string{optionProvider: "tcp", optionDomain: "nodev0"}, optionDomain, []string{`no domain "nodev0"`, "lo"}},
		"cannot wait":      {map[string]string{optionProvider: "shm", optionWakeUp: "true"}, optionWakeUp, []string{"provider shm", "FI_WAIT_FD"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := open(role{Options: c.raw, MaxPayload: 64})
			require.ErrorIs(t, err, transport.ErrUnavailable)
			require.NotContains(t, err.Error(), "\n")
			for _, word := range c.words {
				require.ErrorContains(t, err, word)
			}
			var option *transport.OptionError
			require.ErrorAs(t, err, &option)
			require.Equal(t, c.option, option.Option)
		})
	}
}

// TestBest: auto takes hardware if there is some, else shm.
func TestBest(t *testing.T) {
	list := func(names ...string) (found []fi.Interface) {
		for _, name := range names {
			found = append(found, fi.Interface{Provider: name})
		}
		return found
	}
	require.Equal(t, "shm", best(list("tcp;ofi_rxm", "shm", "sockets")))
	require.Equal(t, "verbs;ofi_rxm", best(list("tcp;ofi_rxm", "verbs;ofi_rxm", "shm")))
	require.Equal(t, "efa", best(list("verbs;ofi_rxm", "efa", "shm")))
}

// TestTooManyPeers: provider shm has a limit of its own.
func TestTooManyPeers(t *testing.T) {
	needLibrary(t)
	options, err := transport.ParseOptions(schema, map[string]string{optionProvider: "shm"})
	require.NoError(t, err)
	_, err = Driver{}.Open(t.Context(), transport.Config{Workers: 1, Peers: shmPeers + 1, InFlight: 1, MaxPayload: 64, Options: options})
	require.ErrorIs(t, err, transport.ErrUnsupported)
}

// TestStub: only a build without libfabric is unavailable.
func TestStub(t *testing.T) {
	require.Equal(t, missing, Driver{}.Info().Unavailable)
	if missing == "" {
		return
	}
	require.Contains(t, missing, "libfabric-dev")
	_, err := Driver{}.Open(context.Background(), transport.Config{})
	require.ErrorIs(t, err, transport.ErrUnavailable)
	require.ErrorContains(t, err, "libfabric-dev")
}
