package datagram_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/datagram"
	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
)

// limitedInline is a device that grants little inline data.
type limitedInline struct {
	rdma.Device
	grants int
}

func (s limitedInline) NewQueuePair(c rdma.QueuePairConfig) (rdma.QueuePair, error) {
	if c.MaxInline > s.grants {
		return nil, fmt.Errorf("%w: inline size", rdma.ErrInvalid)
	}
	return s.Device.NewQueuePair(c)
}

// TestInline: by default a port takes the inline size that the device grants; an explicit size must
// be granted.
func TestInline(t *testing.T) {
	for _, test := range []struct {
		grants, asked int
		inline        string // "" if OpenVerbs fails
	}{
		{grants: 360, inline: "188"},
		{grants: 100, inline: "60"},
		{grants: 32, inline: "0"},
		{grants: 100, asked: 100, inline: "100"},
		{grants: 100, asked: 101},
		{grants: 0, asked: -1, inline: "0"},
	} {
		d, err := devices.Open(rdma.Options{Provider: rdma.Soft})
		require.NoError(t, err)
		p, err := datagram.OpenVerbs(limitedInline{d, test.grants},
			datagram.VerbsOptions{Inline: test.asked})
		if test.inline == "" {
			require.ErrorContains(t, err, "inline size", test)
		} else {
			require.NoError(t, err, test)
			require.Equal(t, test.inline, p.Notes()["inline"], test)
			require.NoError(t, p.Close())
		}
		require.NoError(t, d.Close())
	}
}
