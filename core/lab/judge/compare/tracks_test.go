package compare

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/set"
)

// TestAlongTracks checks that transports are ranked on both tracks, although a cell that is the
// same on both is measured once, and that the tracks of one transport are compared.
func TestAlongTracks(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	add := func(transport, track, checksum string, centre float64) set.Cell {
		c := cell(map[string]string{"transport": transport, "verify_every": "1", "duration": "1s"},
			noisy(r, 10, centre, 0.005)...)
		if track != "" {
			c.Config["track"] = track
		}
		if checksum != "" {
			c.Config["options.checksum"] = checksum
			c.Plugin.Matched = map[string]string{"checksum": "header"}
		}
		return c
	}
	s := newSet(add("shm", "", "", 5e6), add("tcpx", "", "", 1e6), add("erpc", "", "all", 2e6),
		add("erpc", "matched", "header", 3e6))
	ranking, err := Along(s, "transport", Defaults())
	require.NoError(t, err)
	got := map[string][]string{}
	for _, group := range ranking.Groups {
		for _, candidate := range group.List {
			got[group.Cell] = append(got[group.Cell], candidate.Value)
		}
	}
	require.Equal(t, map[string][]string{"all": {"shm", "erpc", "tcpx"},
		"track=matched": {"shm", "erpc", "tcpx"}}, got)
	require.InDelta(t, 3e6, ranking.Groups[1].List[1].Metric.Median, 1e5,
		"erpc without its own checks")

	ranking, err = Along(s, "track", Defaults())
	require.NoError(t, err)
	require.Len(t, ranking.Groups, 1, "the others are the same on both")
	require.Equal(t, "matched", ranking.Groups[0].Leader)
	require.Equal(t, "shipped", ranking.Groups[0].List[1].Value)

	// A cell that is verified by sampling is not on the track matched.
	s.Cells[1].Config["verify_every"] = "16"
	s.Cells[0].Config["verify_every"] = "16"
	ranking, err = Along(s, "transport", Defaults())
	require.NoError(t, err)
	for _, group := range ranking.Groups {
		require.NotContains(t, group.Cell, "matched")
	}
}
