package compare

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

func TestAlong(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	add := func(transport, inFlight, ring string, centre float64) set.Cell {
		config := map[string]string{"transport": transport, "in_flight": inFlight}
		c := cell(config, noisy(r, 10, centre, 0.005)...)
		c.Plugin.Provider = transport
		if ring != "" {
			c.Config["options.ring"] = ring
		}
		return c
	}
	s := newSet(
		add("shm", "1", "", 1e6), add("ucxam", "1", "", 2e6), add("erpc", "1", "", 1.9e6),
		add("shm", "8", "", 8e6), add("ucxam", "8", "", 8e6),
		add("shm", "64", "", 8e6),
	)
	ranking, err := Along(s, "transport", Defaults())
	require.NoError(t, err)
	require.Len(t, ranking.Groups, 2, "only one cell has 64 in flight")
	require.Equal(t, 3+1, ranking.Tests, "all pairs")
	first := ranking.Groups[0]
	require.Equal(t, "in_flight=1", first.Cell)
	require.Equal(t, "ucxam", first.Leader)
	require.Equal(t, []string{"ucxam", "erpc", "shm"},
		[]string{first.List[0].Value, first.List[1].Value, first.List[2].Value})
	require.InDelta(t, 1.0, *first.List[2].Behind, 0.02)
	require.Equal(t, []string{"a", "b", "c"}, []string{first.List[0].Group, first.List[1].Group,
		first.List[2].Group})
	require.Len(t, first.Pairs, 3)
	require.Equal(t, first.List[2].Behind, first.Pairs[1].Change)
	text, err := json.Marshal(first)
	require.NoError(t, err)
	var fields struct {
		Pairs []map[string]any `json:"pairs"`
	}
	require.NoError(t, json.Unmarshal(text, &fields))
	last := fields.Pairs[2] // neither is the best
	require.Equal(t, []any{"shm", "erpc", "BETTER"},
		[]any{last["old"], last["new"], last["verdict"]})
	require.InDelta(t, 0.9, last["change"], 0.02)
	require.Less(t, last["low"], last["change"])
	require.Greater(t, last["high"], last["change"])
	require.Less(t, last["p_holm"], 0.05)
	require.Empty(t, ranking.Groups[1].Leader)
	require.Equal(t, []string{"a", "a"}, []string{ranking.Groups[1].List[0].Group,
		ranking.Groups[1].List[1].Group})
	require.Equal(t, Leader{result.Throughput, "ucxam", 1, 2}, ranking.Leaders[0])

	s = newSet(add("shm", "1", "lamport", 1e6), add("shm", "1", "onesided", 2e6),
		add("shm", "1", "third", 2e6))
	for _, axis := range []string{"ring", "options.ring"} {
		ranking, err = Along(s, axis, Defaults())
		require.NoError(t, err)
		require.Len(t, ranking.Groups, 1)
	}
	_, err = Along(s, "in-flight", Defaults())
	require.Error(t, err, "only one value")
	_, err = Along(s, "colour", Defaults())
	require.ErrorContains(t, err, `no cell has the option "colour"`)

	s.Environments = append(s.Environments,
		set.Environment{Identity: map[string]string{"cpu": "other"}})
	s.Cells[1].Environment = 1
	_, err = Along(s, "ring", Defaults())
	require.ErrorContains(t, err, "cpu (some and other)")
}

// Several cells of one transport are told apart by their own options.
func TestAlongNamesVariants(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	s := newSet(
		cell(map[string]string{"options.ring": "lamport"}, noisy(r, 10, 1e6, 0.01)...),
		cell(map[string]string{"options.ring": "onesided"}, noisy(r, 10, 3e6, 0.01)...),
		cell(map[string]string{"transport": "ucxam"}, noisy(r, 10, 2e6, 0.01)...),
	)
	ranking, err := Along(s, "transport", Defaults())
	require.NoError(t, err)
	require.Equal(t, "shm ring=onesided", ranking.Groups[0].Leader)
	require.Equal(t, "all", ranking.Groups[0].Cell)
}

// A value further down the list is never closer to the best, whatever the shifts are.
func TestLeadsAscend(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	for range 50 {
		var cells []set.Cell
		for _, transport := range []string{"shm", "ucxam", "erpc", "tcpx", "ofi"} {
			cells = append(cells, cell(map[string]string{"transport": transport},
				noisy(r, 5, 1e6, 0.5)...))
		}
		ranking, err := Along(newSet(cells...), "transport", Defaults())
		require.NoError(t, err)
		list := ranking.Groups[0].List
		require.Nil(t, list[0].Lead)
		for i := range list[1:] {
			require.InDelta(t, list[0].Metric.Median/list[i+1].Metric.Median-1, *list[i+1].Lead,
				1e-9, "one state: the ratio of the medians")
			if i > 0 {
				require.GreaterOrEqual(t, *list[i+1].Lead, *list[i].Lead)
			}
		}
	}
}

// Every cell that was not compared is named, with the reason.
func TestLeftOut(t *testing.T) {
	failed := cell(map[string]string{"transport": "erpc"})
	failed.Status, failed.Reason = set.Failed, "it crashed"
	bad := cell(map[string]string{"transport": "ofi"}, 1, 2)
	bad.Warnings = []result.Finding{{Name: "complete", Severity: result.Error,
		Message: "calls are missing"}}
	ranking,
		err := Along(newSet(cell(nil, 1, 2), cell(map[string]string{"transport": "tcpx"}, 1, 2),
		failed, bad,
		cell(map[string]string{"in_flight": "8"}, 1, 2)), "transport", Defaults())
	require.NoError(t, err)
	require.Equal(t, []Single{
		{"erpc in_flight=1", "failed", "failed: it crashed"},
		{"ofi in_flight=1", "measured", "check complete failed: calls are missing"},
		{"shm in_flight=8", "measured", "no other cell with the metrics differs only in transport"},
	}, ranking.LeftOut)
}
