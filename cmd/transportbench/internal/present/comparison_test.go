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

// A transport that is faster in each state of the machine comes first, however often it was in the slow
// one. A cell that was in one state only is in the table of states, too.
func TestOrderOfCommonState(t *testing.T) {
	s := set.New()
	for _, c := range []struct {
		transport string
		far       int
		near      float64
	}{{"slow", 1, 2e6}, {"quick", 7, 3e6}, {"slowest", 0, 1e6}} {
		r := sample(c.transport, "kv", 1e6)
		r.Config.Repeats, r.Repeats = 10, nil
		for i := range 10 {
			bounce, rate := 50+float64(i)/10, c.near
			if i < c.far {
				bounce, rate = 6*bounce, rate/3
			}
			r.Repeats = append(r.Repeats, result.Repeat{Launch: i, Samples: map[string]float64{result.Throughput: rate},
				Before: result.Readings{Bounce: bounce}, After: result.Readings{Bounce: bounce}})
		}
		require.NoError(t, s.Add(r))
	}
	var out bytes.Buffer
	Comparison(&out, s)
	all, byState, found := strings.Cut(out.String(), "by state")
	require.True(t, found, out.String())
	for _, text := range []string{all, byState} {
		require.Regexp(t, `(?s)quick.*slow .*slowest`, text)
	}
	require.Contains(t, byState, "10 near")
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
