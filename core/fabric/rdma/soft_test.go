package rdma_test

import (
	"testing"

	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/rdma/rdmatest"
)

func TestSoftConformance(t *testing.T) {
	rdmatest.Run(t, rdmatest.Suite{
		Open: func() (rdma.Device, error) { return rdma.Open(rdma.Options{Provider: rdma.Soft}) },
	})
}
