package memory

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

func TestMemory(t *testing.T) {
	for _, size := range []string{"4KiB", "1MiB"} {
		t.Run(size, func(t *testing.T) {
			m := NewDriver()
			transporttest.Run(t, transporttest.Suite{Driver: m, Kill: m.Kill,
				Options: map[string]string{"ring-size": size}})
		})
	}
}

func TestMemoryWithDefaults(t *testing.T) {
	transporttest.Run(t, transporttest.Suite{Driver: &Driver{}, MaxPayload: 1 << 20, InFlight: 100})
}

func TestMemoryRefusesWhatItCannotDo(t *testing.T) {
	m := NewDriver()
	options, err := transport.ParseOptions(m.Info().Options, nil)
	require.NoError(t, err)
	_, err = m.Open(t.Context(), transport.Config{MaxPayload: maxPayload + 1,
		Options: options})
	require.ErrorIs(t, err, transport.ErrUnsupported)

	opened, err := m.Open(t.Context(), transport.Config{Workers: 1, Peers: 1, Options: options})
	require.NoError(t, err)
	defer opened.Close()
	_, err = opened.NewWorker(1)
	require.ErrorIs(t, err, transport.ErrUnsupported)
	w, err := opened.NewWorker(0)
	require.NoError(t, err)
	_, err = opened.NewWorker(0)
	require.ErrorIs(t, err, transport.ErrUnsupported)
	require.ErrorIs(t, w.Connect(t.Context(), 0, []byte("elsewhere")), transport.ErrUnsupported)
	require.ErrorIs(t, w.Connect(t.Context(), 0, make([]byte, 8)), transport.ErrPeerDown)
	require.ErrorIs(t, w.Connect(t.Context(), transport.NoPeer, w.Address()),
		transport.ErrUnsupported)
}
