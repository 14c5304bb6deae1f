package daemon

import "transportbench/core/base/config"

func testConfig() config.Config {
	cfg := config.Default()
	cfg.Transport = "memory"
	cfg.Keys, cfg.InFlight = 64, 8
	return cfg
}
