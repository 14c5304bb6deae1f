package runner

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/judge/check"
	"transportbench/core/lab/store/result"
)

// Runs of one repeat each merge into the result of one run that launches the ranks as often.
func TestMergeIsARunInOneGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := func(repeats int) *result.Result {
			req := request(newCluster())
			req.Config.Repeats, req.Config.Launches = repeats, 0
			r, err := Run(t.Context(), req, nil)
			require.NoError(t, err)
			return r
		}
		const repeats = 7
		whole := run(repeats)
		var parts []*result.Result
		for range repeats {
			parts = append(parts, run(1))
		}
		merged, err := check.Merge(parts)
		require.NoError(t, err)
		require.Equal(t, whole.Config, merged.Config)
		require.Len(t, merged.Repeats, repeats)
		require.Equal(t, 6, merged.Repeats[6].Index)
		require.Equal(t, whole.Summary[result.Throughput].N, merged.Summary[result.Throughput].N)
		require.Equal(t, repeats, merged.Summary[result.HarnessOverhead].N)
		require.Equal(t, whole.Placement, merged.Placement)
		require.Len(t, merged.Checks, len(whole.Checks))
		for i, c := range merged.Checks {
			require.Equal(t, whole.Checks[i].OK, c.OK, c.Name)
			if c.Name != "steal" { // which is this machine's, and not the same in each window
				require.Equal(t, whole.Checks[i].Message, c.Message, c.Name)
			}
		}
		require.NotEqual(t, parts[0].ID, merged.ID)
		require.Len(t, parts[0].Repeats, 1, "the parts stay as they are")
	})
}

func TestMergeKeepsWhatWentWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := func(c *cluster) *result.Result {
			req := request(c)
			req.Config.Repeats = 1
			r, err := Run(t.Context(), req, nil)
			require.NoError(t, err)
			return r
		}
		wrong := newCluster()
		wrong.edit = func(r *record.Report) {
			r.Clients[0].Failures = map[string]uint64{
				"stale-version": 2}
		}
		hanging := newCluster()
		hanging.fail = map[call]error{{1, opClose, 1}: errBroken}
		merged, err := check.Merge([]*result.Result{run(newCluster()), run(wrong), run(hanging)})
		require.NoError(t, err)
		require.True(t, merged.Failed())
		for _, c := range merged.Checks {
			if c.Name == "closed" {
				require.False(t, c.OK)
				require.Contains(t, c.Message, "broken")
			}
		}
	})
}

func TestMergeRefusesOtherPlugins(t *testing.T) {
	a, b := &result.Result{}, &result.Result{}
	b.Plugin.SHA256 = "another"
	_, err := check.Merge([]*result.Result{a, b})
	require.ErrorContains(t, err, "not the same plugin")
	_, err = check.Merge(nil)
	require.Error(t, err)
}
