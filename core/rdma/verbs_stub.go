//go:build !ibverbs

package rdma

// verbsMissing says why there are no verbs.
const verbsMissing = "built without libibverbs; install libibverbs-dev and a C compiler, and build again (make build)"

func openVerbs(Options) (Device, error) { return nil, unavailable(verbsMissing) }
