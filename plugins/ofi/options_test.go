package ofi

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/amlib"
	"transportbench/core/fabric/fabrictest"
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
		"unknown provider": {map[string]string{optionProvider: "tpc"}, optionProvider,
			[]string{`no provider "tpc" here`, "shm", "tcp;ofi_rxm"}},
		"near provider": {map[string]string{optionProvider: "socket"}, optionProvider,
			[]string{`did you mean "sockets"?`}},
		"unknown domain": {map[string]string{optionProvider: "tcp", optionDomain: "nodev0"},
			optionDomain, []string{`no domain "nodev0"`, "lo"}},
		"cannot wait": {map[string]string{optionProvider: "shm", optionWakeUp: "true"},
			optionWakeUp, []string{"provider shm", "FI_WAIT_FD"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := open(fabrictest.Rank{Options: c.raw, MaxPayload: 64})
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

// TestBest: auto takes hardware if there is some, else shm, and between machines TCP.
func TestBest(t *testing.T) {
	list := func(names ...string) (found []fi.Interface) {
		for _, name := range names {
			found = append(found, fi.Interface{Provider: name})
		}
		return found
	}
	require.Equal(t, "shm", best(list("tcp;ofi_rxm", "shm", "sockets"), false))
	require.Equal(t, "tcp", best(list("tcp;ofi_rxm", "shm", "sockets"), true))
	for _, crosses := range []bool{false, true} {
		require.Equal(t, "verbs;ofi_rxm", best(list("tcp;ofi_rxm", "verbs;ofi_rxm", "shm"),
			crosses))
		require.Equal(t, "efa", best(list("verbs;ofi_rxm", "efa", "shm"), crosses))
	}
}

// TestEnvironment: on RDMA devices ofi_rxm shares receives, as large and as many as the options
// need.
func TestEnvironment(t *testing.T) {
	of := func(provider string, payload, peers, window int) map[string]string {
		s := &settings{provider: provider}
		s.worker.MaxPayload, s.worker.Peers, s.worker.Window = payload, peers, window
		return s.environment()
	}
	require.Equal(t, "64", of("shm", 32, 1, 16)["FI_UNIVERSE_SIZE"])
	require.Equal(t, "100", of("shm", 32, 100, 16)["FI_UNIVERSE_SIZE"])
	for _, provider := range []string{"shm", "tcp", "tcp;ofi_rxm"} {
		require.Len(t, of(provider, 32, 1, 16), 3)
	}
	for _, provider := range []string{providerAuto, "verbs", "verbs;ofi_rxm"} {
		small, large := of(provider, 32, 1, 16), of(provider, 64<<10, 100, 64)
		require.Equal(t, "1", small["FI_OFI_RXM_USE_SRX"])
		require.Equal(t, "128", small["FI_OFI_RXM_MSG_RX_SIZE"])
		require.Equal(t, "1280", of(provider, 32, 10, 64)["FI_OFI_RXM_MSG_RX_SIZE"])
		require.Equal(t, "4096", large["FI_OFI_RXM_MSG_RX_SIZE"])
		require.Equal(t, "1024", small["FI_OFI_RXM_BUFFER_SIZE"])
		require.Equal(t, "4160", of(provider, 4096, 1, 16)["FI_OFI_RXM_BUFFER_SIZE"])
		require.Equal(t, small["FI_OFI_RXM_BUFFER_SIZE"], small["FI_OFI_RXM_EAGER_LIMIT"],
			"verbs wants them to be equal")
		require.NotContains(t, large, "FI_OFI_RXM_BUFFER_SIZE", "libfabric's own size")
	}
}

// TestFit: a payload that no message of the provider can carry is refused, and memory that the
// provider pins is kept small.
func TestFit(t *testing.T) {
	s := &settings{}
	s.worker.MaxPayload, s.worker.LargeBytes = 1<<20, largeBytes
	require.NoError(t, s.fit(&fi.Interface{MaxMessage: 1<<20 + amlib.HeaderSize}))
	require.Equal(t, largeBytes, s.worker.LargeBytes)
	require.NoError(t, s.fit(&fi.Interface{MaxMessage: 1 << 30, MRMode: 1 << 2}))
	require.Equal(t, pinnedBytes, s.worker.LargeBytes)
	err := s.fit(&fi.Interface{Provider: "usnic", MaxMessage: 1 << 20})
	require.ErrorIs(t, err, transport.ErrTooLarge)
	require.ErrorContains(t, err, "the largest message of provider usnic is 1048576 bytes")
}

// TestTooManyPeers: provider shm has a limit of its own.
func TestTooManyPeers(t *testing.T) {
	needLibrary(t)
	options, err := transport.ParseOptions(schema, map[string]string{optionProvider: "shm"})
	require.NoError(t, err)
	_, err = Driver{}.Open(t.Context(), transport.Config{Workers: 1, Peers: shmPeers + 1,
		InFlight: 1, MaxPayload: 64, Options: options})
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
