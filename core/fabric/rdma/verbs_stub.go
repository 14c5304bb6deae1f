//go:build !ibverbs

package rdma

import "transportbench/core/transport"

// verbsMissing is the reason why this build has no verbs.
const verbsMissing = "built without libibverbs; install libibverbs-dev and a C compiler, and build again (make build)"

func openVerbs(Options) (Device, error) { return nil, transport.Unavailable("%s", verbsMissing) }
