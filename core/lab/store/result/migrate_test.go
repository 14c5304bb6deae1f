package result

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMigrateFrom1(t *testing.T) {
	for _, c := range []struct {
		plugin, command string
		probe, gone     string
		launch          int
	}{
		{"shm", "sweep", Floor, Library, 1},
		{"ucxam", "run", Library, Floor, 0},
	} {
		r, err := Parse(edited(t, func(d map[string]any) {
			d["schema_version"] = "1.4.0"
			d["argv"] = []any{"transportbench", c.command}
			d["plugin"].(map[string]any)["name"] = c.plugin
			for _, entry := range d["repeats"].([]any) {
				repeat := entry.(map[string]any)
				for _, field := range []string{"launch", "before", "after", "machine"} {
					delete(repeat, field)
				}
				samples := repeat["samples"].(map[string]any)
				samples[Floor], samples[FloorRatio], samples[OpTimeRatio] = 120, 2, 3
				repeat["floor_before"] = map[string]any{"name": "cache-line bounce",
					"round_trip_ns": 120, "samples": 10}
				repeat["floor_after"] = repeat["floor_before"]
			}
		}))
		require.NoError(t, err)
		require.Equal(t, SchemaVersion, r.SchemaVersion)
		require.Equal(t, "1.4.0", r.MigratedFrom)
		require.Equal(t, uint64(1<<64-1), r.Config.Seed, "64-bit integers must survive a migration")
		repeat := r.Repeats[1]
		require.Equal(t, c.launch, repeat.Launch)
		require.InDelta(t, 120, repeat.Samples[c.probe], 0)
		require.NotContains(t, repeat.Samples, c.gone)
		require.NotContains(t, repeat.Samples, OpTimeRatio)
		require.InDelta(t, 120, repeat.Before.CoreDistance, 0)
		if c.probe == Floor {
			require.InDelta(t, 120, repeat.After.Medium.RoundTrip, 0)
		} else {
			require.Nil(t, repeat.After.Medium)
			require.InDelta(t, 120, repeat.After.Library.RoundTrip, 0)
		}
	}
}

// TestMigrateCounters checks that counters of 1.x, which counted from the start of a rank, become
// those of each window, and that the first window of a launch has none.
func TestMigrateCounters(t *testing.T) {
	for command, want := range map[string][]uint64{"run": {0, 30}, "sweep": {0, 0}} {
		r, err := Parse(edited(t, func(d map[string]any) {
			d["schema_version"] = "1.4.0"
			d["argv"] = []any{"transportbench", command}
			value := 100
			for _, entry := range d["repeats"].([]any) {
				eachThread(entry, func(_ string, thread map[string]any) {
					thread["transport"] = []any{map[string]any{"name": "ring_full", "help": "posts",
						"value": value}}
				})
				value += 30
			}
		}))
		require.NoError(t, err, command)
		for i, grown := range want {
			for _, c := range r.Repeats[i].Clients() {
				if grown == 0 {
					require.Empty(t, c.Transport, "%s, repeat %d", command, i)
					continue
				}
				require.Len(t, c.Transport, 1, "%s, repeat %d", command, i)
				require.Equal(t, grown, c.Transport[0].Value)
			}
		}
	}
}
