package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBytesPerToken(t *testing.T) {
	// What the models' makers and users of their caches state.
	for name, want := range map[string]int{"llama-3.1-8b": 131_072, "Llama-3.1-70B": 327_680,
		"deepseek-v3": 70_272} {
		var m Name
		require.NoError(t, m.Set(name))
		require.Equal(t, want, m.Shape().BytesPerToken())
	}
	require.ErrorContains(t, new(Name).Set("llama"), "use the path of its config.json")
}
