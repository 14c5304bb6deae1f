package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckStorage(t *testing.T) {
	for problem, spoil := range map[string]func(*Config){
		"--storage-lanes: has no effect without": func(c *Config) { c.StorageLanes = 4 },
		"--storage-lanes: -1 is out of range":    func(c *Config) { c.StorageLanes = -1 },
		"--write-lanes: has no effect alone": func(c *Config) {
			c.WriteDelay, c.WriteLanes = "1ms", 4
		},
		"--write-delay: 1000 calls in flight take over 5s on 1 lanes at 20ms each; use": func(
			c *Config) {
			c.InFlight, c.WriteDelay = 1000, "100ms+20ms"
			c.StorageLanes, c.WriteLanes = 8, 1
		},
		"--read-delay: cannot be combined with --service=echo": func(c *Config) {
			c.Service, c.ReadRatio, c.ReadDelay = ServiceEcho, 1, "1ms"
		},
		"--write-delay: \"soon\" is not a delay": func(c *Config) { c.WriteDelay = "soon" },
		"--read-delay: 1000 calls in flight": func(c *Config) {
			c.InFlight, c.ReadDelay, c.StorageLanes = 1000, "20ms", 2
		},
	} {
		c := Default()
		spoil(&c)
		require.ErrorContains(t, c.Validate(), problem)
	}
	c := Default()
	c.ReadDelay, c.InFlight = "20ms", 1000
	require.NoError(t, c.Validate(), "without a limit all are served at once")
	require.True(t, c.Stored())
}
