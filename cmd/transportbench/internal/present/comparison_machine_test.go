package present

import (
	"bytes"
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
