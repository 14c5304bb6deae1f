package micro

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBetweenTooManyThreads(t *testing.T) {
	_, err := new(Study).between(2 * 1031)
	require.ErrorContains(t, err,
		"--connections: 2062 between hosts take 1031 threads, and a rank has 1024 at most")
}
