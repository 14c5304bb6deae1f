package ofi

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	os.Exit(run(m))
}

// run runs the tests with a directory of shared memory, like a rank's: killed processes leave files.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp(shm.NamedDir, "ofi-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv(shm.EnvDir, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// patience is the time limit of a clause. Some clauses make a hundred workers.
const patience = time.Minute

// kill ends an endpoint without telling its peers.
func kill(t transport.Transport) {
	e := t.(*endpoint)
	_ = e.workers.Close(func(workers []*worker) error {
		for _, w := range workers {
			w.closed = true
		}
		return e.release(workers)
	})
}

func conform(t *testing.T, options, skip map[string]string) {
	t.Helper()
	needLibrary(t)
	transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Timeout: patience, Options: options, Kill: kill, Skip: skip})
}

func TestConformance(t *testing.T) {
	t.Run("shm", func(t *testing.T) { conform(t, map[string]string{optionProvider: "shm"}, nil) })
	t.Run("tcp", func(t *testing.T) { conform(t, map[string]string{optionProvider: "tcp"}, nil) })
}

// TestConformanceWakeUp runs what is about waiting, over the provider that has descriptors.
func TestConformanceWakeUp(t *testing.T) {
	needLibrary(t)
	suite := transporttest.Suite{Driver: Driver{}, Timeout: patience, Options: map[string]string{optionProvider: "tcp", optionWakeUp: "true"}}
	for _, clause := range []string{"wait/timeout", "wait/blocks", "wait/arrival-before", "wait/arrival-during", "wait/wake-before", "wait/wake-during", "wait/peer-lost", "call/once"} {
		t.Run(clause, func(t *testing.T) {
			failed, report, err := transporttest.RunClause(suite, clause)
			require.NoError(t, err)
			require.False(t, failed, report)
		})
	}
}
