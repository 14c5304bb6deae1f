package rank

import (
	"fmt"

	"transportbench/core/base/config"
	"transportbench/core/transport"
)

// checkDeviceWorkload returns an error if the workload reads values, which the client would have to
// verify in device memory, or if daemons pass them on.
func checkDeviceWorkload(cfg *config.Config) error {
	if cfg.Delegate {
		return fmt.Errorf("transport %s leaves payloads in device memory, and --delegate passes "+
			"them on through host memory: %w by this runtime; leave one of them out",
			cfg.Transport, transport.ErrUnsupported)
	}
	if !cfg.ReadsValues() {
		return nil
	}
	return fmt.Errorf("transport %s leaves payloads in device memory, and reads need them in "+
		"host memory: %w by this runtime; "+
		"use a workload that only writes, such as --profile bulk, or transport options that keep "+
		"payloads in host memory",
		cfg.Transport, transport.ErrUnsupported)
}
