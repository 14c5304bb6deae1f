package devices_test

import (
	"testing"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/devices"
)

func TestSoftConformance(t *testing.T) {
	runSuite(t, suite{
		Open: func() (rdma.Device, error) {
			return devices.Open(rdma.Options{Provider: rdma.Soft})
		},
	})
}
