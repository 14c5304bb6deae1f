package ucxam

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
)

// BenchmarkCrossing calls into C and back where there is nothing to do: what each Flush and Poll
// costs at least. Compare a build with the tag plaincgo (decision 0030).
func BenchmarkCrossing(b *testing.B) {
	needUCX(b)
	tr, w, err := open(fabrictest.Rank{Options: map[string]string{optionTLS: "posix"}})
	require.NoError(b, err)
	defer func() { require.NoError(b, tr.Close()) }()
	for b.Loop() {
		w.ucp.Flush()
	}
}
