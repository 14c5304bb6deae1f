package calibration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core/fabric/shm/inbox"
	"transportbench/core/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConformance runs the suite with nothing injected.
func TestConformance(t *testing.T) {
	for _, name := range inbox.Rings() {
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, transporttest.Suite{Driver: Driver{},
				Options: map[string]string{"ring": name}})
		})
	}
}

// TestConformanceSlow runs the suite with injections that keep the contract. Stalls are not among
// them: some clauses require that an idle transport takes a call at once.
func TestConformanceSlow(t *testing.T) {
	for name, options := range map[string]map[string]string{
		"short delay": {"delay": "50ns"},
		"delay":       {"delay": "20us"},
		"exponential": {"delay": "5us", "delay-distribution": "exponential"},
		"bimodal":     {"delay-distribution": "bimodal", "slow-delay": "100us", "slow-every": "10"},
		"rate":        {"rate": "200000"},
		"times":       {"client-time": "2us", "daemon-time": "3us"},
		"together":    {"delay": "2us", "rate": "200000", "daemon-time": "1us"},
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Options: options})
		})
	}
}

// TestFaultsAreFound checks that the suite finds each fault.
func TestFaultsAreFound(t *testing.T) {
	for _, c := range []struct{ option, clause, says string }{
		{"lose-every", "call/once", "timed out waiting for the responses to all calls"},
		{"corrupt-every", "echo/sizes", "differs at byte"},
		{"duplicate-every", "call/once", "which no call in flight has"},
		{"reorder-every", "call/ordered", "the number of a request, in the order of posting"},
	} {
		t.Run(c.option, func(t *testing.T) {
			suite := transporttest.Suite{Driver: Driver{},
				Options: map[string]string{c.option: "20"}, Timeout: 2 * time.Second}
			failed, report, err := transporttest.RunClause(suite, c.clause)
			require.NoError(t, err)
			require.True(t, failed, "the suite passes a transport with %s", c.option)
			require.Contains(t, report, c.says)

			suite.Options[c.option] = "0"
			failed, report, err = transporttest.RunClause(suite, c.clause)
			require.NoError(t, err)
			require.False(t, failed, report)
		})
	}
}
