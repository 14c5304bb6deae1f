package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
)

func TestMemoryIsLookedAtFirst(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		change    func(*config.Config)
		available uint64
		option    string // "" fits
	}{
		"default":       {func(*config.Config) {}, gib, ""},
		"unknown":       {func(c *config.Config) { c.Ranks = 1024 }, 0, ""},
		"ranks":         {func(c *config.Config) { c.Ranks = 1024 }, 8 * gib, "ranks"},
		"ranks, enough": {func(c *config.Config) { c.Ranks = 1024 }, 64 * gib, ""},
		"keys":          {func(c *config.Config) { c.Keys, c.ValueSize = 1<<24, config.FixedSize(4096) }, 8 * gib, "keys"},
		"in flight":     {func(c *config.Config) { c.InFlight, c.ValueSize = 1<<14, config.FixedSize(1<<20) }, 8 * gib, "in-flight"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			c.change(&cfg)
			err := checkMemory(cfg, c.available)
			if c.option == "" {
				require.NoError(t, err)
				return
			}
			var wrong *config.Error
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, c.option, wrong.Option)
			require.Contains(t, wrong.Problem, "8.0 GiB are available; use fewer")
		})
	}
	cluster := newCluster()
	req := request(cluster)
	req.Environment.Volatile.AvailableMemory = 1 << 20
	_, err := Run(t.Context(), req, nil)
	require.ErrorContains(t, err, "of memory")
	require.Empty(t, cluster.calls(-1))
}
