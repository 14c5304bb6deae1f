//go:build !ucx || !cgo

package ucptest

import "transportbench/plugins/ucxam/internal/ucp"

// SendPack is not called, because there are no workers.
func SendPack(*ucp.Worker, int, []byte) {}
