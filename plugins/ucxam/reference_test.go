package ucxam

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
)

// The outputs have the columns that ucx_perftest prints, with figures that cannot be mistaken.
func TestReferences(t *testing.T) {
	for i, c := range []struct {
		output string
		want   transport.Figure
	}{
		{"iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw," +
			"avg_mr,overall_mr\n" +
			"1000,0.2,0.3,0.4,5,6,7,8\n4000,0.155,0.3,0.4,5,6,7,8\n",
			transport.Figure{Value: 155, Samples: 4000}},
		{"1562,0.140,inf,651.2,0.00,767.8,0,2000000\n",
			transport.Figure{Value: 2e6, Samples: 1562}},
	} {
		figure, found := references[i].Find([]byte(c.output))
		require.True(t, found)
		require.InDelta(t, c.want.Value, figure.Value, 1e-6)
		require.Equal(t, c.want.Samples, figure.Samples)
		_, found = references[i].Find([]byte("usage: ucx_perftest\n"))
		require.False(t, found)
	}
	for tls, inForce := range map[string]string{"": "all", "tcp": "tcp"} {
		s := settings{tls: tls, variables: map[string]string{"NET_DEVICES": "mlx5_0:1"}}
		require.Equal(t, map[string]string{"tls": inForce, "net-devices": "mlx5_0:1"},
			s.reference())
	}
}

// TestReferenceHasTheOptions: the transport hands its options on to ucx_perftest.
func TestReferenceHasTheOptions(t *testing.T) {
	needUCX(t)
	tr, _, err := open(fabrictest.Rank{Options: map[string]string{optionTLS: "tcp"},
		MaxPayload: 64})
	require.NoError(t, err)
	defer tr.Close()
	require.Equal(t, "tcp", tr.Properties().Reference["tls"])
}
