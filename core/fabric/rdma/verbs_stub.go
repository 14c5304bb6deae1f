//go:build !ibverbs

package rdma

import "transportbench/core/transport"

// OpenVerbs opens a device of verbs. Package devices chooses between the providers.
func OpenVerbs(Options) (Device, error) {
	return nil, transport.Unavailable("built without libibverbs; install libibverbs-dev and a C " +
		"compiler, and build again (make build)")
}
