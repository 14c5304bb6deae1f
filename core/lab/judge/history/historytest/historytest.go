package historytest

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/files"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Write writes a set for each throughput into a directory of its own, nights 1 to n, and returns
// dir. Each cell has repeats samples around it, and a latency of its inverse.
func Write(tb testing.TB, dir string, cells, repeats int, throughputs ...float64) string {
	tb.Helper()
	for night, throughput := range throughputs {
		s := set.New()
		for i := range cells {
			r := &result.Result{
				SchemaVersion: result.SchemaVersion, Kind: result.KindRun, ID: result.NewID(),
				StartedAt: time.Date(2026, 1, 1+night, 2, 0, i, 0, time.UTC),
				Config:    config.Default(),
				Tool: result.Tool{Version: fmt.Sprintf("0.%d.0", night),
					Revision: fmt.Sprintf("%040x", night+1)},
				Plugin: result.Plugin{Name: "shm", Version: "1", Provider: "memfd"},
			}
			r.Config.InFlight = i + 1
			for k := range repeats {
				value := throughput * (1 + 0.001*float64(k%3-1))
				r.Repeats = append(r.Repeats,
					result.Repeat{Index: k, Launch: k, StartedAt: r.StartedAt,
						Samples: map[string]float64{
							result.Throughput: value, result.LatencyP50: 1e9 / value,
							result.LatencyP99: 2e9 / value,
						}})
			}
			r.Summary = result.SummarizeRepeats(r.Repeats)
			require.NoError(tb, s.Add(r))
			s.Cells[len(s.Cells)-1].Results = []*result.Result{{Tool: r.Tool}}
		}
		at := filepath.Join(dir, fmt.Sprintf("night%04d", night+1))
		require.NoError(tb, files.MakeDir(at))
		require.NoError(tb, s.WriteIndex(at))
	}
	return dir
}
