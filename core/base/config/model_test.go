package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBytesPerToken(t *testing.T) {
	// What the models' makers and users of their caches state.
	for name, want := range map[string]Size{"llama-3.1-8b": 131_072, "Llama-3.1-70B": 327_680,
		"deepseek-v3": 70_272} {
		m, err := ModelByName(name)
		require.NoError(t, err)
		require.Equal(t, want, m.BytesPerToken())
	}
	_, err := ModelByName("llama")
	require.ErrorContains(t, err, "for another one use --bytes-per-token")
}
