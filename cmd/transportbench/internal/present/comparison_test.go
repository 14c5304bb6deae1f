package present

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
)

// A fact of the machine is no reason to doubt one row, and is written once.
func TestMachineFactsOnce(t *testing.T) {
	fact := set.Warning{Check: "spare_processor", Severity: result.Info, Message: "2 threads take all 2 processors", Scope: result.ScopeMachine}
	own := set.Warning{Check: "drift", Severity: result.Warning, Message: "the rate falls"}
	s := set.New()
	for _, transport := range []string{"shm", "erpc"} {
		s.Cells = append(s.Cells, set.Cell{
			Config:   map[string]string{"transport": transport, "profile": "kv"},
			Warnings: []set.Warning{fact, own},
		})
	}
	var out bytes.Buffer
	Warnings(&out, s)
	require.Equal(t, `info: this machine: spare_processor: 2 threads take all 2 processors
warning: shm kv: drift: the rate falls
warning: erpc kv: drift: the rate falls
`, out.String())
	require.Equal(t, "1 warning", cellChecks(&s.Cells[0]))
	s.Cells[0].Warnings = []set.Warning{fact}
	require.Equal(t, "ok", cellChecks(&s.Cells[0]))
}

// An interval over repeats of one launch says so.
func TestIntervalWithinLaunch(t *testing.T) {
	for _, within := range []bool{true, false} {
		r := sample("shm", "kv", 1e6)
		r.Config.Repeats, r.Repeats = 6, nil
		if within {
			r.Config.Launches = 1
		}
		for i := range 6 {
			launch := i
			if within {
				launch = 0
			}
			r.Repeats = append(r.Repeats, result.Repeat{Launch: launch, Samples: map[string]float64{result.Throughput: 1e6 + float64(i)}})
		}
		var one, table bytes.Buffer
		Result(&one, r)
		s := set.New()
		require.NoError(t, s.Add(r))
		Comparison(&table, s)
		for _, text := range []string{one.String(), table.String()} {
			require.Equal(t, within, strings.Contains(text, "within one launch"), text)
		}
	}
}
