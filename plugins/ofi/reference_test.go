package ofi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// The output has the columns that fi_pingpong prints, with figures that cannot be mistaken.
func TestReference(t *testing.T) {
	figure, found := references[0].Find([]byte(
		"bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n" +
			"64      20k     =20k     2.4m        0.02s     110.1       0.58       1.72\n"))
	require.True(t, found)
	require.Equal(t, transport.Figure{Value: 580, Samples: 20_000}, figure)
	_, found = references[0].Find([]byte("fi_getinfo: No data available\n"))
	require.False(t, found)
}
