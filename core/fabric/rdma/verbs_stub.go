//go:build !ibverbs

package rdma

import "transportbench/core/transport"

func openVerbs(Options) (Device, error) {
	return nil, transport.Unavailable("built without libibverbs; install libibverbs-dev and a C " +
		"compiler, and build again (make build)")
}
