package rdma_test

import (
	"testing"

	"transportbench/core/rdma"
	"transportbench/core/rdma/rdmatest"
)

func TestSoftConformance(t *testing.T) {
	rdmatest.Run(t, rdmatest.Suite{
		Open: func() (rdma.Device, error) { return rdma.Open(rdma.Options{Provider: rdma.Soft}) },
	})
}
