package ucxam

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// twoRails has the form of ucp_ep_print_info of UCX 1.13 and later.
const twoRails = `#
# UCP endpoint 0x7f1234567000
#
#               peer: 10.0.0.1:4711
#                 lane[0]:  5:rc_mlx5/mlx5_0:1.0 md[3]      -> md[3]/ib/sysdev[3] rma_bw#0 am am_bw#0
#                 lane[1]:  9:rc_mlx5/mlx5_2:1.0 md[4]      -> md[4]/ib/sysdev[5] rma_bw#1 am_bw#1
#                 lane[2]:  7:ud_mlx5/mlx5_3:1.0 md[5]      -> md[5]/ib/sysdev[6] wireup
#                 lane[3]:  1:tcp/eth0.0 md[1]              -> md[1]/tcp/sysdev[255] keepalive
#
#                am_send: 0..<egr/short>..2038..<egr/bcopy>..8246..<rndv>..(inf)
#
`

func TestDescription(t *testing.T) {
	messages, err := laneOf(twoRails)
	require.NoError(t, err)
	require.Equal(t, []string{"mlx5_0:1", "mlx5_2:1"}, portsOf(messages, twoRails),
		"wire-up and keepalive carry no data")
	require.Equal(t, map[string]string{
		"lanes": "rc_mlx5/mlx5_0:1 for rma_bw#0 am am_bw#0; rc_mlx5/mlx5_2:1 for " +
			"rma_bw#1 am_bw#1; ud_mlx5/mlx5_3:1 for wireup; tcp/eth0 for keepalive",
		"protocols_am_send": "0..<egr/short>..2038..<egr/bcopy>..8246..<rndv>..(inf)",
	}, descriptionOf(twoRails))
	require.Equal(t, []string{"mlx5_0:1"}, portsOf(messages, "nothing that is understood"))
}
