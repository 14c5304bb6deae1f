package ucxam

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
)

// BenchmarkPath moves calls and replies of 48 bytes through two workers on one thread.
func BenchmarkPath(b *testing.B) {
	if missing != "" {
		b.Skip(missing)
	}
	for _, batch := range []int{1, 32} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			fabrictest.Path{Options: map[string]string{optionTLS: "posix"}, Batch: batch,
				Bytes: 48}.Benchmark(b, Driver{})
		})
	}
}

// BenchmarkCrossing calls into C and back where there is nothing to do: what each Flush and Poll
// costs at least. Compare a build with the tag plaincgo (decision 0030).
func BenchmarkCrossing(b *testing.B) {
	if missing != "" {
		b.Skip(missing)
	}
	tr, w, err := fabrictest.Rank{Options: map[string]string{optionTLS: "posix"}}.Open(Driver{})
	require.NoError(b, err)
	defer tr.Close()
	for b.Loop() {
		w.(*worker).ucp.Flush()
	}
}
